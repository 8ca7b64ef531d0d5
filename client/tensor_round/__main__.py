"""``python -m tensor_round`` runs the command ``tensor-round``."""

from .cli import main

if __name__ == "__main__":
    main()
