"""A session's frames and streams: what a peer may do, and what ends a stream or the connection."""

from __future__ import annotations

import struct

import hpack
import pytest

from support.http.http2_frames import (
    CALL,
    HEAD,
    HELLO,
    TRAILERS,
    Peer,
    block,
    data,
    kinds,
    opened,
    setting,
)
from tensor_round.contract.errors import HeadersTooLarge
from tensor_round_service.net.http2 import frames
from tensor_round_service.net.http2.frames import (
    ACK,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    FIRST_WINDOW,
    MAX_WINDOW,
    PADDED,
    PREFACE,
    PRIORITIZED,
    Code,
    Kind,
    Setting,
    frame,
)
from tensor_round_service.net.http2.limits import Event, SessionLimits

CONTENT = bytes(range(256)) * 40


def test_it_begins_with_settings() -> None:
    hello, update = Peer(hello=b"").sent()
    assert SessionLimits().read_settings(hello.payload) == {
        Setting.MAX_CONCURRENT_STREAMS: 100,
        Setting.INITIAL_WINDOW_SIZE: FIRST_WINDOW,
        Setting.MAX_FRAME_SIZE: (1 << 24) - 1,
        Setting.MAX_HEADER_LIST_SIZE: 16 << 10,
    }
    assert (update.kind, update.stream) == (Kind.WINDOW_UPDATE, 0)
    assert DEFAULT_WINDOW + int.from_bytes(update.payload) == FIRST_WINDOW


SCRIPT = b"".join(
    [
        HELLO,
        opened(1),
        data(1, CONTENT),
        frame(Kind.DATA, PADDED, 1, b"\x03abc\0\0\0"),
        frame(Kind.PING, 0, 0, b"12345678"),
        frame(Kind.PRIORITY, 0, 7, bytes(5)),
        frame(99, 3, 5, b"unknown"),
        frame(Kind.HEADERS, END_STREAM, 3, block()[:10]),
        frame(Kind.CONTINUATION, END_HEADERS, 3, block()[10:]),
        frame(
            Kind.HEADERS,
            PADDED | PRIORITIZED | END_HEADERS,
            5,
            b"\x02\0\0\0\0\0" + block() + b"\0\0",
        ),
        frame(Kind.RST_STREAM, 0, 5, struct.pack(">I", Code.CANCEL)),
        data(1, b"", ends=True),
    ]
)


@pytest.mark.parametrize("size", [1, 7, 100, 1 << 20])
def test_a_script_in_pieces(size: int) -> None:
    peer = Peer(hello=b"")
    for begin in range(0, len(SCRIPT), size):
        peer.receive(SCRIPT[begin : begin + size])
    assert peer.fault is None
    first, second, third = (peer.stream(number) for number in (1, 3, 5))
    assert bytes(first.unread) == CONTENT + b"abc"
    assert [each.is_ended for each in (first, second, third)] == [True, True, False]
    assert [each.is_reset for each in (first, second, third)] == [False, False, True]
    assert [e for e, s in peer.events if e is not Event.ARRIVED] == [Event.OPENED] * 3 + [
        Event.RESET
    ]
    assert second.head.path == "/a.Service/Method"
    sent = peer.sent()
    assert [each.payload for each in sent if each.kind == Kind.PING] == [b"12345678"]
    assert [each.flags for each in sent if each.kind == Kind.SETTINGS] == [0, ACK]


def test_a_response() -> None:
    peer = Peer(opened(1, ends=True))
    session, stream = peer.session, peer.stream()
    session.begin(stream, HEAD)
    session.send(stream, [b"one", memoryview(b"two")], None)
    session.send(stream, [b"three"], TRAILERS)
    session.release(stream)
    sent = peer.sent()
    assert [each.kind for each in sent] == [Kind.HEADERS, Kind.DATA, Kind.DATA, Kind.HEADERS]
    assert [each.ends for each in sent] == [False, False, False, True]
    assert sent[0].payload == HEAD
    assert b"".join(each.payload for each in sent[1:3]) == b"onetwothree"
    assert sent[3].payload == TRAILERS
    assert not session.streams


def test_a_response_before_the_end_of_a_request() -> None:
    peer = Peer(opened(1), data(1, b"begin"))
    peer.session.begin(peer.stream(), HEAD + TRAILERS, ends=True)
    sent = peer.sent()
    assert [(each.kind, each.code) for each in sent[1:]] == [(Kind.RST_STREAM, Code.NO_ERROR)]
    assert sent[0].ends
    peer.session.release(peer.stream())
    # What the client had sent before it knew is dropped, and the connection goes on.
    assert peer.receive(data(1, bytes(1000), ends=True), opened(3)) == [Event.OPENED]


