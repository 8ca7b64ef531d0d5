"""Coroutines run without a task until they first wait.

A task costs its making and a turn of the event loop, together more than rounding a small
tensor. Python 3.12 has this as :func:`asyncio.eager_task_factory`; 3.11 and uvloop do not.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any


def start(
    coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop
) -> asyncio.Task[None] | None:
    """Run a coroutine here and now; from its first wait on as the task that is returned.

    Until then it is in no task: it must not ask for the current one, as
    :func:`asyncio.timeout` does. Raises what it raises before it waits.
    """
    try:
        waits_for = coroutine.send(None)
    except StopIteration:
        return None
    return loop.create_task(_rest(coroutine, waits_for))


@types.coroutine
def _rest(coroutine: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    """What is left of a coroutine that waits."""
    while True:
        try:
            try:
                value = yield waits_for
            except BaseException as error:  # what it waited for failed, or the task was cancelled
                # Break the cycle future > exception > traceback > frames > future.
                waits_for = None
                waits_for = coroutine.throw(error)
            else:
                waits_for = coroutine.send(value)
        except StopIteration:
            return
