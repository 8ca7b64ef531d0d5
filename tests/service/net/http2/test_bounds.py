"""What a peer may have a session do for nothing is bounded: each flood ends in ENHANCE_YOUR_CALM.

And each is done as often as a lawful client may do it, with nothing refused.
"""

from __future__ import annotations

from collections.abc import Callable

import hpack
import pytest

from support.http.http2_frames import (
    CALL,
    HEAD,
    TRAILERS,
    Peer,
    block,
    data,
    kinds,
    opened,
    setting,
)
from support.memory import traced
from tensor_round_service.net.http2 import frames
from tensor_round_service.net.http2.fields import STATIC
from tensor_round_service.net.http2.frames import (
    END_HEADERS,
    END_STREAM,
    FIRST_WINDOW,
    PADDED,
    Code,
    Kind,
    Setting,
    frame,
)
from tensor_round_service.net.http2.limits import Allowance, Event, SessionLimits

LIMITS = SessionLimits()
AT_ONCE = int(LIMITS.idle_frames[0])


#: Floods of what brings nothing, by odd numbers from 3 on; stream 1 is open.
FLOODS: dict[str, Callable[[int], bytes]] = {
    "PING": lambda _: frame(Kind.PING, 0, 0, bytes(8)),
    "acknowledged PING": lambda _: frame(Kind.PING, 1, 0, bytes(8)),
    "SETTINGS": lambda _: setting(Setting.INITIAL_WINDOW_SIZE, 5),
    "empty SETTINGS": lambda _: frames.settings({}),
    "acknowledged SETTINGS": lambda _: frame(Kind.SETTINGS, 1, 0),
    "WINDOW_UPDATE": lambda _: frames.window_update(0, 1),
    "WINDOW_UPDATE of a stream": lambda _: frames.window_update(1, 1),
    "empty DATA": lambda _: data(1),
    "padding": lambda _: frame(Kind.DATA, PADDED, 1, b"\x00"),
    "padded DATA": lambda _: frame(Kind.DATA, PADDED, 1, b"\x05a" + bytes(5)),
    "PRIORITY": lambda _: frame(Kind.PRIORITY, 0, 9, bytes(5)),
    "unknown frames": lambda _: frame(77, 0, 0, b"x"),
    "GOAWAY": lambda _: frame(Kind.GOAWAY, 0, 0, bytes(8)),
    "empty HEADERS": lambda n: (
        frame(Kind.HEADERS, 0, n) + frame(Kind.CONTINUATION, END_HEADERS, n, block())
    ),
    "late HEADERS": lambda n: (
        frame(Kind.HEADERS, END_HEADERS | END_STREAM, 3, block([("a", "b")]))
        if n > 3
        else opened(3, ends=True) + frames.rst_stream(3, Code.CANCEL)
    ),
    # CVE-2023-44487, and what makes the service reset: CVE-2025-8671.
    "resets": lambda n: opened(n, ends=True) + frames.rst_stream(n, Code.CANCEL),
    "resets of one stream": lambda _: frames.rst_stream(1, Code.CANCEL),
    "heads of no request": lambda n: frame(Kind.HEADERS, END_HEADERS, n, block(CALL[1:])),
    "wrong lengths": lambda n: opened(n, ("content-length", "1")) + data(n, b"", ends=True),
    "trailers without an end": lambda n: opened(n) + opened(n),
    "streams over the limit": lambda n: opened(n, ends=True),
}


def released(peer: Peer) -> None:
    """End the handlers of the streams that were reset, as a connection does."""
    for stream in [*peer.session.streams.values()]:
        if stream.is_reset and stream.number != 1:
            peer.session.release(stream)


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_flood_ends_the_connection(flood: Callable[[int], bytes]) -> None:
    peer = Peer(opened(1))
    sent = 0
    for number in range(3, 4 * AT_ONCE, 2):
        peer.receive(flood(number))
        peer.sent()
        released(peer)
        if peer.fault is not None:
            break
        sent += 1
    assert peer.fault is Code.ENHANCE_YOUR_CALM
    least = AT_ONCE if "empty" in str(peer.session.fault) else LIMITS.resets[0]
    assert least - 10 <= sent <= least + LIMITS.max_streams


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_some_a_second_are_lawful(flood: Callable[[int], bytes]) -> None:
    peer = Peer(opened(1), idle_frames=(1000, 100))
    for number in range(3, 4000, 2):
        peer.receive(flood(number))
        peer.sent()
        released(peer)
        peer.now += 1 / 30
    assert peer.fault is None