def test_a_stream_without_a_response_is_reset() -> None:
    peer = Peer(opened(1, ends=True))
    peer.session.release(peer.stream())
    (reset,) = peer.sent()
    assert (reset.kind, reset.stream, reset.code) == (Kind.RST_STREAM, 1, Code.INTERNAL_ERROR)


def test_a_long_head_is_continued() -> None:
    peer = Peer(opened(1, ends=True))
    long = HEAD + bytes(40_000)
    peer.session.begin(peer.stream(), long, ends=True)
    sent = peer.sent()
    assert [each.kind for each in sent] == [Kind.HEADERS, Kind.CONTINUATION, Kind.CONTINUATION]
    assert b"".join(each.payload for each in sent) == long
    assert [each.flags for each in sent] == [END_STREAM, 0, END_HEADERS]


def test_a_smaller_table_is_acknowledged_in_the_next_block() -> None:
    peer = Peer(setting(Setting.HEADER_TABLE_SIZE, 0), opened(1, ends=True), opened(3, ends=True))
    peer.sent()
    for number in (1, 3):
        peer.session.begin(peer.stream(number), HEAD, ends=True)
    assert [each.payload for each in peer.sent()] == [b"\x20" + HEAD, HEAD]


START = frame(Kind.HEADERS, 0, 1, block())
UP_TO = frames.window_update
#: What ends a connection, by the code that says why; the first ones come before any SETTINGS.
UNOPENED: dict[str, bytes] = {
    "another protocol": b"GET / HTTP/1.1\r\n\r\n",
    "no settings": PREFACE + frame(Kind.PING, 0, 0, bytes(8)),
    "an acknowledgement first": PREFACE + frame(Kind.SETTINGS, ACK, 0),
}
FAULTS: dict[Code, dict[str, bytes]] = {
    Code.PROTOCOL_ERROR: {
        "DATA on no stream": data(0, b"x"),
        "DATA on an idle stream": data(1, b"x"),
        "DATA on an even stream": opened(3) + data(2, b"x"),
        "padding as long as its frame": opened(1) + frame(Kind.DATA, PADDED, 1, b"\x02a"),
        "padding in an empty frame": opened(1) + frame(Kind.DATA, PADDED, 1),
        "HEADERS on no stream": opened(0),
        "HEADERS on an even stream": opened(2),
        "padding in empty HEADERS": frame(Kind.HEADERS, PADDED | END_HEADERS, 1),
        "padding longer than HEADERS": frame(
            Kind.HEADERS, PADDED | END_HEADERS, 1, b"\xff" + START
        ),
        "a block that is not finished": START + frame(Kind.PING, 0, 0, bytes(8)),
        "a block continued on another stream": START + frame(Kind.CONTINUATION, END_HEADERS, 3),
        "CONTINUATION alone": frame(Kind.CONTINUATION, END_HEADERS, 1, block()),
        "SETTINGS on a stream": frame(Kind.SETTINGS, 0, 1),
        "push of 2": setting(Setting.ENABLE_PUSH, 2),
        "small frames": setting(Setting.MAX_FRAME_SIZE, 16383),
        "large frames": setting(Setting.MAX_FRAME_SIZE, 1 << 24),
        "a window of 0 more": UP_TO(0, 0),
        "a window of an idle stream": UP_TO(1, 1),
        "PING on a stream": frame(Kind.PING, 0, 1, bytes(8)),
        "GOAWAY on a stream": frame(Kind.GOAWAY, 0, 1, bytes(8)),
        "RST_STREAM of an idle stream": frames.rst_stream(1, Code.CANCEL),
        "RST_STREAM of no stream": frames.rst_stream(0, Code.CANCEL),
        "PRIORITY of no stream": frame(Kind.PRIORITY, 0, 0, bytes(5)),
        "a lower number than one before": opened(5) + opened(3),
        "the number of a stream that is over": opened(1)
        + frames.rst_stream(1, Code.CANCEL)
        + opened(1),
        "PUSH_PROMISE": frame(Kind.PUSH_PROMISE, END_HEADERS, 1, bytes(4)),
    },
    Code.STREAM_CLOSED: {
        "DATA far behind the end": opened(1, ends=True) + data(1, b"x") + data(1, b"x")
    },
    Code.ENHANCE_YOUR_CALM: {
        "a long header block": frame(Kind.HEADERS, END_HEADERS, 1, bytes((64 << 10) + 300))
    },
    Code.COMPRESSION_ERROR: {"no block": frame(Kind.HEADERS, END_HEADERS, 1, b"\x80")},
    Code.FRAME_SIZE_ERROR: {
        "SETTINGS of 5 bytes": frame(Kind.SETTINGS, 0, 0, bytes(5)),
        "values in an acknowledgement": frame(Kind.SETTINGS, ACK, 0, bytes(6)),
        "WINDOW_UPDATE of 3 bytes": frame(Kind.WINDOW_UPDATE, 0, 0, bytes(3)),
        "PING of 7 bytes": frame(Kind.PING, 0, 0, bytes(7)),
        "GOAWAY of 7 bytes": frame(Kind.GOAWAY, 0, 0, bytes(7)),
        "RST_STREAM of 5 bytes": frame(Kind.RST_STREAM, 0, 1, bytes(5)),
        "PRIORITY of 4 bytes": frame(Kind.PRIORITY, 0, 1, bytes(4)),
        "a long frame of control": frame(Kind.PING, 0, 0, bytes(16385)),
    },
    Code.FLOW_CONTROL_ERROR: {
        "a first window over 2**31": setting(Setting.INITIAL_WINDOW_SIZE, 1 << 31),
        "settings that overflow a window": opened(1)
        + UP_TO(1, 1)
        + setting(Setting.INITIAL_WINDOW_SIZE, MAX_WINDOW),
        "an overflowing window": UP_TO(0, MAX_WINDOW),
    },
}
CASES = [
    *(pytest.param(b"", sent, Code.PROTOCOL_ERROR, id=name) for name, sent in UNOPENED.items()),
    *(
        pytest.param(HELLO, sent, code, id=name)
        for code, faults in FAULTS.items()
        for name, sent in faults.items()
    ),
]


