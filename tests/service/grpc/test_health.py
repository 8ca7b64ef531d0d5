"""Watches of health: one look for all of them, their bounds, and their end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import hpack
import numpy as np
import pytest

from support.http.http2_frames import call_fields, data, kinds
from support.http.http2_site import Caller, Handler, Site, serving
from tensor_round.contract.errors import BackendFailed
from tensor_round_service.engine.memory import Memory
from tensor_round_service.gate import Gate
from tensor_round_service.grpc import health
from tensor_round_service.grpc.service import Service
from tensor_round_service.net.http2 import frames
from tensor_round_service.net.http2.frames import END_HEADERS, Code, Kind
from tensor_round_service.net.http2.serving import ServedStream

pytestmark = pytest.mark.anyio
PATH = f"/{health.NAME}/Watch"
#: The messages of the two statuses.
SERVING, NOT_SERVING = (bytes((0, 0, 0, 0, 2, 8, status)) for status in (1, 2))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Watched(Handler):
    """gRPC's health alone, of a service whose status the test sets."""

    def __init__(self, budget: int = 64 << 20) -> None:
        super().__init__()
        self.is_ready, self.is_draining, self.looks = True, False, 0
        self.memory = Memory(lambda nbytes: np.empty(nbytes, np.uint8), budget)
        methods = health.health_methods(self._check, lambda: self.is_draining, self.memory)
        self._service = Service(methods, self.memory, Gate())

    async def _check(self) -> None:
        self.looks += 1
        if not self.is_ready or self.is_draining:
            raise BackendFailed("not ready")

    async def serve(self, stream: ServedStream) -> None:
        try:
            await self._service.serve(stream)
        finally:
            self.ended += 1


def watch(caller: Caller, *numbers: int) -> None:
    for number in numbers:
        block = hpack.Encoder().encode([(*field, True) for field in call_fields(PATH)])
        head = frames.frame(Kind.HEADERS, END_HEADERS, number, block)
        caller.send(head, data(number, bytes(5), ends=True))


async def told(caller: Caller, count: int) -> list[bytes]:
    """The last ``count`` messages, once so many more than before have come."""
    before = len(caller.frames)
    await caller.until(lambda got: kinds(got[before:])[Kind.DATA] == count)
    return [each.payload for each in caller.frames[before:] if each.kind == Kind.DATA]


async def status(caller: Caller, number: int) -> str:
    """The status that a call has ended with."""
    got = await caller.until(lambda got: any(e.ends and e.stream == number for e in got))
    last = [e for e in got if (e.kind, e.stream) == (Kind.HEADERS, number)][-1]
    return dict(hpack.Decoder().decode(last.payload))["grpc-status"]


@asynccontextmanager
async def watching(handler: Watched, count: int) -> AsyncIterator[tuple[Site, list[Caller]]]:
    """Connections with as many watches each as they may have."""
    async with serving(handler) as site, contextlib.AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(site.caller()) for _ in range(count)]
        for caller in callers:
            watch(caller, *range(1, 2 * health.MAX_WATCHES, 2))
            assert await told(caller, health.MAX_WATCHES) == [SERVING] * health.MAX_WATCHES
        yield site, callers


async def test_one_look_is_for_all_watches_and_wakes_them_on_a_change() -> None:
    handler = Watched()
    async with watching(handler, 5) as (site, callers):
        before, watches = handler.looks, 5 * health.MAX_WATCHES
        assert handler.memory.in_use == watches * health.WATCH_BYTES
        await asyncio.sleep(3.5 * health.LOOK_SECONDS)
        assert 2 <= handler.looks - before <= 4
        handler.is_ready = False
        for caller in callers:
            assert await told(caller, health.MAX_WATCHES) == [NOT_SERVING] * health.MAX_WATCHES
        handler.is_draining = True
        assert [await status(caller, 1) for caller in callers] == ["0"] * 5
        await site.until(lambda: handler.ended == watches)
        assert handler.memory.in_use == 0
        before = handler.looks
        await asyncio.sleep(2 * health.LOOK_SECONDS)
        assert handler.looks <= before + 1, "nobody watches"


async def test_watches_of_a_connection_and_of_the_budget_are_bounded() -> None:
    budget = 12 * health.WATCH_BYTES * health.WATCH_SHARE
    handler = Watched(budget)
    async with watching(handler, 1) as (site, (caller,)):
        watch(caller, 101)
        assert await status(caller, 101) == "8"
        async with site.caller() as other:
            watch(other, *range(1, 11, 2))
            assert await status(other, 9) == "14"
            caller.send(frames.rst_stream(1, Code.CANCEL))
            await site.until(lambda: handler.memory.in_use == 11 * health.WATCH_BYTES)
            watch(other, 11)
            watch(caller, 103)
            assert await status(caller, 103) == "14"


async def test_watches_whose_callers_leave_give_all_back() -> None:
    handler = Watched()
    async with watching(handler, 2) as (site, callers):
        callers[0].writer.transport.abort()
        await site.until(lambda: handler.ended == health.MAX_WATCHES)
        assert handler.memory.in_use == health.MAX_WATCHES * health.WATCH_BYTES
