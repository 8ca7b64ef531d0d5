"""The asynchronous client's link: everything runs in the caller's asyncio event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TypeVar

import httpx2

from ..answers import fields
from ..deadline import Deadline
from ..exchange import Request
from ..intake import feed
from .links import Reception, Work
from .requests import Requests, translated

T = TypeVar("T")


class AsyncLink:
    """Runs in the caller's asyncio event loop."""

    def __init__(self, transport: httpx2.AsyncBaseTransport, requests: Requests) -> None:
        self._transport = transport
        self._requests = requests

    async def fetch(self, request: Request, reception: Reception[T], deadline: Deadline) -> T:
        """Send a request, and what its answer's intake ends in."""
        with translated(deadline):
            async with asyncio.timeout(deadline.remaining()):
                response = await self._transport.handle_async_request(
                    self._requests.make(request, deadline)
                )
                try:
                    intake = reception(response.status_code, fields(response.headers.raw))
                    areadinto = getattr(response.stream, "areadinto", None)
                    if areadinto is not None:
                        while count := await areadinto(intake.room()):
                            intake.took(count)
                    else:
                        assert isinstance(response.stream, httpx2.AsyncByteStream)
                        async for piece in response.stream:
                            feed(intake, piece)
                    return intake.end()
                finally:
                    await response.aclose()

    async def pause(self, seconds: float, deadline: Deadline) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    async def each(
        self,
        work: Work[T],
        items: Iterator[T],
        workers: int,
        deadline: Deadline,
    ) -> None:
        """Work on the items in tasks that end with this call."""

        async def loop() -> None:
            for item in items:
                await work(item)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(loop())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def close(self) -> None:
        """Close the transport."""
        with translated(Deadline(None)):
            await self._transport.aclose()