@pytest.mark.parametrize(("hello", "received", "code"), CASES)
def test_faults_end_a_connection(hello: bytes, received: bytes, code: Code) -> None:
    peer = Peer(hello=hello)
    peer.receive(received)
    assert peer.fault is code
    last = peer.sent()[-1]
    assert (last.kind, last.code) == (Kind.GOAWAY, code)
    assert all(each.is_reset for each in peer.session.streams.values())
    assert peer.receive(opened(99), data(99, b"more")) == []
    assert not peer.sent()


#: What resets a stream alone, by the code that says why.
OF_A_STREAM: dict[str, tuple[bytes, Code]] = {
    "DATA behind its end": (opened(1, ends=True) + data(1, b"x"), Code.STREAM_CLOSED),
    "its window of 0 more": (opened(1) + UP_TO(1, 0), Code.PROTOCOL_ERROR),
    "its overflowing window": (opened(1) + UP_TO(1, MAX_WINDOW), Code.FLOW_CONTROL_ERROR),
    "its PRIORITY of 4 bytes": (
        opened(1) + frame(Kind.PRIORITY, 0, 1, bytes(4)),
        Code.FRAME_SIZE_ERROR,
    ),
}


@pytest.mark.parametrize(("received", "code"), OF_A_STREAM.values(), ids=OF_A_STREAM)
def test_fault_of_a_stream_leaves_the_others(received: bytes, code: Code) -> None:
    peer = Peer(received, opened(3, ends=True))
    assert peer.fault is None
    assert [(each.stream, each.code) for each in peer.sent()] == [(1, code)]
    assert [each.is_reset for each in peer.session.streams.values()] == [True, False]


@pytest.mark.parametrize("size", [1000, 1 << 14, 1 << 30])
@pytest.mark.parametrize("kind", [77, Kind.GOAWAY])
def test_content_of_ignored_frames_has_any_length(kind: int, size: int) -> None:
    peer, whole = Peer(), frame(kind, 0, 0, bytes(1 << 20))
    for begin in range(0, len(whole), size):
        peer.receive(whole[begin : begin + size])
    assert peer.receive(opened(1)) == [Event.OPENED]


