"""Flow control: a window is an admission, and what waits to be sent is sent fairly."""

from __future__ import annotations

import random

import pytest

from support.http.http2_frames import HEAD, TRAILERS, Frame, Peer, data, opened, setting
from tensor_round_service.net.http2 import frames
from tensor_round_service.net.http2.frames import (
    DEFAULT_WINDOW,
    FIRST_WINDOW,
    MAX_WINDOW,
    PADDED,
    Code,
    Kind,
    Setting,
    frame,
)
from tensor_round_service.net.http2.limits import Event
from tensor_round_service.net.http2.outbox import TURN_BYTES
from tensor_round_service.net.http2.stream import DIRECT_BYTES, Stream

MIB = 1 << 20
WIDE = frames.window_update(0, MAX_WINDOW - DEFAULT_WINDOW) + setting(
    Setting.INITIAL_WINDOW_SIZE, MAX_WINDOW
)


def updates(sent: list[Frame]) -> dict[int, int]:
    """What may be sent more, by stream; 0 is the connection."""
    found: dict[int, int] = {}
    for each in sent:
        if each.kind == Kind.WINDOW_UPDATE:
            found[each.stream] = found.get(each.stream, 0) + int.from_bytes(each.payload)
    return found


def filling(peer: Peer, target: bytearray, number: int = 1) -> Stream:
    """A stream that is to fill this memory, and whose peer may send it."""
    stream = peer.stream(number)
    assert not stream.fill(memoryview(target))
    peer.session.open_window(stream)
    return stream


@pytest.mark.parametrize("cut", [1 << 20, 5000, 1009, 10])
def test_frames_of_one_size_fill_a_target_and_the_rest_stays_unread(cut: int) -> None:
    peer = Peer(opened(1))
    target = bytearray(2500)
    stream = filling(peer, target)
    content = bytes(range(250)) * 16
    pieces = [content[at : at + 1000] for at in range(0, 4000, 1000)]
    sent = b"".join([*(data(1, each) for each in pieces[:3]), data(1, pieces[3], ends=True)])
    peer.receive(*(sent[at : at + cut] for at in range(0, len(sent), cut)))
    assert peer.fault is None
    assert bytes(target + stream.unread) == content
    assert (stream.received, stream.filled, stream.is_ended) == (4000, 2500, True)
    assert FIRST_WINDOW - stream.window == 4000
    assert peer.session.credit.unread == 1500


def test_window_opens_by_the_missing_bytes_of_a_target() -> None:
    peer = Peer(opened(1), data(1, bytes(1000)))
    stream = filling(peer, bytearray(MIB))
    # On other streams as much may come as before.
    assert updates(peer.sent()) == {1: MIB - FIRST_WINDOW, 0: MIB}
    assert stream.filled == 1000
    assert stream.window == MIB - 1000


@pytest.mark.parametrize("number", [1, 3])
def test_more_than_a_window_ends_the_connection(number: int) -> None:
    peer = Peer(opened(1), opened(3), data(1, bytes(FIRST_WINDOW)))
    assert peer.fault is None
    peer.receive(data(number, b"x"))
    assert peer.fault is Code.FLOW_CONTROL_ERROR


def test_used_bytes_are_given_back_to_the_connection() -> None:
    """Not one by one: the updates would cost more than what they allow."""
    peer = Peer()
    given = 0
    for number in range(1, 201, 2):
        peer.receive(opened(number), data(number, bytes(1000), ends=True))
        stream = peer.stream(number)
        assert stream.fill(memoryview(bytearray(1000)))
        peer.session.begin(stream, HEAD + TRAILERS, ends=True)
        peer.session.release(stream)
        sent = peer.sent()
        given += updates(sent).get(0, 0)
        assert updates(sent).keys() <= {0}
    assert FIRST_WINDOW - peer.session.credit.window == 100_000 - given < FIRST_WINDOW // 2 + 1000


def test_dropped_bytes_and_padding_are_given_back() -> None:
    peer = Peer(opened(1), frame(Kind.DATA, PADDED, 1, b"\xff" + bytes(40_000)))
    given = updates(peer.sent())
    assert given[1] == 256
    stream = peer.stream()
    assert bytes(stream.unread) == bytes(40_000 - 255)
    peer.session.reset(stream, Code.CANCEL)
    peer.session.release(stream)
    peer.receive(data(1, bytes(20_000)))
    total = given.get(0, 0) + updates(peer.sent()).get(0, 0)
    assert 60_001 - FIRST_WINDOW // 2 < total <= 60_001


