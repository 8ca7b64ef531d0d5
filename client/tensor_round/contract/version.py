"""This package's version."""

from __future__ import annotations

from importlib.metadata import version

__version__ = version("tensor-round")
