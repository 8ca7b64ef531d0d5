"""The service with a supervisor that soon takes a silent worker for frozen."""

from __future__ import annotations

import sys

from support.services.server import Service
from tensor_round_service.process import serve, workers

SECONDS = 3.0


class ImpatientService(Service):
    """Such a process; a context manager."""

    module = "support.services.impatient_service"


def main() -> int:
    workers.FROZEN_SECONDS = SECONDS
    return serve.run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
