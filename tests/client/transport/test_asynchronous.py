"""The asyncio wire, on real sockets: what comes unasked for, what ends, what is cancelled."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable

import pytest

from tensor_round.transport.address import Address
from tensor_round.transport.asynchronous import AsyncStream
from tensor_round.transport.exchange import Deadline

SOON = Deadline(10)


def with_peer(test: Callable[[AsyncStream, socket.socket], Awaitable[None]]) -> Callable[[], None]:
    """A test of a wire and the other end of it."""

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = Address("http", "127.0.0.1", listener.getsockname()[1])
            wire = await AsyncStream.connect(address, None, SOON)
            peer, _ = listener.accept()
        with peer:
            try:
                await asyncio.wait_for(test(wire, peer), 10)
            finally:
                wire.close()
                await asyncio.sleep(0)

    return lambda: asyncio.run(run())


async def received(wire: AsyncStream, size: int) -> bytes:
    memory = memoryview(bytearray(size))
    return bytes(memory[: await wire.receive_into(memory, SOON)])


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


@with_peer
async def test_received_bytes_go_to_the_readers_memory(
    wire: AsyncStream, peer: socket.socket
) -> None:
    peer.sendall(b"abc")
    assert await received(wire, 10) == b"abc"
    assert wire.is_idle()


@with_peer
async def test_unrequested_bytes_are_kept_in_order(wire: AsyncStream, peer: socket.socket) -> None:
    sent = bytes(range(256)) * 1024  # four times what is kept aside
    sending = asyncio.get_running_loop().run_in_executor(None, peer.sendall, sent)
    await until(lambda: not wire.is_idle())
    await asyncio.sleep(0.05)
    got = b""
    while len(got) < len(sent):
        got += await received(wire, 1000)
    await sending
    assert got == sent


@with_peer
async def test_a_connection_that_has_ended_by_itself_can_be_closed(
    wire: AsyncStream, peer: socket.socket
) -> None:
    sending = asyncio.create_task(wire.send([memoryview(bytes(64 << 20))], SOON))
    await asyncio.sleep(0.05)
    peer.shutdown(socket.SHUT_WR)  # asyncio closes once the rest of a write is sent
    await until(lambda: not wire.is_idle())
    sending.cancel()
    await asyncio.get_running_loop().run_in_executor(None, drained, peer)
    await asyncio.sleep(0.05)
    wire.close()


def drained(peer: socket.socket) -> None:
    while peer.recv(1 << 20):
        pass


@with_peer
async def test_an_answer_stops_the_sending(wire: AsyncStream, peer: socket.socket) -> None:
    peer.sendall(b"no")
    await until(lambda: not wire.is_idle())
    assert await wire.send([memoryview(bytes(1 << 20))], SOON) is False
    assert await received(wire, 10) == b"no"


@with_peer
async def test_a_writer_waits_for_a_slow_reader(wire: AsyncStream, peer: socket.socket) -> None:
    size = 32 << 20
    sending = asyncio.create_task(wire.send([memoryview(bytes(size))], SOON))
    await asyncio.sleep(0.05)
    assert not sending.done()
    got = 0
    while got < size:
        got += len(await asyncio.to_thread(peer.recv, 1 << 20))
    assert await sending is True


@with_peer
async def test_the_end_is_no_bytes(wire: AsyncStream, peer: socket.socket) -> None:
    waiting = asyncio.create_task(received(wire, 10))
    await asyncio.sleep(0.01)
    peer.shutdown(socket.SHUT_WR)
    assert await waiting == b""
    assert await received(wire, 10) == b""
    assert not wire.is_idle()


@with_peer
async def test_bytes_before_the_end_are_still_read(wire: AsyncStream, peer: socket.socket) -> None:
    peer.sendall(b"last words")
    peer.shutdown(socket.SHUT_WR)
    await until(lambda: wire._has_ended)
    assert await received(wire, 4) == b"last"
    assert await received(wire, 10) == b" words"
    assert await received(wire, 10) == b""


def test_a_wire_that_broke_while_nobody_looked(caplog: pytest.LogCaptureFixture) -> None:
    """The loop has not yet turned since; sending must neither hang nor fill the log."""

    async def test(wire: AsyncStream, peer: socket.socket) -> None:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        peer.close()
        try:
            await wire.send([memoryview(bytes(8 << 20))], SOON)
            assert await received(wire, 10) == b""
        except OSError:
            pass

    with caplog.at_level(logging.WARNING, "asyncio"):
        with_peer(test)()
    assert not caplog.records


@with_peer
async def test_a_cancelled_read_leaves_the_memory_alone(
    wire: AsyncStream, peer: socket.socket
) -> None:
    memory = memoryview(bytearray(10))
    reading = asyncio.create_task(wire.receive_into(memory, SOON))
    await asyncio.sleep(0.01)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    peer.sendall(b"late")
    await until(lambda: not wire.is_idle())
    assert bytes(memory) == bytes(10)
