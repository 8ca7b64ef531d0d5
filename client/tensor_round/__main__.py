"""``python -m tensor_round`` runs the command ``tensor-round``."""

from __future__ import annotations

from importlib import import_module

if __name__ == "__main__":
    import_module("tensor_round_cli.__main__").main()
