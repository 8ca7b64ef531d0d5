"""Request bodies: the same bytes and the same surplus, however they come and are asked for."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import pytest

from tensor_round.contract.errors import HeadersTooLarge
from tensor_round_service.net.head import MalformedRequest
from tensor_round_service.net.http1.head import MAX_HEAD_BYTES, split_head
from tensor_round_service.net.http1.receiving import BodyReceiver

SURPLUS = b"GET /next HTTP/1.1\r\n\r\n"
LONG = bytes(range(251)) * 400
SIZES = [1, 2, 7, 1 << 10, 1 << 20]
#: From which size on bytes are received to where they belong, as docs/architecture.md has it.
DIRECT_BYTES = 16 << 10


def receiver(length: int | None, early: bytes = b"") -> BodyReceiver:
    """Of a body of that length, or in chunks; ``early`` came with its head."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    found = split_head(f"POST / HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n".encode())
    assert found is not None
    return BodyReceiver(found[0], memoryview(early))


@dataclass
class Source:
    """Bytes that are received at most ``piece`` at a time; EOFError where they end."""

    data: bytes
    piece: int
    #: Bytes that were received to where they belong.
    direct: int = 0

    def receive(self, body: BodyReceiver) -> bool:
        """Receive once, as a connection does; whether enough has come."""
        if body.is_behind:
            return body.catch_up()
        if not self.data:
            raise EOFError
        buffer = body.buffer
        got = self.data[: self.piece if buffer is None else min(self.piece, len(buffer))]
        self.data = self.data[len(got) :]
        if buffer is None:
            return body.feed(memoryview(got))
        buffer[: len(got)] = got
        self.direct += len(got)
        return body.advance(len(got))


def read(body: BodyReceiver, source: Source, size: int) -> bytes:
    """The whole body, in targets of so many bytes."""
    content = b""
    while not body.is_at_end:
        target = memoryview(bytearray(size))
        is_enough = body.fill(target)
        while not is_enough:
            assert body.missing == size - body.filled > 0
            is_enough = source.receive(body)
        assert body.filled == size or body.is_at_end
        content += target[: body.filled]
        body.release()
    return content


def chunks(content: bytes, size: int, extension: bytes = b"", trailers: bytes = b"") -> bytes:
    """These bytes in chunks of that size."""
    parts = [content[at : at + size] for at in range(0, len(content), size)]
    framed = [b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in parts]
    return b"".join(framed) + b"0%b\r\n%b\r\n" % (extension, trailers)


@dataclass(frozen=True)
class Body:
    """A body, and how it is framed; ``length`` is None for chunks."""

    content: bytes
    framed: bytes
    length: int | None = None


BODIES: dict[str, Body] = {
    "length": Body(b"abcdefghij", b"abcdefghij", 10),
    "length-1": Body(b"a", b"a", 1),
    "length-0": Body(b"", b"", 0),
    "length-long": Body(LONG, LONG, len(LONG)),
    "one-chunk": Body(b"abcdefghij", chunks(b"abcdefghij", 10)),
    "chunks-of-1": Body(b"abcdefghij", chunks(b"abcdefghij", 1)),
    "chunks-of-3": Body(b"abcdefghij", chunks(b"abcdefghij", 3)),
    "chunks-long": Body(LONG, chunks(LONG, 40_000)),
    "chunks-many": Body(LONG[:5000], chunks(LONG[:5000], 16)),
    "no-chunk": Body(b"", chunks(b"", 1)),
    "chunks-of-line-ends": Body(b"\r\n\r\n0\r\n\r\n", chunks(b"\r\n\r\n0\r\n\r\n", 4)),
    "extensions": Body(b"abc", chunks(b"abc", 2, b' ;a=b;c="d;\xff"')),
    "trailers": Body(b"abc", chunks(b"abc", 2, trailers=b"a: b\r\nc:\xff\r\n")),
    "longest-line": Body(b"a", b"1;" + b"x" * (MAX_HEAD_BYTES - 4) + b"\r\na\r\n0\r\n\r\n"),
    "longest-trailers": Body(b"", b"0\r\na:" + b"x" * (MAX_HEAD_BYTES - 6) + b"\r\n\r\n"),
    "size-in-any-case": Body(LONG[:171], b"0000aB\r\n" + LONG[:171] + b"\r\n000\r\n\r\n"),
}
each_body = pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
each_surplus = pytest.mark.parametrize("surplus", [b"", SURPLUS], ids=["alone", "surplus"])


