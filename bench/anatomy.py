"""What a request is made of: the service's layers one by one, without sockets.

Each layer contains the ones above it, so the differences are the layers' own. What is
left to a round trip is the event loop, the system's and the client's.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import uvicorn
import uvloop
from fastapi import FastAPI
from uvicorn.server import ServerState

from tensor_round import operators
from tensor_round_service.app import create_app
from tensor_round_service.backends.choice import choose, compiled_kernels
from tensor_round_service.direct import EXTENSION
from tensor_round_service.engine import Engine
from tensor_round_service.http_known import KnownHttpProtocol
from tensor_round_service.settings import Settings

from .faces import native_head
from .targets import KIB, MIB

SMALL = KIB
LARGE = 64 * MIB
REQUESTS = 6000
BLOCKS = 30

DESCRIPTOR = b'{"dialect":"ieee754","input":{"dtype":"float32","shape":[%d]}}'


def measure() -> list[dict[str, Any]]:
    """Seconds of each layer, the innermost first."""
    engine = Engine(choose("numpy"))
    if kernels := compiled_kernels():
        kernels.wait()  # they would be compiled beside what is measured
    app = create_app(Settings(), engine)
    try:
        return [*small(engine, app), *large(engine)]
    finally:
        engine.close()


def small(engine: Engine, app: FastAPI) -> list[dict[str, Any]]:
    call = operators.resolve_json(DESCRIPTOR % (SMALL // 4))
    tensor = np.random.default_rng(1).normal(size=SMALL // 4).astype(np.float32)
    source = tensor.view(np.uint8)

    def rounded() -> None:
        with engine.lease() as lease:
            engine.round(call, source, lease)

    def connection(numbers: Collection[int]) -> float:
        return uvloop.run(protocol(app, source, numbers))

    return [
        row("numpy.rint in place", SMALL, timed(lambda: np.rint(tensor, out=tensor))),
        row("Engine.round: the same, every NaN kept", SMALL, timed(rounded)),
        row("the application: head, descriptor, answer", SMALL, timed(application(app, source))),
        row("a connection: a head that came before", SMALL, uvloop.run(protocol(app, source, {1}))),
        row(
            "the same, a head not seen before",
            SMALL,
            uvloop.run(protocol(app, source, range(6000))),
        ),
    ]


def large(engine: Engine) -> list[dict[str, Any]]:
    call = operators.resolve_json(DESCRIPTOR % (LARGE // 4))
    tensor = np.random.default_rng(1).normal(size=LARGE // 4).astype(np.float32)
    source = tensor.view(np.uint8)
    other = np.empty_like(source)

    def rounded() -> None:
        with engine.lease() as lease:
            engine.round(call, source, lease)

    return [
        row("a copy, memory to memory", LARGE, timed(lambda: np.copyto(other, source), 1)),
        row("a copy into fresh memory", LARGE, timed(lambda: source.copy(), 1)),
        row("numpy.rint in place", LARGE, timed(lambda: np.rint(tensor, out=tensor), 1)),
        row("Engine.round: the same, every NaN kept", LARGE, timed(rounded, 1)),
    ]


def row(layer: str, nbytes: int, seconds: float) -> dict[str, Any]:
    return {"layer": layer, "bytes": nbytes, "seconds": seconds}


def timed(work: Callable[[], object], number: int = 200) -> float:
    """Seconds of one piece of work: the best of many blocks of so many."""
    times = []
    for _ in range(BLOCKS if number > 1 else BLOCKS // 4):
        began = time.perf_counter()
        for _ in range(number):
            work()
        times.append((time.perf_counter() - began) / number)
    return min(times)


class FromMemory:
    """A request whose body is already there, and whose answer nobody waits for."""

    failure = None
    repeatable_bytes = 0  # it repeats none

    def __init__(self, body: memoryview) -> None:
        self._body = body
        self.remaining = len(body)

    def expect(self) -> None:
        pass

    def take_into(self, target: memoryview) -> bool:
        target[:] = self._body
        return True

    async def respond(self, status: int, headers: Sequence[Any], parts: Sequence[Any]) -> None:
        if status != 200:
            raise SystemExit(f"the application answers {status}: {bytes(parts[0])!r}")


def application(app: FastAPI, source: np.ndarray[Any, Any]) -> Callable[[], None]:
    """A request to the ASGI application that never has to wait."""
    lines = native_head(source.size).decode().split("\r\n")[1:-2]
    headers = [
        (name.lower().encode(), value.encode())
        for name, value in (line.split(": ", 1) for line in lines)
    ]

    async def nothing(*_message: Any) -> Any:
        raise SystemExit("the application left the direct way")

    def ask() -> None:
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/round",
            "query_string": b"",
            "headers": list(headers),
            "extensions": {EXTENSION: FromMemory(source.data)},
        }
        coroutine = app(scope, nothing, nothing)
        try:
            coroutine.send(None)
        except StopIteration:
            return
        raise SystemExit("the application waits for something")

    return ask


class Discarding(asyncio.Transport):
    """A transport to nowhere."""

    def __init__(self) -> None:
        super().__init__({"sockname": ("127.0.0.1", 1), "peername": ("127.0.0.1", 2)})
        self.writes = 0
        self.start = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes += 1
        self.start = bytes(data[:12])

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    resume_reading = close = pause_reading

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


async def protocol(app: FastAPI, source: np.ndarray[Any, Any], numbers: Collection[int]) -> float:
    """Seconds from a request's bytes to its answer's, without a socket between.

    ``numbers`` are those that their heads carry, and differ in.
    """
    config = uvicorn.Config(
        app,
        http=KnownHttpProtocol,
        ws="none",
        proxy_headers=False,
        access_log=False,
        server_header=False,
    )
    config.load()
    loop = asyncio.get_running_loop()
    connection = KnownHttpProtocol(
        config=config, server_state=ServerState(), app_state={}, _loop=loop
    )
    transport = Discarding()
    connection.connection_made(transport)
    head, body = native_head(source.size), source.tobytes()
    times = []
    for number in itertools.islice(itertools.cycle(numbers), REQUESTS):
        request = head.replace(b"Host:", b"X-Number: %d\r\nHost:" % number, 1) + body
        began = time.perf_counter()
        before = transport.writes
        connection.data_received(request)
        while transport.writes == before:
            await asyncio.sleep(0)
        times.append(time.perf_counter() - began)
    if transport.start != b"HTTP/1.1 200":
        raise SystemExit(f"the protocol answers {transport.start!r}")
    connection.connection_lost(None)
    return statistics.median(times)
