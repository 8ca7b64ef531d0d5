"""Comparing rounding directions on an array: its tiles are sent, and their responses joined."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from ..arrays.tiles import Tile
from ..contract.differences.document import Differences, joined
from ..contract.host import Array, runs
from ..contract.operators.dialects import IEEE754Round
from ..contract.progress import ProgressCallback, counted
from ..transport.concurrency import Deadline, Work
from ..transport.exchange import Request, document_reader, tensor_request
from .execution import Send

_OPERATOR = IEEE754Round()


class Part(NamedTuple):
    """A run of elements, and the number of elements before it."""

    start: int
    elements: Array


#: Works on every part, several at a time, until the deadline.
ForEach = Callable[[Work[Part], Iterator[Part], Deadline], Awaitable[None]]


class Comparisons:
    """The comparisons of one session; a small array is sent whole, in its own shape."""

    def __init__(
        self,
        send: Send[dict[str, Any]],
        for_each: ForEach,
        tile_bytes: int,
        *,
        digest: bool,
    ) -> None:
        self._send = send
        self._for_each = for_each
        self._tile_bytes = tile_bytes
        self._digest = digest

    async def compare(
        self, array: Array, dtype: str, progress: bool | ProgressCallback, deadline: Deadline
    ) -> Differences:
        """Compare the directions; see :meth:`Client.compare`."""
        shape = array.shape
        _OPERATOR.prepare(dtype, shape)
        limit = max(1, self._tile_bytes // array.itemsize)
        if array.size <= limit:
            with counted(progress, array.nbytes, "comparing") as add:
                whole = await self._compare_run(array, dtype, shape, deadline)
                add(array.nbytes)
            return whole
        found: list[tuple[int, Differences]] = []
        with counted(progress, array.nbytes, "comparing") as add:

            async def work(part: Part) -> None:
                flat = (part.elements.size,)
                differences = await self._compare_run(part.elements, dtype, flat, deadline)
                found.append((part.start, differences))
                add(part.elements.nbytes)

            await self._for_each(work, _parts(array, limit), deadline)
        return joined(found, dtype, shape)

    async def _compare_run(
        self, elements: Array, dtype: str, shape: tuple[int, ...], deadline: Deadline
    ) -> Differences:
        tile = Tile(_OPERATOR.prepare(dtype, shape), elements, elements, False)

        def make_request() -> Request:
            payload = tile.payload()
            return tensor_request(tile.prepared, payload, digest=self._digest, path="/compare")

        make_reader = partial(document_reader, digest=self._digest)
        document = await self._send(make_request, make_reader, deadline, computes=self._digest)
        return Differences.from_data(document)


def _parts(array: Array, limit: int) -> Iterator[Part]:
    start = 0
    for elements in runs(array, limit):
        yield Part(start, elements)
        start += elements.size