def sizes_for(body: Body) -> list[int]:
    """Targets for a body: of a long one, those in which it is soon done."""
    return SIZES if len(body.framed) < 10_000 else SIZES[3:]


def check(
    body: BodyReceiver, source: Source, size: int, expected: bytes, framed: int, surplus: bytes
) -> None:
    assert read(body, source, size) == expected
    assert bytes(body.unread) + source.data == surplus
    assert body.received == framed


@each_body
@each_surplus
@pytest.mark.parametrize("piece", [1, 3, 1000, 64 << 10])
def test_a_body_that_comes_with_its_head_or_in_pieces(
    body: Body, surplus: bytes, piece: int
) -> None:
    if len(body.framed) > 10_000 and piece < 1000:
        piece *= 1000  # to be done soon
    sent = body.framed + surplus
    for early in {0, 1, len(body.framed) // 2, len(body.framed), len(sent)}:
        for size in sizes_for(body):
            source = Source(sent[early:], piece)
            early_body = receiver(body.length, sent[:early])
            check(early_body, source, size, body.content, len(body.framed), surplus)


@pytest.mark.parametrize("chunk", [None, 300_000], ids=["length", "chunks"])
@pytest.mark.parametrize("piece", [1000, 64 << 10])
def test_a_long_body_goes_where_it_belongs(chunk: int | None, piece: int) -> None:
    content = LONG * 10
    framed = content if chunk is None else chunks(content, chunk)
    source = Source(framed + SURPLUS, piece)
    check(
        body=receiver(len(content) if chunk is None else None),
        source=source,
        size=len(content),
        expected=content,
        framed=len(framed),
        surplus=SURPLUS,
    )
    assert source.direct > len(content) // 2


def test_short_body_is_not_received_directly() -> None:
    body = receiver(DIRECT_BYTES * 4)
    assert not body.fill(memoryview(bytearray(DIRECT_BYTES - 1)))
    assert body.buffer is None
    assert not body.fill(memoryview(bytearray(DIRECT_BYTES)))
    assert body.buffer is not None
    assert len(body.buffer) == DIRECT_BYTES
    assert not body.advance(1)
    assert body.buffer is None
    body = receiver(DIRECT_BYTES - 1)
    assert not body.fill(memoryview(bytearray(DIRECT_BYTES)))
    assert body.buffer is None


def test_a_place_ends_where_the_body_does() -> None:
    body = receiver(DIRECT_BYTES)
    assert not body.fill(memoryview(bytearray(4 * DIRECT_BYTES)))
    assert body.buffer is not None
    assert len(body.buffer) == DIRECT_BYTES
    assert body.advance(DIRECT_BYTES)
    assert body.is_at_end
    assert body.buffer is None


@each_body
def test_without_a_target_nothing_is_filled_and_an_empty_one_is_full(body: Body) -> None:
    received = receiver(body.length, body.framed)
    assert (received.filled, received.missing, received.buffer) == (0, 0, None)
    received = receiver(body.length)
    assert received.fill(memoryview(bytearray()))
    assert (received.filled, received.is_at_end) == (0, body.length == 0)


@each_body
@each_surplus
def test_skipping_drops_received_bytes(body: Body, surplus: bytes) -> None:
    whole = receiver(body.length, body.framed + surplus)
    whole.skip()
    assert (whole.is_at_end, bytes(whole.unread)) == (True, surplus)
    for length in range(0, len(body.framed), 1 + len(body.framed) // 50):
        part = receiver(body.length, body.framed[:length])
        part.skip()
        assert not part.is_at_end
        assert not part.unread
        assert part.buffer is None
        part.keep(memoryview(body.framed[length:] + surplus))
        part.skip()
        assert (part.is_at_end, bytes(part.unread)) == (True, surplus)


@each_body
def test_skipping_leads_to_the_end_behind_which_is_nothing(body: Body) -> None:
    received = receiver(body.length, body.framed + SURPLUS)
    received.fill(memoryview(bytearray(1)))
    received.skip()
    assert (received.is_at_end, bytes(received.unread)) == (True, SURPLUS)
    assert received.fill(memoryview(bytearray(10)))
    assert (received.filled, received.is_at_end, bytes(received.unread)) == (0, True, SURPLUS)


def test_a_target_as_long_as_all_that_came_gets_the_body_alone() -> None:
    received = receiver(3, b"abc" + SURPLUS)
    target = bytearray(3 + len(SURPLUS))
    assert received.fill(memoryview(target))
    assert (received.filled, target.rstrip(b"\0"), bytes(received.unread)) == (3, b"abc", SURPLUS)


class Memory(bytearray):
    """Bytes whose end can be seen."""


@each_body
def test_no_target_is_kept(body: Body) -> None:
    for early in (b"", body.framed):
        received = receiver(body.length, early)
        memory = Memory(1 << 20)
        if not received.fill(memoryview(memory)):
            received.release()
        kept = weakref.ref(memory)
        del memory
        assert kept() is None


@each_body
def test_unrequested_bytes_are_kept(body: Body) -> None:
    received = receiver(body.length, body.framed[:2])
    received.keep(memoryview(body.framed[2:5]))
    received.keep(memoryview(body.framed[5:]))
    size = max(sizes_for(body)[0], 3)
    check(received, Source(b"", 1), size, body.content, len(body.framed), b"")
    received.keep(memoryview(SURPLUS[:3]))
    received.keep(memoryview(SURPLUS[3:]))
    assert bytes(received.unread) == SURPLUS


#: Beside those of tests/client/contract/wire/test_http1.py.
MALFORMED: dict[str, bytes] = {
    "only-extension": b";a=b\r\n",
    "underscore": b"1_0\r\n",
    "space-before": b" 1\r\na\r\n",
    "vast": b"1" * 17 + b"\r\n",
    "bare-line-feed-in-extension": b"1;a\nb\r\na\r\n0\r\n\r\n",
    "bare-carriage-return": b"1;a\rb\r\na\r\n0\r\n\r\n",
    "nul-in-extension": b"1;\0\r\na\r\n0\r\n\r\n",
    "shorter-than-it-says": b"3\r\na\r\n0\r\n\r\n",
    "trailer-no-colon": b"0\r\na\r\n\r\n",
    "trailer-space-before-colon": b"0\r\na : b\r\n\r\n",
    "trailer-folded": b"0\r\na: b\r\n c\r\n\r\n",
    "trailer-nul": b"0\r\na: \0\r\n\r\n",
    "trailer-bare-line-feed": b"0\r\na: b\nc: d\r\n\r\n",
}


@pytest.mark.parametrize("framed", MALFORMED.values(), ids=MALFORMED)
def test_chunks_that_are_framed_wrongly(framed: bytes) -> None:
    for piece in (1, 2, 1 << 10):
        for size in (1, 1 << 10):
            with pytest.raises(MalformedRequest):
                read(receiver(None), Source(framed, piece), size)
    with pytest.raises(MalformedRequest):
        receiver(None, b"2\r\nab\r\n" + framed).skip()


TOO_LONG: dict[str, bytes] = {
    "line": b"1;" + b"x" * (MAX_HEAD_BYTES - 3) + b"\r\na\r\n0\r\n\r\n",
    "endless-line": b"1;" + b"x" * MAX_HEAD_BYTES,
    "endless-size": b"0" * (MAX_HEAD_BYTES + 1),
    "line-of-a-later-chunk": b"1\r\na\r\n1;" + b"x" * MAX_HEAD_BYTES,
    "trailers": b"0\r\na:" + b"x" * (MAX_HEAD_BYTES - 5) + b"\r\n\r\n",
    "endless-trailers": b"0\r\n" + b"a: b\r\n" * (MAX_HEAD_BYTES // 6 + 1),
}


@pytest.mark.parametrize("framed", TOO_LONG.values(), ids=TOO_LONG)
def test_chunk_framing_has_a_longest(framed: bytes) -> None:
    for piece in (997, 1 << 20):
        with pytest.raises(HeadersTooLarge):
            read(receiver(None), Source(framed, piece), 1 << 10)
