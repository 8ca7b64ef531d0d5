"""The writer on real transports and eager coroutines, under both event loops."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import socket
import struct
import termios
import weakref
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from support.http.http1_site import until
from support.services.tls import SERVER, caller_context
from tensor_round_service.net.eager import start_eagerly
from tensor_round_service.net.sending import TLS_PIECE_BYTES, Writer, _held_by_kernel
from tensor_round_service.process.tls import server_context

pytestmark = pytest.mark.anyio
#: More than the kernel takes.
LARGE = bytes(range(251)) * (16 << 12)


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


class Written(asyncio.Protocol):
    """A connection that has a writer and nothing else."""

    transport: Any
    writer: Writer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.writer = Writer(transport)
        self.writer.open()

    def pause_writing(self) -> None:
        self.writer.pause()

    def resume_writing(self) -> None:
        self.writer.resume()

    def connection_lost(self, error: Exception | None) -> None:
        self.writer.connection_lost()


@asynccontextmanager
async def plain() -> AsyncIterator[tuple[Written, socket.socket]]:
    """A connection, and its peer's socket, which nobody reads."""
    loop = asyncio.get_running_loop()
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as peer,
    ):
        ours, _ = listening.accept()
        peer.setblocking(False)
        transport, written = await loop.connect_accepted_socket(Written, ours)
        try:
            yield written, peer
        finally:
            transport.abort()
            await until(lambda: written.writer.is_lost)


@asynccontextmanager
async def tls() -> AsyncIterator[tuple[Written, asyncio.StreamReader, asyncio.StreamWriter]]:
    """The same with TLS, and the peer's stream, which takes no more than it has room for."""
    made: list[Written] = []

    def make() -> Written:
        made.append(Written())
        return made[-1]

    loop = asyncio.get_running_loop()
    server = await loop.create_server(make, "127.0.0.1", 0, ssl=server_context(SERVER))
    reader, writer = await asyncio.open_connection(
        *server.sockets[0].getsockname(), ssl=caller_context(), server_hostname="localhost"
    )
    server.close()
    try:
        await until(lambda: made and hasattr(made[0], "writer"))
        yield made[0], reader, writer
    finally:
        writer.transport.abort()
        await until(lambda: made[0].writer.is_lost)


def readable(sock: socket.socket) -> int:
    """Bytes that a socket has received and nobody has read."""
    held = fcntl.ioctl(sock.fileno(), termios.FIONREAD, bytes(4))
    (count,) = struct.unpack("i", held)
    return int(count)


async def test_writer_knows_its_unsent_and_unread_bytes() -> None:
    async with plain() as (written, peer):
        writer = written.writer
        assert written.transport.get_write_buffer_limits() == (0, 0)
        assert not writer.is_encrypted
        assert not writer.is_paused
        assert (writer.unsent, writer.unread, writer.is_writable) == (0, 0, True)
        written.transport.write(b"a")
        # The kernel has taken all, whether the peer has it or not.
        assert (writer.unsent, writer.unread, writer.is_paused) == (0, 0, False)
        written.transport.write(LARGE)
        assert writer.is_paused
        assert writer.unsent == written.transport.get_write_buffer_size() > 0
        await until(lambda: writer.unread + readable(peer) == 1 + len(LARGE))
        await until(lambda: writer.is_writable is False)


async def read(peer: socket.socket, nbytes: int) -> bytes:
    """So many bytes."""
    got, loop = b"", asyncio.get_running_loop()
    async with asyncio.timeout(20):
        while len(got) < nbytes:
            got += await loop.sock_recv(peer, nbytes - len(got))
    return got


async def test_parts_are_written_as_they_lie_until_the_kernel_has_them() -> None:
    async with plain() as (written, peer):
        writer = written.writer
        await asyncio.wait_for(writer.drain(), 20)
        parts = [b"head", memoryview(LARGE), b"end"]
        task = asyncio.ensure_future(writer.write_parts(parts))
        await until(lambda: writer.is_paused)
        # What wakes it before its time lets it wait again.
        writer.resume()
        writer.pause()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done()
        assert await read(peer, len(LARGE) + 7) == b"head" + LARGE + b"end"
        await asyncio.wait_for(task, 20)
        assert (writer.unsent, writer.is_paused) == (0, False)
        writer.resume()


async def test_waiting_writer_can_be_cancelled_or_disconnected() -> None:
    async with plain() as (written, _):
        writer = written.writer
        written.transport.write(LARGE)
        task = asyncio.ensure_future(writer.drain())
        await asyncio.sleep(0)
        task.cancel()
        writer.resume()
        writer.pause()
        await asyncio.wait([task])
        assert task.cancelled()
        writer.pause()
        task = asyncio.ensure_future(writer.drain())
        await asyncio.sleep(0)
        written.transport.abort()
        await asyncio.wait_for(task, 20)
        assert writer.is_lost


@pytest.mark.parametrize("parts", [[LARGE], [b"head", memoryview(LARGE), b"end"]])
async def test_tls_gets_a_piece_at_a_time(parts: list[Any]) -> None:
    content = b"".join(parts)

    async with tls() as (written, reader, _):
        writer, transport = written.writer, written.transport
        assert transport.get_write_buffer_limits() == (0, 1)
        assert writer.is_encrypted
        task = asyncio.ensure_future(writer.write_parts(parts))
        await until(lambda: writer.is_paused)
        left = writer.unsent - transport.get_write_buffer_size()
        assert 0 < left < len(content)
        if len(parts) == 1:
            assert (len(content) - left) % TLS_PIECE_BYTES == 0
        assert await reader.readexactly(len(content)) == content
        await asyncio.wait_for(task, 20)
        assert writer.unsent == 0