def test_late_data_is_accepted_up_to_its_window() -> None:
    peer = Peer(opened(1))
    peer.session.release(peer.stream())
    rest = FIRST_WINDOW - 60_000
    peer.receive(data(1, bytes(30_000)), data(1, bytes(30_000)), data(1, bytes(rest)))
    assert peer.fault is None
    peer.receive(data(1, b"x"))
    assert peer.fault is Code.STREAM_CLOSED


@pytest.mark.parametrize("asked", [0, MIB], ids=["unread", "into a target"])
def test_rest_of_a_frame_of_a_closed_stream_is_dropped(asked: int) -> None:
    """Its head came before, so the frame goes on: what follows is nobody's, and still counts."""
    peer = Peer(opened(1))
    stream = peer.stream()
    stream.fill(memoryview(bytearray(asked)))
    peer.session.open_window(stream)
    size = asked or FIRST_WINDOW
    peer.receive(data(1, bytes(size))[: 9 + size // 2])
    peer.session.release(stream)
    assert peer.session.target is None
    peer.receive(bytes(size - size // 2))
    assert (peer.fault, len(stream.unread)) == (None, 0)
    credit = peer.session.credit
    assert (credit.unread, credit.expected) == (0, 0)
    assert credit.window + FIRST_WINDOW // 2 > FIRST_WINDOW
    assert peer.receive(opened(3), data(3, b"x")) == [Event.OPENED, Event.ARRIVED]


def test_large_content_goes_into_the_target() -> None:
    """Of a frame whose head has come: its target is given out until little of it is missing."""
    content = random.Random(1).randbytes(MIB)
    peer = Peer(opened(1))
    memory = bytearray(MIB)
    stream = filling(peer, memory)
    sent = data(1, content[: MIB // 2]) + data(1, content[MIB // 2 :], ends=True)
    at, direct = 0, 0
    while at < len(sent):
        target = peer.session.target
        if target is None:
            piece = sent[at : at + 5000]
            peer.session.receive(memoryview(piece))
        else:
            piece = sent[at : at + min(len(target), 30_000)]
            target[: len(piece)] = piece
            peer.session.advance(len(piece))
            direct += len(piece)
        at += len(piece)
    assert memory == content
    assert stream.is_ended
    assert MIB - direct < 2 * (DIRECT_BYTES + 5000)


def test_the_rest_of_a_frame_under_way_is_let_come_once() -> None:
    """Its bytes are off the window since its head has come, and its target still misses them."""
    peer = Peer(opened(1))
    filling(peer, bytearray(MIB))
    peer.sent()
    peer.receive(data(1, bytes(MIB))[: 9 + 1000])
    assert updates(peer.sent()) == {}
    assert peer.session.credit.window == FIRST_WINDOW


def test_dropped_credit_is_not_given_to_other_streams() -> None:
    """A peer lets one stream be admitted, and fills others that nobody has asked for."""
    peer = Peer(*(opened(number) for number in range(1, 21, 2)))
    admitted = filling(peer, bytearray(MIB))
    for number in range(3, 13, 2):
        peer.receive(data(number, bytes(FIRST_WINDOW)))
    assert peer.session.credit.unread == 5 * FIRST_WINDOW
    admitted.release_target()
    peer.session.release(admitted)
    assert peer.session.credit.unread <= 2 * FIRST_WINDOW
    peer.receive(*(data(number, bytes(FIRST_WINDOW)) for number in range(13, 21, 2)))
    assert peer.session.credit.unread <= 2 * FIRST_WINDOW
    assert peer.fault is None


def test_waiting_for_the_end_of_a_stream_takes_no_credit() -> None:
    """It asks for a byte behind the end, which another stream may send."""
    peer = Peer(opened(1), opened(3), opened(5), data(3, bytes(FIRST_WINDOW)))
    filling(peer, bytearray(1))
    assert peer.receive(data(5, b"x"), data(1, ends=True)) == [Event.ARRIVED, Event.ARRIVED]
    assert peer.session.credit.unread == FIRST_WINDOW + 1
    assert not any(stream.is_reset for stream in peer.session.streams.values())


def test_a_target_over_the_largest_window() -> None:
    peer = Peer(opened(1))
    stream = peer.stream()
    stream.missing = 3 << 30  # as of a target that no test has memory for
    peer.session.credit.expected = 3 << 30
    peer.session.open_window(stream)
    assert updates(peer.sent()) == {1: MAX_WINDOW - FIRST_WINDOW, 0: MAX_WINDOW - FIRST_WINDOW}


# Sending.


def answering(peer: Peer, number: int, nbytes: int) -> bytes:
    """Have a stream respond with so many bytes."""
    content = random.Random(number).randbytes(nbytes)
    stream = peer.stream(number)
    peer.session.begin(stream, HEAD)
    peer.session.send(stream, [content[:7], memoryview(content)[7:]], TRAILERS)
    return content


def content_of(sent: list[Frame], number: int) -> bytes:
    return b"".join(e.payload for e in sent if (e.kind, e.stream) == (Kind.DATA, number))


def test_no_more_is_sent_than_the_windows_let() -> None:
    peer = Peer(opened(1, ends=True), opened(3, ends=True))
    contents = {number: answering(peer, number, 100_000) for number in (1, 3)}
    sent = peer.sent()
    assert len(content_of(sent, 1)) + len(content_of(sent, 3)) == DEFAULT_WINDOW
    assert max(len(each.payload) for each in sent) <= 16384
    for _ in range(20):
        more = [frames.window_update(number, 7000) for number in (0, 1, 3)]
        peer.receive(*more)
        before = len(sent)
        sent += peer.sent()
        assert sum(len(e.payload) for e in sent[before:] if e.kind == Kind.DATA) <= 7000
    peer.receive(frames.window_update(0, 1 << 20))
    sent += peer.sent()
    for number, content in contents.items():
        assert content_of(sent, number) == content
        assert [each.ends for each in sent if each.stream == number][-1]


def test_a_smaller_first_window_holds_streams_back() -> None:
    peer = Peer(frames.window_update(0, MIB), opened(1, ends=True))
    content = answering(peer, 1, 100_000)
    sent = peer.sent()
    assert len(content_of(sent, 1)) == DEFAULT_WINDOW
    peer.receive(setting(Setting.INITIAL_WINDOW_SIZE, 10_000))
    assert peer.stream().send_window == 10_000 - DEFAULT_WINDOW
    peer.receive(frames.window_update(1, DEFAULT_WINDOW - 10_000))
    assert content_of(peer.sent(), 1) == b""
    peer.receive(setting(Setting.INITIAL_WINDOW_SIZE, DEFAULT_WINDOW))
    sent += peer.sent()
    assert content_of(sent, 1) == content


def test_streams_take_turns() -> None:
    numbers = range(1, 9, 2)
    peer = Peer(WIDE, *(opened(number, ends=True) for number in numbers))
    contents = {number: answering(peer, number, MIB) for number in numbers}
    last, sent = [], []
    while not last or last[-1].kind == Kind.DATA:
        last = peer.sent(TURN_BYTES * 4)
        sent += last
        sizes = [len(content_of(sent, number)) for number in numbers]
        assert max(sizes) - min(sizes) <= TURN_BYTES
    assert {number: content_of(sent, number) for number in numbers} == contents


def test_a_stream_that_is_not_read_holds_no_other_back() -> None:
    peer = Peer(frames.window_update(0, 4 * MIB), opened(1, ends=True), opened(3, ends=True))
    answering(peer, 1, MIB)
    content = answering(peer, 3, MIB)
    peer.receive(frames.window_update(3, MIB))
    sent = peer.sent()
    assert content_of(sent, 3) == content
    assert len(content_of(sent, 1)) == DEFAULT_WINDOW


def test_frames_are_as_large_as_the_peer_takes() -> None:
    peer = Peer(WIDE, setting(Setting.MAX_FRAME_SIZE, MIB), opened(1, ends=True))
    content = answering(peer, 1, 3 * MIB)
    assert [len(each.payload) for each in peer.sent() if each.kind == Kind.DATA] == [MIB] * 3
    assert len(content) == 3 * MIB


def test_large_parts_are_not_copied() -> None:
    peer = Peer(WIDE, opened(1, ends=True))
    content = bytearray(MIB)
    peer.session.send(peer.stream(), [memoryview(content)], None)
    taken, _ = peer.session.outbox.take(MIB)
    views = [part for part in taken if isinstance(part, memoryview)]
    assert sum(map(len, views)) == MIB
    assert all(part.obj is content for part in views)


def test_reset_stream_sends_nothing_more() -> None:
    peer = Peer(opened(1, ends=True), opened(3, ends=True))
    answering(peer, 1, MIB)
    peer.receive(frames.rst_stream(1, Code.CANCEL))
    content = answering(peer, 3, 1000)
    sent = peer.sent()
    assert content_of(sent, 1) == b""
    assert content_of(sent, 3) == content
    assert not peer.sent()
