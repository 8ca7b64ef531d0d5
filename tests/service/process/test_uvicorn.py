"""What server.py and the connections need of uvicorn: its server drives a protocol of our own."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from types import FrameType
from typing import Any, cast

import uvicorn


class Line(asyncio.Protocol):
    """A connection as the server is to see one: it answers the first bytes with default fields."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.state.connections.add(self)

    def data_received(self, data: bytes) -> None:
        fields = dict(self.state.default_headers)
        self.transport.write(data + b" " + fields[b"date"] + b" " + fields[b"own"])

    def connection_lost(self, error: Exception | None) -> None:
        self.state.connections.discard(self)

    def shutdown(self) -> None:
        self.transport.close()


class Server(uvicorn.Server):
    """Notes what it goes through; a signal is its own affair."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.steps: list[str] = []
        self.answer = b""
        self.ticks = 0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.steps.append(signal.Signals(sig).name)
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.steps.append(f"startup {len(self.servers)}")
        self.asking = asyncio.create_task(self._ask(self.servers[0].sockets[0].getsockname()[1]))

    async def _ask(self, port: int) -> None:
        await asyncio.sleep(0.05)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello")
        self.answer = await reader.read(200)
        self.steps.append(f"connections {len(self.server_state.connections)}")
        os.kill(os.getpid(), signal.SIGTERM)
        assert await reader.read() == b""  # shutdown() of the connection
        writer.close()

    async def on_tick(self, counter: int) -> bool:
        self.ticks += 1
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.steps.append("shutdown")
        assert not self.server_state.tasks
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await self.asking
        await self.lifespan.shutdown()


def test_a_server_of_its_drives_a_protocol_of_ours() -> None:
    lives: list[str] = []
    asked: set[str] = set()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "lifespan"
        for kind in ("startup", "shutdown"):
            lives.append((await receive())["type"])
            await send({"type": f"lifespan.{kind}.complete"})

    def protocol(**keywords: Any) -> Line:
        asked.update(keywords)
        return Line(keywords["server_state"])

    config = uvicorn.Config(
        application,
        http=cast(Any, protocol),
        ws="none",
        lifespan="on",
        proxy_headers=False,
        server_header=False,
        headers=[("Own", "field")],
        log_config=None,
    )
    before = signal.getsignal(signal.SIGTERM)
    server = Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.run([listener])
    assert server.steps == ["startup 1", "connections 1", "SIGTERM", "shutdown"]
    assert server.answer.startswith(b"hello ")
    assert server.answer.endswith(b"GMT field")
    assert asked >= {"config", "server_state", "app_state"}
    assert server.ticks >= 1
    assert lives == ["lifespan.startup", "lifespan.shutdown"]
    # A signal that is handled is not raised again, and who had it before has it back.
    assert signal.getsignal(signal.SIGTERM) is before