@pytest.mark.parametrize("is_cancelled", [True, False], ids=["cancelled", "lost"])
async def test_bytes_not_yet_given_to_tls_are_dropped(is_cancelled: bool) -> None:
    async with tls() as (written, _, peer):
        writer, transport = written.writer, written.transport
        peer.transport.pause_reading()
        task = asyncio.ensure_future(writer.write_parts([LARGE]))
        await until(lambda: writer.is_paused)
        if is_cancelled:
            task.cancel()
            await asyncio.wait([task])
            assert writer.unsent == transport.get_write_buffer_size()
        else:
            transport.abort()
            await asyncio.wait_for(task, 20)
            assert writer.is_lost


async def test_rate_counts_the_bytes_that_the_peer_received() -> None:
    async with plain() as (written, peer):
        writer = written.writer
        # Some of it stays with the transport, however much of it has been read.
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)

        async def at_rest(nbytes: int) -> int:
            """How much is unread when the peer has read so many bytes in all."""
            await until(lambda: writer.unread + readable(peer) + nbytes == len(LARGE))
            return writer.unread

        written.transport.write(LARGE)
        before, unsent = await at_rest(0), writer.unsent
        # What the kernel holds is neither read nor a debt.
        writer.start_rate(1, 0)
        assert before > unsent
        assert writer.holds_rate(1) is False
        for count, (seconds, is_held) in enumerate([(0, True), (1, False)], 1):
            writer.start_rate(1, 0)
            writer.holds_rate(0)
            await read(peer, 1 << 20)
            after = await at_rest(count << 20)
            assert writer.holds_rate(before - after + seconds) is is_held
            before = after
        # What was read before the start does not count; what was not sent then does.
        await read(peer, 1 << 20)
        await at_rest(3 << 20)
        writer.start_rate(1, 0)
        assert writer.holds_rate(1) is False
        unsent = writer.unsent
        writer.start_rate(1, 0)
        await read(peer, 6 << 20)
        after = await at_rest(9 << 20)
        assert after < unsent
        assert writer.holds_rate(unsent - after) is True
        await read(peer, len(LARGE) - (9 << 20))
        await until(lambda: not writer.is_paused)
        writer.start_rate(1, 0)
        assert writer.holds_rate(1000) is True


def test_a_socket_that_is_closed_holds_nothing() -> None:
    assert _held_by_kernel(None) == 0
    with socket.socket() as closed:
        pass
    assert _held_by_kernel(closed) == 0


class Joining(asyncio.Transport):
    """A transport of asyncio, whose own ``writelines`` joins the parts."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Any] = []

    def write(self, data: Any) -> None:
        self.written.append(data)


class Gathering:
    """A transport of another loop, which writes parts by one call."""

    written: Any = None

    def get_extra_info(self, name: str) -> None:
        """There is no TLS."""

    def writelines(self, list_of_data: Any) -> None:
        self.written = list_of_data


def test_a_lost_transport_is_not_kept() -> None:
    transport = Joining()
    writer = Writer(transport)
    kept = weakref.ref(transport)
    writer.connection_lost()
    del transport
    assert kept() is None


def test_no_transport_joins_the_parts() -> None:
    """One of asyncio gets them one by one, and one of another loop by one call."""
    parts = [b"head", memoryview(LARGE)]
    joining, gathering = Joining(), Gathering()
    Writer(joining).write(parts)
    Writer(gathering).write(parts)
    assert [each is part for each, part in zip(joining.written, parts, strict=True)] == [True, True]
    assert gathering.written is parts


def begin(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
    return start_eagerly(coroutine, asyncio.get_running_loop())


def begun(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """The task of a coroutine that waits."""
    task = begin(coroutine)
    assert task is not None
    return task


async def test_coroutine_that_never_waits_is_done_on_return() -> None:
    async def work() -> None:
        steps.append("done")

    async def fail() -> None:
        raise KeyError("at once")

    steps: list[str] = []
    assert begin(work()) is None
    assert steps == ["done"]
    with pytest.raises(KeyError):
        begin(fail())


async def test_coroutine_that_waits_becomes_a_task() -> None:
    async def work() -> None:
        steps.append("begun")
        steps.append(await future)
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        steps.append(await asyncio.to_thread(lambda: "from a thread"))
        raise KeyError("gone")

    steps: list[object] = []
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = begun(work())
    assert steps == ["begun"]
    future.set_result("came")
    with pytest.raises(KeyError):
        await task
    assert steps == ["begun", "came", "from a thread"]


async def test_coroutine_that_yields_resumes_in_the_next_turn() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        steps.append("later")

    steps: list[str] = []
    begun(work())
    assert not steps
    await asyncio.sleep(0)
    assert steps == ["later"]


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_cancelled_coroutine_can_wait_again_and_return(is_waiting: bool) -> None:
    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            got.append(await future)

    got: list[str] = []
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = begun(work())
    if is_waiting:
        await asyncio.sleep(0)
    task.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    future.set_result("came")
    await task
    assert got == ["came"]


async def test_cancelled_coroutine_frees_its_memory() -> None:
    class Memory(bytearray):
        pass

    async def work() -> None:
        memory = Memory(10)
        kept.append(weakref.ref(memory))
        await asyncio.sleep(60)

    kept: list[weakref.ref[Memory]] = []
    task = begun(work())
    await asyncio.sleep(0)
    gc.disable()
    try:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        del task
        assert kept[0]() is None
    finally:
        gc.enable()
