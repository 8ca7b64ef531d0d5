"""The command ``tensor-round``; without its extra it says what to install."""

from __future__ import annotations

import sys

EXTRA_MISSING = "tensor-round needs the cli extra: pip install 'tensor-round[cli]'"


def main() -> None:
    """Run the command line."""
    try:
        from .app import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("tensor_round"):
            raise
        sys.exit(f"{EXTRA_MISSING} ({error.name} is not installed)")
    run()


if __name__ == "__main__":
    main()