BAD_HEADS = {
    "no method": CALL[1:],
    "no path": [CALL[0], CALL[1]],
    "an empty path": [*CALL[:2], (":path", "")],
    "a path that is no path": [*CALL[:2], (":path", "a.Service/Method")],
    "a method twice": [CALL[0], *CALL],
    "an unknown pseudo-field": [(":protocol", "x"), *CALL],
    "a pseudo-field behind others": [*CALL, (":authority", "x")],
    "a name in capitals": [*CALL, ("Te", "trailers")],
    "a name with a line end": [*CALL, ("a\nb", "x")],
    "an empty name": [*CALL, ("", "x")],
    "a value with a line end": [*CALL, ("a", "x\ny")],
    "a value with NUL": [*CALL, ("a", "x\0y")],
    "a value with a control character": [*CALL, ("a", "x\x1by")],
    "a pseudo-field behind a space": [*CALL[:2], (":path", " /")],
    "connection": [*CALL, ("connection", "close")],
    "transfer-encoding": [*CALL, ("transfer-encoding", "chunked")],
    "te": [*CALL, ("te", "gzip")],
    "another host": [*CALL, (":authority", "a"), ("host", "b")],
    "two hosts": [*CALL, ("host", "a"), ("host", "a")],
    "two lengths": [*CALL, ("content-length", "1"), ("content-length", "2")],
    "a length that is no number": [*CALL, ("content-length", "+1")],
}


BAD_TRAILERS = {
    "trailers without an end": (0, [("a", "b")]),
    "trailers with a name in capitals": (END_STREAM, [("A", "b")]),
    "trailers with a pseudo-field": (END_STREAM, [(":path", "/")]),
}


@pytest.mark.parametrize(
    ("before", "flags", "fields", "events"),
    [
        *((b"", 0, fields, []) for fields in BAD_HEADS.values()),
        *((opened(1), *trailers, [Event.RESET]) for trailers in BAD_TRAILERS.values()),
    ],
    ids=[*BAD_HEADS, *BAD_TRAILERS],
)
def test_malformed_head_or_trailers_reset_their_stream(
    before: bytes, flags: int, fields: list[tuple[str, str]], events: list[Event]
) -> None:
    peer = Peer(before)
    assert peer.receive(frame(Kind.HEADERS, flags | END_HEADERS, 1, block(fields))) == events
    (reset,) = peer.sent()
    assert (reset.kind, reset.stream, reset.code) == (Kind.RST_STREAM, 1, Code.PROTOCOL_ERROR)
    assert peer.receive(opened(3)) == [Event.OPENED]


def test_streams_wait_until_they_may_be_opened() -> None:
    peer = Peer()
    trailers = frame(Kind.HEADERS, END_HEADERS | END_STREAM, 1, block([("a", "b")]))
    calls = [opened(3), data(3, b"x", ends=True), trailers, opened(5, ends=True)]
    sent = b"".join([opened(1), data(1, b"y"), *calls, frame(Kind.PING, 0, 0, bytes(8)), b"cut"])
    came: list[list[tuple[Event, int]]] = []
    for received in (sent, b"off", b""):
        peer.session.receive(memoryview(received), may_open=1)
        came.append([(event, stream.number) for event, stream in peer.session.events])
        peer.take_events()
        is_last = len(came) == 3
        assert peer.session.is_waiting is not is_last
        assert (peer.session.incomplete_since is not None) is is_last
        assert bool(kinds(peer.sent())[Kind.PING]) is is_last
    assert came == [
        [(Event.OPENED, 1)],
        [(Event.OPENED, 3), (Event.ARRIVED, 1)],
        [(Event.OPENED, 5)],
    ]
    assert peer.stream(1).is_ended
    assert peer.fault is None


def test_streams_that_are_reset_at_once_leave_their_turn_to_others() -> None:
    peer = Peer()
    reset = frames.rst_stream(1, Code.CANCEL)
    sent = b"".join([opened(1), reset, opened(3), opened(5)])
    peer.session.receive(memoryview(sent), may_open=1)
    assert [*peer.session.streams] == [1, 3]
    assert peer.session.is_waiting


def test_request_head_is_parsed() -> None:
    head = Peer(opened(1, ("a", "1"), ("b", "x"), ("a", "2"))).stream().head
    assert (head.method, head.path) == ("POST", "/a.Service/Method")
    assert head.authority == b"localhost"
    assert head.values[b"a"] == b"1, 2"
    assert head.repeated == {b"a"}
    assert [name for name, _ in head.fields] == [b"te", b"content-type", b"a", b"b", b"a"]
    assert head.length is None
    assert head.fault is None


