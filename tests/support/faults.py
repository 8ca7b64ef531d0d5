"""Fault points: one or more for each stage of a request, where anything can be made to fail.

A point names a function of the service; while :func:`failing` is entered, that function
raises instead of its work, or after it. Nothing of this is in the service, which so has
no switch that could be thrown, and pays nothing for one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from tensor_round_service.backends.cpu import backend
from tensor_round_service.engine.job import Job
from tensor_round_service.engine.memory import Memory
from tensor_round_service.http1 import connection
from tensor_round_service.http1.receiving import BodyReceiver, ReceivedRequest
from tensor_round_service.http1.response import Response
from tensor_round_service.oip import codec
from tensor_round_service.oip.plan import InferencePlan
from tensor_round_service.routes import tensor_route, tensors
from tensor_round_service.routes.tensors import Document

#: A failure for ever.
ALWAYS = -1


class OutOfMemoryError(MemoryError):
    """What CuPy raises where a device has no memory: a MemoryError of its own."""


@dataclass(frozen=True)
class Point:
    """A function that can be made to fail, ``when`` its work is still to do or just done."""

    owner: Any
    name: str
    when: Literal["before", "after"] = "before"

    def __str__(self) -> str:
        return f"{self.when}-{self.owner.__name__.rpartition('.')[2]}.{self.name}"


#: Every stage of a request, in order.
STAGES: dict[str, list[Point]] = {
    "receive": [
        Point(ReceivedRequest, "receive_into"),
        Point(ReceivedRequest, "receive_into", "after"),
        Point(BodyReceiver, "fill", "after"),
        Point(tensors, "read_all", "after"),
    ],
    "admit": [
        Point(Job, "reserve_first"),
        Point(Job, "reserve_first", "after"),
        Point(Job, "reserve_rest", "after"),
        Point(Job, "reserve"),
        Point(Job, "reserve", "after"),
    ],
    "allocate": [Point(Memory, "allocate"), Point(Memory, "allocate", "after")],
    "copy_in": [Point(backend.NumpyBackend, "round"), Point(backend, "copy_strided", "after")],
    "launch": [
        Point(backend.NumpyBackend, "_round_run"),
        Point(backend.NumpyBackend, "_round_run", "after"),
    ],
    "copy_out": [Point(backend.NumpyBackend, "round", "after")],
    "encode": [
        Point(tensor_route, "sha256", "after"),
        Point(Document, "response", "after"),
        Point(InferencePlan, "header_with_data"),
        Point(codec, "write_response", "after"),
    ],
    "send": [Point(Response, "__init__"), Point(connection, "head_bytes", "after")],
}


class Fault:
    """What a point does while it fails: raises ``error`` so many ``times``, and counts."""

    def __init__(self, error: type[Exception], times: int) -> None:
        self._error = error
        self._left = times
        self.count = 0

    def strike(self) -> None:
        """Raise, unless that was often enough."""
        if self._left:
            self._left -= 1
            self.count += 1
            raise self._error("injected")


@contextmanager
def failing(point: Point, error: type[Exception], times: int = ALWAYS) -> Iterator[Fault]:
    """Make a point fail the next so many ``times``."""
    fault = Fault(error, times)
    original = inspect.getattr_static(point.owner, point.name)
    setattr(point.owner, point.name, _faulty(original, fault, point.when))
    try:
        yield fault
    finally:
        setattr(point.owner, point.name, original)


def _faulty(original: Callable[..., Any], fault: Fault, when: str) -> Callable[..., Any]:
    async def later(*values: Any, **named: Any) -> Any:
        if when == "before":
            fault.strike()
        result = await original(*values, **named)
        if when == "after":
            fault.strike()
        return result

    def now(*values: Any, **named: Any) -> Any:
        if when == "before":
            fault.strike()
        result = original(*values, **named)
        if when == "after":
            fault.strike()
        return result

    return functools.wraps(original)(later if inspect.iscoroutinefunction(original) else now)
