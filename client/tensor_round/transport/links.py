"""The one seam between what a client does and how bytes travel.

:class:`~tensor_round.session.Session` is written once, as coroutines, over a
:class:`Link`. On an asynchronous link they run in the caller's event loop. On a
blocking one everything blocks where it stands, so that no coroutine ever waits for a
loop, and :func:`run` has its result in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from ..deadline import Deadline
from ..exchange import Request
from ..intake import Intake

T = TypeVar("T")
#: From an answer's status and headers, what takes its body.
Reception = Callable[[int, Mapping[str, str]], Intake[T]]
#: What is done with one of many items.
Work = Callable[[T], Coroutine[Any, Any, None]]


class Link(Protocol):
    """What a session needs of the world."""

    async def fetch(self, request: Request, reception: Reception[T], deadline: Deadline) -> T:
        """Send a request, and what its answer's intake ends in."""

    async def pause(self, seconds: float, deadline: Deadline) -> None:
        """Let time pass."""

    async def each(
        self,
        work: Work[T],
        items: Iterator[T],
        workers: int,
        deadline: Deadline,
    ) -> None:
        """Work on every item, several at a time; the first error ends all, and is raised."""

    async def close(self) -> None:
        """Close every connection."""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine on a blocking link: it has run to its end in one step."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise AssertionError("a coroutine on a blocking link waited for an event loop")
