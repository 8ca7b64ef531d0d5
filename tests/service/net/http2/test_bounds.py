"""What a peer may have a session do for nothing is bounded: each flood ends in ENHANCE_YOUR_CALM.

And each is done as often as a lawful client may do it, with nothing refused. Header blocks are
read as the hpack package reads them, once as long as they say the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import hpack
import pytest
from hpack.huffman_constants import REQUEST_CODES_LENGTH
from hpack.table import HeaderTable
from hypothesis import given
from hypothesis import strategies as st

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
from tensor_round_service.net.http2 import frames, huffman
from tensor_round_service.net.http2.blocks import BlockReader
from tensor_round_service.net.http2.fields import STATIC, Decoder, encoded
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
from tensor_round_service.net.http2.limits import Allowance, ConnectionFault, Event, SessionLimits

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


@pytest.mark.parametrize(
    "field",
    [
        b"\x01\x00",
        b"\x41\x00",
        b"\x40\x01a\x00",
        b"\x00\x01a\x81\x1f",
        b"\xff\x00",
        b"\xbe\x01\x00",
    ],
)
def test_a_block_far_over_its_limits_costs_the_decoding_of_some_fields(field: bytes) -> None:
    """Small ones, of each form: the rest of the block is not decoded."""
    reader = Decoder(LIMITS.max_list_bytes, LIMITS.max_fields)
    reader.decode(hpack.Encoder().encode([(f"{n}", "y") for n in range(70)], huffman=False))
    with pytest.raises(ConnectionFault) as caught:
        # What is behind the fields that are decoded is no block at all.
        reader.decode(field * 2200 + b"\x80" * 10)
    assert caught.value.code is Code.ENHANCE_YOUR_CALM


def test_sizes_of_the_table_in_a_block_are_few() -> None:
    with pytest.raises(ConnectionFault):
        Decoder(LIMITS.max_list_bytes, LIMITS.max_fields).decode(b"\x20" * 17)


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


NO_LIMIT = 1 << 20
NAMES = st.sampled_from([b":path", b"te", b"cookie", b"x", b"grpc-timeout"]) | st.binary(
    max_size=40
)
FIELDS = st.lists(st.tuples(NAMES, st.binary(max_size=300)), max_size=8)


def decoder(max_list_bytes: int = NO_LIMIT, max_fields: int = NO_LIMIT) -> Decoder:
    return Decoder(max_list_bytes, max_fields)


def other() -> hpack.Decoder:
    return hpack.Decoder(max_header_list_size=NO_LIMIT)


def theirs(of: hpack.Decoder, block: bytes) -> object:
    try:
        return [(bytes(name), bytes(value)) for name, value in of.decode(block, raw=True)]
    except hpack.HPACKError:
        return None


def ours(of: Decoder, block: bytes) -> object:
    try:
        return of.decode(block)
    except ConnectionFault:
        return None


def test_the_tables_are_theirs() -> None:
    assert [(bytes(n), bytes(v)) for n, v in HeaderTable.STATIC_TABLE] == STATIC[1:]
    assert list(huffman.LENGTHS) == list(REQUEST_CODES_LENGTH)


@given(st.lists(st.tuples(FIELDS, st.booleans(), st.sampled_from([None, 0, 100, 4096]))))
def test_blocks_of_one_connection(
    blocks: list[tuple[list[tuple[bytes, bytes]], bool, object]],
) -> None:
    encoder, reader = hpack.Encoder(), decoder()
    for fields, is_coded, size in blocks:
        if size is not None:
            encoder.header_table_size = size
        assert reader.decode(encoder.encode(fields, huffman=is_coded)) == fields


@pytest.mark.parametrize("seed", range(4))
def test_any_bytes_mean_the_same_or_are_refused_by_both(seed: int) -> None:
    rng = random.Random(seed)
    refused = 0
    for _ in range(2500):
        block = rng.randbytes(rng.randrange(1, 24))
        own = ours(decoder(), block)
        refused += own is None
        assert own == theirs(other(), block), block.hex()
    assert 500 < refused < 2500


@given(st.binary(max_size=60))
def test_strings_in_the_huffman_code(encoded_string: bytes) -> None:
    block = b"\x00\x01x" + bytes((0x80 | len(encoded_string),)) + encoded_string
    assert ours(decoder(), block) == theirs(other(), block)


@pytest.mark.parametrize(
    "block",
    [
        b"\x80",  # field 0
        b"\xbe",  # no field in the table
        b"\xff",  # an integer that is cut off
        b"\xff\x80\x80\x80\x80\x01",  # one that is too long
        b"\x00\x05ab",  # a string that is cut off
        b"\x00\x01a\x81\x00",  # padding of zeros
        b"\x00\x01a\x82\xff\xff",  # eight ones are too many
        b"\x00\x01a\x84\xff\xff\xff\xff",  # the end of a string within one
        b"\x3f\xe2\x1f",  # a table of 4097 bytes
        b"\x82\x20",  # a table's size behind a field
    ],
    ids=lambda block: block.hex(),
)
def test_malformed_header_block_is_rejected(block: bytes) -> None:
    with pytest.raises(ConnectionFault) as caught:
        decoder().decode(block)
    assert caught.value.code is Code.COMPRESSION_ERROR


@pytest.mark.parametrize(
    "make",
    [lambda: decoder(max_list_bytes=200), lambda: decoder(max_fields=3)],
    ids=["bytes", "fields"],
)
def test_a_list_over_its_limit_is_cut_and_the_table_kept(make: Callable[[], Decoder]) -> None:
    encoder, reader = hpack.Encoder(), make()
    fields = [(b"a%d" % number, b"x" * 20) for number in range(10)]
    assert reader.decode(encoder.encode(fields)) == fields[:3]
    assert reader.is_cut
    assert reader.decode(encoder.encode(fields[5:7])) == fields[5:7]
    assert not reader.is_cut


@given(FIELDS)
def test_written_fields_are_read_back(fields: list[tuple[bytes, bytes]]) -> None:
    block = encoded(*fields)
    assert decoder().decode(block) == fields
    assert theirs(other(), block) == fields


def test_a_long_value_is_written() -> None:
    for length in (126, 127, 128, 254, 255, 400, 20_000):
        field = b"grpc-message", b"x" * length
        assert theirs(other(), encoded(field)) == [field]


REQUEST = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/x"), (b"te", b"trailers")]


def test_a_head_that_comes_again_is_the_same() -> None:
    encoder, reader = hpack.Encoder(), BlockReader(SessionLimits())
    heads = [reader.head(reader.fields(encoder.encode(REQUEST))) for _ in range(3)]
    assert heads[0] is not heads[1]  # the first block has filled the table
    assert heads[1] is heads[2]
    assert [head.path for head in heads] == ["/x"] * 3


@pytest.mark.parametrize(
    "further",
    [
        encoded(*REQUEST, (b"x-long", b"v" * 128)),
        encoded(*REQUEST, (b"x-a", b"1"), (b"x-a", b"2")),
    ],
    ids=["a long one", "one with a repeated field"],
)
def test_a_head_that_takes_memory_is_not_kept(further: bytes) -> None:
    reader = BlockReader(SessionLimits())
    head = reader.head(reader.fields(further))
    again = reader.head(reader.fields(further))
    assert head is not again
    assert head.values == again.values


def test_the_same_bytes_say_something_else_with_another_table() -> None:
    """Few blocks, many times, and between them what changes the table, against hpack."""
    rng = random.Random(1)
    reader, other = BlockReader(SessionLimits()), hpack.Decoder()
    kept = encoded((b"x", b"kept")).replace(b"\x00", b"\x40", 1)
    blocks = [
        b"\xbe",
        b"\xbf",
        b"\xbe\x82",
        kept,
        kept.replace(b"kept", b"lost"),
        b"\x20\x3f\xe1\x1f",
    ]
    refused = 0
    for _ in range(5000):
        block = rng.choice(blocks)
        try:
            expected = other.decode(block, raw=True)
        except hpack.HPACKError:
            with pytest.raises(ConnectionFault) as fault:
                reader.fields(block)
            assert fault.value.code == Code.COMPRESSION_ERROR
            reader, other = BlockReader(SessionLimits()), hpack.Decoder()
            refused += 1
            continue
        assert reader.fields(block) == [(bytes(name), bytes(value)) for name, value in expected]
    assert 100 < refused < 4000


def test_a_head_is_that_of_its_own_block() -> None:
    """Trailers and other heads between two that are the same are none of theirs."""
    reader = BlockReader(SessionLimits())
    first, second = encoded(*REQUEST), encoded(*REQUEST[:2], (b":path", b"/y"))
    for own, path in ((first, "/x"), (first, "/x"), (second, "/y"), (first, "/x")):
        assert reader.head(reader.fields(own)).path == path
        assert reader.fields(encoded((b"grpc-status", b"0"))) == [(b"grpc-status", b"0")]
