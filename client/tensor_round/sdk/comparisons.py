"""Comparing the directions on an array: tiles sent, what comes back put together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

from ..arrays.host import Array
from ..arrays.tiles import Tile, runs
from ..messages.differences import Differences, joined
from ..messages.reader import Intake
from ..messages.request import Request, document_intake, round_request
from ..operators.objects import IEEE754Round
from ..progress import ProgressCallback, counted
from ..transport.concurrency import Concurrency
from ..transport.deadline import Deadline
from .settings import Settings

_OPERATOR = IEEE754Round()


class Fetch(Protocol):
    """Sends requests, made anew for each try, until one response is whole."""

    def __call__(
        self,
        make: Callable[[], Request],
        reception: Callable[[int, Mapping[str, str]], Intake[dict[str, Any]]],
        deadline: Deadline,
        *,
        computes: bool = False,
    ) -> Awaitable[dict[str, Any]]:
        """Send it."""


class Part(NamedTuple):
    """A tile, and how many elements come before it."""

    start: int
    elements: Array


class Comparisons:
    """What a session does to compare; a small array travels whole, in its own shape."""

    def __init__(
        self, fetch: Fetch, concurrency: Concurrency, settings: Settings, *, digest: bool
    ) -> None:
        self._fetch = fetch
        self._concurrency = concurrency
        self._settings = settings
        self._digest = digest

    async def compare(
        self, array: Array, dtype: str, progress: bool | ProgressCallback, deadline: Deadline
    ) -> Differences:
        """Compare the directions; see :meth:`Client.compare`."""
        shape = array.shape
        _OPERATOR.plan(dtype, shape)
        limit = max(1, self._settings.tile_bytes // array.itemsize)
        if array.size <= limit:
            with counted(progress, array.nbytes, "comparing") as add:
                whole = await self._sent(array, dtype, shape, deadline)
                add(array.nbytes)
            return whole
        found: list[tuple[int, Differences]] = []
        with counted(progress, array.nbytes, "comparing") as add:

            async def work(part: Part) -> None:
                size = part.elements.size
                found.append(
                    (part.start, await self._sent(part.elements, dtype, (size,), deadline))
                )
                add(part.elements.nbytes)

            await self._concurrency.each(
                work, _parts(array, limit), self._settings.connections, deadline
            )
        return joined(found, dtype, shape)

    async def _sent(
        self, elements: Array, dtype: str, shape: tuple[int, ...], deadline: Deadline
    ) -> Differences:
        tile = Tile(_OPERATOR.plan(dtype, shape), elements, elements, False)

        def make() -> Request:
            return round_request(tile.plan, tile.payload(), digest=self._digest, path="/compare")

        reception = partial(document_intake, digest=self._digest)
        document = await self._fetch(make, reception, deadline, computes=self._digest)
        return Differences.from_data(document)


def _parts(array: Array, limit: int) -> Iterator[Part]:
    start = 0
    for elements in runs(array, limit):
        yield Part(start, elements)
        start += elements.size
