"""Coroutines that run until they first wait, without a task."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


def start_eagerly(
    coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop
) -> asyncio.Task[None] | None:
    """Run a coroutine until it first waits; return a task for the rest, or None if it has ended.

    Creating a task and the turn of the event loop until it runs cost more than rounding a small
    tensor. Python 3.12's eager tasks save the turn but not the task: a request that never waits
    costs 0.35 us more with them (bench/NOTES.md), and Python 3.11 has none.

    Before its first wait the coroutine has no current task, so it must not use
    :func:`asyncio.timeout`. Raises the exceptions that it raises before its first wait.
    """
    try:
        waits_for = coroutine.send(None)
    except StopIteration:
        return None
    return loop.create_task(_Rest(coroutine, waits_for))


class _Rest(Coroutine[Any, Any, None]):
    """A coroutine that has been started and waits for ``waits_for``.

    None is the event loop's next turn, which has come when a task first calls :meth:`send`.
    """

    __slots__ = ("_coroutine", "_waits_for")

    def __init__(self, coroutine: Coroutine[Any, Any, None], waits_for: Any) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for

    def send(self, value: Any) -> Any:
        """Return what the coroutine waits for, once; without it, resume the coroutine."""
        waits_for, self._waits_for = self._waits_for, None
        return self._coroutine.send(value) if waits_for is None else waits_for

    def throw(self, *error: Any) -> Any:
        """Raise an exception where the coroutine waits."""
        self._waits_for = None
        try:
            return self._coroutine.throw(*error)
        finally:
            # Break the cycle exception > traceback > frames > this frame > exception.
            del error

    def close(self) -> None:
        """Close the coroutine."""
        self._coroutine.close()

    def __await__(self) -> Any:
        return self
