"""``python -m tensor_round`` is ``tensor-round``."""

from .cli import main

if __name__ == "__main__":
    main()
