"""The memory of a request: taken before its body is read, given back on every path."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from .backends import Bytes


class Lease:
    """The buffers of one request; a context manager that gives them all back."""

    def __init__(self, allocate: Callable[[int], Bytes]) -> None:
        self._allocate = allocate
        self._taken: list[Bytes] = []

    def take(self, nbytes: int) -> Bytes:
        """Memory of that many bytes, contents undefined, until the lease ends."""
        memory = self._allocate(nbytes)
        self._taken.append(memory)
        return memory

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._taken.clear()
