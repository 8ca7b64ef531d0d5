"""The command ``tensor-round-service``."""

from __future__ import annotations

import sys

EXTRA_MISSING = "tensor-round-service needs the service extra: pip install 'tensor-round[service]'"


def main() -> None:
    """Run the command line."""
    try:
        from .process.serve import run

        # What serves is imported later: some of the extra may be installed for other packages.
        sys.exit(run(sys.argv[1:]))
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("tensor_round"):
            raise
        sys.exit(f"{EXTRA_MISSING} ({error.name} is not installed)")


if __name__ == "__main__":
    main()