def test_white_space_around_values_is_removed() -> None:
    head = Peer(opened(1, ("a", " x\t"), ("b", "\t"), ("c", "y z"))).stream().head
    assert [head.values[name] for name in (b"a", b"b", b"c")] == [b"x", b"", b"y z"]
    assert head.fields[-3:] == [(b"a", b"x"), (b"b", b""), (b"c", b"y z")]


#: Lists of fields over a limit, before or behind those of a call.
LONG: dict[str, list[tuple[str, str]]] = {
    "many": [(f"x{number}", "y") for number in range(1000)],
    "large": [("x", "y" * 60_000)],
    "large in the table": [(f"x{number}", "y" * 1000) for number in range(60)],
}


@pytest.mark.parametrize("is_coded", [False, True], ids=["plain", "coded"])
@pytest.mark.parametrize("is_kept", [False, True], ids=["alone", "in the table"])
@pytest.mark.parametrize("fields", LONG.values(), ids=LONG)
def test_a_list_of_fields_over_its_limit_is_a_fault_of_its_head(
    fields: list[tuple[str, str]], is_kept: bool, is_coded: bool
) -> None:
    """The stream's alone, however it is sent; the table stays that of the peer."""
    encoder, peer = hpack.Encoder(), Peer()
    for number, sent in (1, [*CALL[:4], *fields, *CALL[4:]]), (3, [*CALL, ("x", "y")]):
        content = encoder.encode([(*each, not is_kept) for each in sent], huffman=is_coded)
        peer.receive(frame(Kind.HEADERS, END_STREAM, number, content[:20_000]))
        peer.receive(frame(Kind.CONTINUATION, END_HEADERS, number, content[20_000:]))
    assert peer.fault is None
    long, short = peer.stream(1).head, peer.stream(3).head
    assert isinstance(long.fault, HeadersTooLarge)
    assert "metadata" in str(long.fault)
    assert (long.path, long.values[b"content-type"]) == ("/a.Service/Method", b"application/grpc")
    assert (short.fault, short.values[b"x"]) == (None, b"y")


@pytest.mark.parametrize(
    ("length", "sent", "is_right"),
    [("3", b"abc", True), ("2", b"abc", False), ("4", b"abc", False)],
)
def test_a_stated_length_must_hold(length: str, sent: bytes, is_right: bool) -> None:
    peer = Peer(opened(1, ("content-length", length)), data(1, sent, ends=True))
    assert peer.stream().is_reset is not is_right


def test_trailers_of_a_request_end_it() -> None:
    trailers = frame(Kind.HEADERS, END_HEADERS | END_STREAM, 1, block([("a", "b")]))
    peer = Peer(opened(1), data(1, b"abc"))
    assert peer.receive(trailers) == [Event.ARRIVED]
    assert peer.stream().is_ended
    peer.sent()
    assert peer.receive(trailers) == [Event.RESET]
    assert [each.code for each in peer.sent()] == [Code.STREAM_CLOSED]


def test_late_frames_of_a_stream_that_is_over_are_ignored() -> None:
    peer = Peer(opened(1, ends=True))
    peer.session.begin(peer.stream(), HEAD + TRAILERS, ends=True)
    peer.session.release(peer.stream())
    peer.sent()
    late = [
        frames.window_update(1, 5),
        frames.rst_stream(1, Code.CANCEL),
        frame(Kind.HEADERS, END_HEADERS | END_STREAM, 1, block([("a", "b")])),
        frame(Kind.GOAWAY, 0, 0, bytes(8)),
    ]
    assert peer.receive(*late) == []
    assert peer.fault is None
    assert not peer.sent()


def test_the_end_is_announced_and_then_meant() -> None:
    """A stream that was refused is not taken for served when the connection ends by a fault."""
    peer = Peer(opened(1, ends=True))
    peer.session.announce_end()
    assert peer.receive(opened(3, ends=True)) == [Event.OPENED]
    peer.session.refuse_streams()
    assert peer.receive(opened(5, ends=True)) == []
    peer.receive(frames.window_update(0, 0))
    first, second, refused, third = peer.sent()
    lasts = [int.from_bytes(each.payload[:4]) for each in (first, second, third)]
    assert lasts == [MAX_WINDOW, 3, 3]
    assert first.code == second.code == Code.NO_ERROR
    assert (refused.kind, refused.code) == (Kind.RST_STREAM, Code.REFUSED_STREAM)
    assert kinds(peer.sent()) == {}
