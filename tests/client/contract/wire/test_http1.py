"""The HTTP/1.1 reader: each answer whole, byte by byte, and with bytes behind it."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_round.contract.errors import ProtocolViolation
from tensor_round.contract.wire.http1 import (
    MAX_HEAD_BYTES,
    BodyReader,
    FramingTooLong,
    ResponseHead,
    split_head,
)


def ok(*fields: bytes) -> bytes:
    """A head of status 200."""
    return b"\r\n".join((b"HTTP/1.1 200 OK", *fields, b"", b""))


ONE = b"Content-Length: 1"
CHUNKS = ok(b"Transfer-Encoding: chunked")
ANSWERS: dict[str, tuple[bytes, int, bytes, bool]] = {
    # bytes, status, body, whether the connection lives on
    "length": (ok(b"Content-Length: 3") + b"abc", 200, b"abc", True),
    "no-body": (ok(b"content-length:0"), 200, b"", True),
    "no-reason": (b"HTTP/1.1 503\r\nContent-Length: 1\r\n\r\nx", 503, b"x", True),
    "empty-reason": (b"HTTP/1.1 200 \r\nContent-Length: 1\r\n\r\nx", 200, b"x", True),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
    "304": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, b"", True),
    "close": (ok(b"Connection: Close", ONE) + b"x", 200, b"x", False),
    "http-1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False),
    "chunks": (
        CHUNKS + b"3\r\nabc\r\n00A ;x=y\r\n0123456789\r\n0\r\n\r\n",
        200,
        b"abc0123456789",
        True,
    ),
    "two-digits": (CHUNKS + b"1f\r\n%b\r\n0\r\n\r\n" % (b"x" * 31), 200, b"x" * 31, True),
    "no-chunk": (ok(b"Transfer-Encoding: Chunked") + b"0\r\n\r\n", 200, b"", True),
    "same-length-twice": (ok(ONE, ONE) + b"x", 200, b"x", True),
}
each_answer = pytest.mark.parametrize(
    ("data", "status", "body", "lives"), ANSWERS.values(), ids=ANSWERS
)


def read(data: bytes, piece: int, room: int = 1 << 16) -> tuple[ResponseHead, bytes, BodyReader]:
    """Read an answer as a connection does, ``piece`` bytes at a time; EOFError if it is cut."""
    received = bytearray()
    position = 0

    def more(limit: int) -> bytes:
        nonlocal position
        got = data[position : position + min(piece, limit)]
        position += len(got)
        return got

    while (found := split_head(received)) is None:
        if not (got := more(1 << 16)):
            raise EOFError
        received += got
    head, length = found
    reader = BodyReader(head.length, received[length:], is_chunked=head.is_chunked)
    body = b""
    while True:
        memory = memoryview(bytearray(room))
        count = reader.read_into(memory)
        if not count and reader.is_whole:
            return head, body, reader
        if not count and (wanted := reader.direct_bytes):
            got = more(min(wanted, room))
            count = len(got)
            memory[:count] = got
            reader.advance(count)
            if not got:
                reader.feed_eof()
        elif not count:
            got = more(1 << 16)
            reader.feed(got)
            if not got:
                reader.feed_eof()
        body += memory[:count]


@each_answer
@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1 << 16])
def test_an_answer_is_read_in_any_pieces(
    data: bytes, status: int, body: bytes, lives: bool, piece: int
) -> None:
    for room in (1, 4, 1 << 16):
        head, got, reader = read(data, piece, room)
        assert (head.status, got, not head.is_last) == (status, body, lives)
        assert not reader.buffered
    _, got, reader = read(data + b"HTTP/1.1 200", 1 << 16)
    assert (got, len(reader.buffered)) == (body, len(b"HTTP/1.1 200"))
    for length in range(len(data)):
        with pytest.raises(EOFError):
            read(data[:length], piece)


def head_of(data: bytes) -> ResponseHead:
    head, _ = split_head(data) or pytest.fail("no head")
    return head


def test_without_a_length_the_end_of_the_stream_is_the_end() -> None:
    head, body, _ = read(ok() + b"abc", 2)
    assert (body, head.is_last) == (b"abc", True)


def test_headers_are_stripped_and_joined_by_lower_case_name() -> None:
    head = head_of(ok(b"A-B:  x y\t ", b"empty:", b"latin: \xe9", b"a-b: 3"))
    assert head.fields == {"a-b": "x y, 3", "empty": "", "latin": "\xe9"}


def answered(id: str, *, status: int = 200, length: int = 3, date: str = "now") -> ResponseHead:
    """The head of an answer as a service makes many of."""
    lines = (
        f"HTTP/1.1 {status} OK",
        f"Date: {date}",
        f"content-length: {length}",
        f"server-timing: execute;dur={id}",
        f"x-request-id: {id}",
        "last: 1",
    )
    return head_of("\r\n".join((*lines, "", "")).encode())


def test_a_head_that_came_before_is_looked_up_whatever_passed_with_it() -> None:
    first = answered("1")
    assert first.fields == {"content-length": "3", "last": "1"}
    assert answered("2", date="later") is first
    other = answered("3", length=4)
    assert (other.length, other.fields["content-length"]) == (4, "4")


def test_unused_headers_of_an_answer_must_be_valid() -> None:
    answered("1")
    for value in ("\0", "a\nb", "a\r\n folded", "a\r\nx-request-id : b"):
        with pytest.raises(ProtocolViolation):
            answered("1", date=value)


def test_of_a_refusal_every_header_is_kept() -> None:
    for id in ("1", "2"):
        assert answered(id, status=503).fields["x-request-id"] == id


def test_a_head_too_long_to_remember_is_read_all_the_same() -> None:
    first, again = (head_of(ok(b"a: " + b"x" * 4000, b"Content-Length: 3")) for _ in range(2))
    assert first == again
    assert first is not again
    assert (first.length, len(first.fields["a"])) == (3, 4000)


def test_an_interim_answer_says_so() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    head, length = split_head(interim + ok(ONE)) or pytest.fail("no head")
    assert (head.status, head.length, head.is_last, length) == (100, 0, False, len(interim))
    assert head_of(ok(ONE)).status == 200


VIOLATIONS: dict[str, bytes] = {
    "another-protocol": b"SSH-2.0-OpenSSH_9.6\r\n",
    "http-2": b"HTTP/2 200 OK\r\n\r\n",
    "no-status": b"HTTP/1.1 OK\r\n\r\n",
    "space-before-colon": ok(b"Content-Length : 3"),
    "folded": ok(b"a: b", b" c"),
    "bare-line-feed": b"HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
    "bare-line-feed-in-value": ok(b"a: b\nc: d"),
    "null-in-value": ok(b"a: \0"),
    "no-name": ok(b": x"),
    "two-lengths": ok(ONE, b"Content-Length: 2") + b"x",
    "negative-length": ok(b"Content-Length: -1"),
    "list-of-lengths": ok(b"Content-Length: 1, 1") + b"x",
    "vast-length": ok(b"Content-Length: " + b"9" * 19),
    "length-and-chunks": ok(ONE, b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "other-coding": ok(b"Transfer-Encoding: gzip, chunked"),
    "chunk-without-size": CHUNKS + b"\r\n",
    "chunk-size-signed": CHUNKS + b"+1\r\nx\r\n",
    "chunk-size-hex": CHUNKS + b"0x1\r\nx\r\n",
    "chunk-line-feed": CHUNKS + b"1\nx\n0\n\n",
    "chunk-too-long": CHUNKS + b"1\r\nxy\r\n0\r\n\r\n",
    "endless-chunk-line": CHUNKS + b"1;" + b"x" * 2000,
    "trailers": CHUNKS + b"0\r\na: b\r\n\r\n",
}


@pytest.mark.parametrize("data", VIOLATIONS.values(), ids=VIOLATIONS)
def test_invalid_answer_is_a_protocol_violation(data: bytes) -> None:
    for piece in (1, 1 << 16) if len(data) < 1000 else (1 << 16,):
        with pytest.raises(ProtocolViolation):
            read(data, piece)


@given(st.sampled_from(sorted(ANSWERS)), st.data())
def test_garbled_answers_end_in_one_of_three_ways(name: str, data: st.DataObject) -> None:
    answer = bytearray(ANSWERS[name][0])
    for _ in range(data.draw(st.integers(1, 3))):
        answer[data.draw(st.integers(0, len(answer) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(EOFError, ProtocolViolation):
        read(bytes(answer), data.draw(st.sampled_from([1, 3, 1 << 16])))


def test_limits_of_a_head_are_inclusive() -> None:
    begun = b"HTTP/1.1 200 OK\r\na: "
    assert MAX_HEAD_BYTES == 65_536
    assert split_head(begun.ljust(65_536, b"x")) is None
    with pytest.raises(ProtocolViolation, match="head has more than 65536 bytes"):
        split_head(begun.ljust(65_537, b"x"))
    assert reader_of(b"Content-Length: %b\r\n" % (b"9" * 18)).direct_bytes == 10**18 - 1


def test_bytes_behind_a_chunk_are_checked_at_once() -> None:
    reader = reader_of(b"Transfer-Encoding: chunked\r\n", b"1\r\na")
    assert reader.read_into(memoryview(bytearray(9))) == 1
    reader.feed(b"xy")
    with pytest.raises(ProtocolViolation, match="longer than its stated size"):
        reader.read_into(memoryview(bytearray(9)))


def reader_of(framing: bytes, buffered: bytes = b"") -> BodyReader:
    """The reader of a response's body, of which some bytes came with the head."""
    head = head_of(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n")
    return BodyReader(head.length, bytearray(buffered), is_chunked=head.is_chunked)


def test_direct_bytes_are_those_of_the_body_alone() -> None:
    assert reader_of(b"Content-Length: 3\r\n").direct_bytes == 3
    assert reader_of(b"Content-Length: 0\r\n").direct_bytes == 0
    assert reader_of(b"").direct_bytes == 1 << 62  # until the stream ends
    assert reader_of(b"Content-Length: 3\r\n", b"a").direct_bytes == 0  # read it first
    chunks = reader_of(b"Transfer-Encoding: chunked\r\n")
    assert chunks.direct_bytes == 0  # a chunk's line comes first
    chunks.feed(b"5\r\n")
    assert chunks.read_into(memoryview(bytearray(9))) == 0
    assert chunks.direct_bytes == 5
    chunks.advance(4)
    assert chunks.direct_bytes == 1


#: The most that a line may have here, its end included.
LINE_BYTES = 20


def follow(framed: bytes, piece: int, *, trailers: bool = True) -> tuple[bytes, int]:
    """A body that is fed ``piece`` bytes at a time, and its surplus; EOFError if it is cut."""
    early = bytearray(framed[:piece])
    reader = BodyReader(None, early, is_chunked=True, max_line_bytes=LINE_BYTES, trailers=trailers)
    body, memory = b"", memoryview(bytearray(5))
    for position in range(piece, len(framed) + piece, piece):
        while count := reader.read_into(memory):
            body += memory[:count]
        if reader.is_whole:
            return body, len(reader.buffered) + len(framed[position:])
        reader.feed(framed[position : position + piece])
    raise EOFError


LONGEST: dict[str, bytes] = {
    "extension": b"1;" + b"x" * (LINE_BYTES - 4) + b"\r\na\r\n0\r\n\r\n",
    "extension-of-a-later-chunk": b"1\r\na\r\n1;" + b"x" * (LINE_BYTES - 6) + b"\r\na\r\n0\r\n\r\n",
    "extension-of-the-last-chunk": b"0;" + b"x" * (LINE_BYTES - 4) + b"\r\n\r\n",
    "trailers": b"0\r\na:" + b"x" * (LINE_BYTES - 6) + b"\r\n\r\n",
    "many-trailers": b"0\r\na:b\r\nc:d\r\n" + b"e:" + b"x" * (LINE_BYTES - 16) + b"\r\n\r\n",
}


@pytest.mark.parametrize("framed", LONGEST.values(), ids=LONGEST)
@pytest.mark.parametrize("piece", [1, 2, 7, 1 << 10])
def test_limits_of_framing_are_inclusive(framed: bytes, piece: int) -> None:
    body, surplus = follow(framed + b"next", piece)
    assert (body, surplus) == (b"a" * framed.count(b"a\r\n"), 4)
    with pytest.raises(FramingTooLong):
        follow(framed.replace(b"x", b"xx", 1), piece)


@pytest.mark.parametrize("piece", [1, 2, 7, 1 << 10])
def test_trailers_are_lawful_where_they_are_asked_for(piece: int) -> None:
    framed = b"1\r\na\r\n0\r\nA: \xe9\r\nb:\r\n\r\n"
    assert follow(framed, piece) == (b"a", 0)
    with pytest.raises(ProtocolViolation):
        follow(framed, piece, trailers=False)
    for length in range(len(framed)):
        with pytest.raises(EOFError):
            follow(framed[:length], piece)


@pytest.mark.parametrize(
    "trailer", [b"a", b": b", b"a : b", b"a: \0", b"a: b\r\n c", b"a: b\nc: d"]
)
def test_trailers_are_fields(trailer: bytes) -> None:
    for piece in (1, 1 << 10):
        with pytest.raises(ProtocolViolation) as raised:
            follow(b"0\r\n" + trailer + b"\r\n\r\n", piece)
        assert type(raised.value) is ProtocolViolation
