"""Eager start: running a coroutine without a task until it first waits.

Creating a task and the turn of the event loop until it runs cost more than rounding a small
tensor. Python 3.12 has :func:`asyncio.eager_task_factory` for this; Python 3.11 and uvloop have
no such function.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any


def start(
    coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop
) -> asyncio.Task[None] | None:
    """Run a coroutine until it first waits; return a task for the rest, or None if it has ended.

    Before its first wait the coroutine has no current task, so it must not use
    :func:`asyncio.timeout`. Raises the exceptions that it raises before its first wait.
    """
    try:
        waits_for = coroutine.send(None)
    except StopIteration:
        return None
    return loop.create_task(_rest(coroutine, waits_for))


@types.coroutine
def _rest(coroutine: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    """Run the rest of a coroutine that waits for ``waits_for``."""
    while True:
        try:
            try:
                value = yield waits_for
            except BaseException as error:  # the awaited future failed, or the task was cancelled
                # Break the cycle future > exception > traceback > frames > future.
                waits_for = None
                waits_for = coroutine.throw(error)
            else:
                waits_for = coroutine.send(value)
        except StopIteration:
            return
