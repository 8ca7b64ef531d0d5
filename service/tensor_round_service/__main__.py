"""The command ``tensor-round-service``."""

from __future__ import annotations

import sys
from functools import partial

RAY_MISSING = "tensor-round-service ray needs two extras: pip install 'tensor-round[service,ray]'"
EXTRA_MISSING = "tensor-round-service needs the service extra: pip install 'tensor-round[service]'"


def main() -> None:
    """Run the command line."""
    arguments = sys.argv[1:]
    try:
        if arguments[:1] == ["ray"]:
            from .fleet.options import read_options

            options = read_options(arguments[1:])
            from .fleet.command import keep  # imports Ray, for which an option sets a variable

            run = partial(keep, options)
        else:
            from .process.serve import run as serve

            run = partial(serve, arguments)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("tensor_round"):
            raise
        missing = RAY_MISSING if error.name == "ray" else EXTRA_MISSING
        sys.exit(f"{missing} ({error.name} is not installed)")
    sys.exit(run())


if __name__ == "__main__":
    main()
