"""Comparing rounding directions on an array: its tiles are sent, and their responses joined."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from ..arrays.tiles import Tile
from ..contract.differences.document import Differences, joined
from ..contract.host_memory import Array, runs
from ..contract.operators.dialects.ieee754 import IEEE754Round
from ..contract.progress import counted
from ..transport.concurrency import Deadline
from ..transport.exchange import Request, document_reader, tensor_request

if TYPE_CHECKING:
    from .session import CallOptions, Session

_OPERATOR = IEEE754Round()


async def compare(session: Session, array: Array, dtype: str, options: CallOptions) -> Differences:
    """Compare the directions; a small array is sent whole, in its own shape."""
    shape = array.shape
    _OPERATOR.prepare(dtype, shape)
    limit = max(1, session.tile_bytes // array.itemsize)
    deadline, progress = options
    with counted(progress, array.nbytes, "comparing") as add:
        if array.size <= limit:
            whole = await _compare_run(session, array, dtype, shape, deadline)
            add(array.nbytes)
            return whole
        found: list[tuple[int, Differences]] = []

        async def work(part: tuple[int, Array]) -> None:
            start, run = part
            differences = await _compare_run(session, run, dtype, (run.size,), deadline)
            found.append((start, differences))
            add(run.nbytes)

        await session.for_each(work, _parts(array, limit), deadline)
    return joined(found, dtype, shape)


async def _compare_run(
    session: Session, elements: Array, dtype: str, shape: tuple[int, ...], deadline: Deadline
) -> Differences:
    tile = Tile(_OPERATOR.prepare(dtype, shape), elements, elements, False)
    digest = session.digest

    def make_request() -> Request:
        return tensor_request(tile.prepared, tile.payload(), digest=digest, path="/compare")

    make_reader = partial(document_reader, digest=digest)
    document = await session.send(make_request, make_reader, deadline, computes=digest)
    return Differences.from_data(document)


def _parts(array: Array, limit: int) -> Iterator[tuple[int, Array]]:
    """Runs of elements, each with the number of elements before it."""
    start = 0
    for run in runs(array, limit):
        yield start, run
        start += run.size
