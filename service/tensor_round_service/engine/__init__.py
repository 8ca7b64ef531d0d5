"""A call on memory: the engine, a request's job, the budget in bytes, what a backend has proved.

Nothing here knows HTTP. ``Engine`` is what other programs use as a library.
"""

from .engine import Engine

__all__ = ["Engine"]
