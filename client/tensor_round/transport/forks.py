"""What a forked child resets: connections, and locks that another thread of the parent may hold."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """An object that a forked child resets."""

    def reset_after_fork(self) -> None:
        """Reset the object; the child has no other threads."""


_OBJECTS: weakref.WeakSet[Forkable] = weakref.WeakSet()


def reset_in_children(thing: Forkable) -> None:
    """Reset an object in every child that is forked while the object lives."""
    _OBJECTS.add(thing)


def _reset_all() -> None:
    for thing in list(_OBJECTS):
        thing.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)