def test_a_flood_in_one_read_is_answered_no_further() -> None:
    peer = Peer()
    peer.receive(frame(Kind.PING, 0, 0, bytes(8)) * 15_000)
    sent = kinds(peer.sent())
    # Its SETTINGS count, too.
    assert sent == {Kind.PING: AT_ONCE - 1, Kind.GOAWAY: 1}


def test_fast_reader_may_update_its_windows_often() -> None:
    """A client that tells of each frame of 16 KiB, on the stream and on the connection."""
    peer = Peer(opened(1, ends=True))
    stream, total = peer.stream(), 64 << 20
    peer.session.send(stream, [bytes(total)], TRAILERS)
    read = 0
    while read < total:
        for got in peer.sent():
            if got.kind == Kind.DATA:
                read += len(got.payload)
                size = len(got.payload)
                peer.receive(frames.window_update(0, size), frames.window_update(1, size))
        assert peer.fault is None
    assert peer.now == 0


def test_large_sender_may_send_small_frames() -> None:
    peer = Peer(opened(1))
    for _ in range(40):
        stream = peer.stream()
        stream.fill(memoryview(bytearray(1 << 20)))
        peer.session.open_window(stream)
        for _ in range(16):
            peer.receive(data(1, bytes(1 << 16)), frame(Kind.PING, 0, 0, bytes(8)) * 20)
        peer.sent()
    assert peer.fault is None


@pytest.mark.parametrize("is_stream", [False, True], ids=["calls", "messages"])
def test_windows_may_be_updated_for_each_call_and_each_message(is_stream: bool) -> None:
    """As gRPC's clients do, however small it is; they may send a PING, too."""
    peer = Peer(opened(1))
    peer.session.begin(peer.stream(), HEAD)
    for number in range(3, 3 * AT_ONCE, 2):
        used = 1 if is_stream else number
        peer.receive(data(1, b"x") if is_stream else opened(number, ends=True))
        peer.receive(frames.window_update(used, 1), frames.window_update(0, 1))
        peer.receive(frame(Kind.PING, 0, 0, bytes(8)))
        assert peer.fault is None, number
        if not is_stream:
            peer.session.begin(peer.stream(used), HEAD)
        peer.session.send(peer.stream(used), [b"x"], None if is_stream else TRAILERS)
        peer.sent()
        if not is_stream:
            peer.session.release(peer.stream(used))
    assert peer.now == 0


def test_unread_control_frames_end_the_connection() -> None:
    """Also what is earned by DATA."""
    peer = Peer(opened(1), idle_frames=(1_000_000, 0.0))
    count = 0
    while peer.fault is None:
        peer.receive(frame(Kind.PING, 0, 0, bytes(8)) * 100)
        count += 100
    assert peer.fault is Code.ENHANCE_YOUR_CALM
    assert abs(17 * count - LIMITS.max_control_bytes) <= 1700
    assert len(peer.session.outbox.control) < LIMITS.max_control_bytes + 4096


def test_as_many_streams_are_open_as_the_peer_was_told() -> None:
    numbers = range(1, 2 * LIMITS.streams, 2)
    peer = Peer(*(opened(number, ends=True) for number in numbers))
    following = numbers.stop + 1
    assert peer.receive(opened(following)) == []
    (refused,) = peer.sent()
    assert (refused.stream, refused.code) == (following, Code.REFUSED_STREAM)
    # Over as the peer sees it; its handler has not ended.
    peer.session.begin(peer.stream(5), HEAD + TRAILERS, ends=True)
    assert peer.receive(opened(following + 2)) == [Event.OPENED]
    assert peer.receive(opened(following + 4)) == []


def test_streams_keep_their_places_until_their_handlers_end() -> None:
    numbers = range(1, 2 * LIMITS.max_streams, 2)
    peer = Peer()
    for number in numbers:
        peer.receive(opened(number), frames.rst_stream(number, Code.CANCEL))
    assert len(peer.session.streams) == LIMITS.max_streams
    peer.sent()
    following = numbers.stop + 1
    assert peer.receive(opened(following)) == []
    (refused,) = peer.sent()
    assert (refused.kind, refused.code) == (Kind.RST_STREAM, Code.REFUSED_STREAM)
    peer.session.release(peer.stream(5))
    assert peer.receive(opened(following + 2)) == [Event.OPENED]


@pytest.mark.parametrize("size", [1, 16, 1000, 16384])
def test_a_header_block_has_an_end(size: int) -> None:
    """CONTINUATION that never ends the block: CVE-2024-27316 and its kin."""
    peer = Peer(frame(Kind.HEADERS, 0, 1, bytes(size)))
    parts = 1
    while peer.fault is None:
        peer.receive(frame(Kind.CONTINUATION, 0, 1, bytes(size)))
        parts += 1
    assert peer.fault is Code.ENHANCE_YOUR_CALM
    assert parts <= LIMITS.max_continuations + 2
    assert size * parts <= LIMITS.max_block_bytes + size


def test_a_block_that_grows_when_it_is_decoded() -> None:
    """One field of 4 KiB in the table, and then 65,000 times its index: 256 MiB in 64 KiB."""
    large = hpack.Encoder().encode([("x", "y" * 4000)], huffman=False)
    peer = Peer()
    with traced() as most:
        first = frame(Kind.HEADERS, END_HEADERS, 1, block() + large)
        bomb = frame(Kind.HEADERS, END_HEADERS, 3, block() + b"\xbe" * 65_000)
        peer.receive(first, bomb)
        peak = most()
    assert [peer.stream(number).head.fault is None for number in (1, 3)] == [True, False]
    assert peak < 1 << 20


def test_refusal_of_a_short_block_is_not_kept() -> None:
    """Raised again and again, an exception would keep what it was raised from."""
    encoder, peer = hpack.Encoder(), Peer()
    refused = {b"content-length", b"transfer-encoding"}
    others = [(name.decode(), "") for name, _ in STATIC[17:] if name not in refused]
    many = [*CALL[:2], (":path", "/"), *others, *((f"{number}", "") for number in range(60))]
    for number in (1, 3, 5):
        sent = encoder.encode(many, huffman=False)
        peer.receive(frame(Kind.HEADERS, END_HEADERS | END_STREAM, number, sent))
    assert len(sent) < 128, "short enough to be kept"
    faults = [stream.head.fault for stream in peer.session.streams.values()]
    assert None not in faults
    assert faults[1] is not faults[2]


def test_settings_in_one_frame() -> None:
    values = bytes.fromhex("000400000005")
    peer = Peer(frame(Kind.SETTINGS, 0, 0, values * 32))
    assert peer.fault is None
    peer.receive(frame(Kind.SETTINGS, 0, 0, values * 33))
    assert peer.fault is Code.ENHANCE_YOUR_CALM


def test_unread_bytes_of_all_streams_together() -> None:
    """As many as one window has, over however many streams."""
    peer = Peer(*(opened(number) for number in range(1, 129, 2)))
    for number in range(1, 129, 2):
        peer.receive(data(number, bytes(FIRST_WINDOW // 64)))
        peer.session.open_window(peer.stream(number))
    assert peer.fault is None
    assert not peer.sent(), "no window is opened"
    assert peer.session.credit.unread == FIRST_WINDOW // 64 * 64
    peer.receive(data(1, bytes(FIRST_WINDOW // 64)))
    assert peer.fault is Code.FLOW_CONTROL_ERROR


def test_time_of_a_frame_runs_from_its_first_byte_to_its_last() -> None:
    """And that of a header block over all of its frames; DATA has none."""
    ping, start = frame(Kind.PING, 0, 0, bytes(8)), frame(Kind.HEADERS, 0, 3, block()[:5])
    peer = Peer(opened(1))
    for now, received, since in (
        (1, b"", None),
        (2, ping[:5], 2),
        (3, ping[5:9], 2),
        (4, ping[9:] + ping[:3], 4),
        (5, ping[3:] + start, 5),
        (6, frame(Kind.CONTINUATION, 0, 3, block()[5:9]), 5),
        (7, frame(Kind.CONTINUATION, END_HEADERS, 3, block()[9:]) + ping[:5], 7),
        (8, ping[5:], None),
        (9, frame(Kind.DATA, 0, 3, bytes(100))[:50], None),
    ):
        peer.now = now
        peer.receive(received)
        assert (peer.fault, peer.session.incomplete_since) == (None, since)


def test_an_allowance() -> None:
    now = 0.0
    allowance = Allowance(3, 2, lambda: now)
    assert [allowance.spend() for _ in range(4)] == [True, True, True, False]
    now = 1.5
    assert [allowance.spend() for _ in range(3)] == [True, True, False]
    now = 100.0
    assert [allowance.spend() for _ in range(4)] == [True, True, True, False]
    allowance.earn(2.5)
    assert [allowance.spend() for _ in range(2)] == [True, False]


def test_a_response_ends_a_stream_whose_peer_still_sends() -> None:
    """The service's own resets, which no peer has caused, are not counted."""
    peer = Peer()
    for number in range(1, 2 * 1200, 2):
        peer.receive(opened(number))
        stream = peer.stream(number)
        peer.session.begin(stream, HEAD + TRAILERS, ends=True)
        peer.session.release(stream)
        peer.sent()
    assert peer.fault is None
