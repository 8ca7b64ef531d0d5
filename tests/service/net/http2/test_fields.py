"""Header blocks are read as the hpack package reads them, once as long as they say the same."""

from __future__ import annotations

import random
from collections.abc import Callable

import hpack
import pytest
from hpack.huffman_constants import REQUEST_CODES_LENGTH
from hpack.table import HeaderTable
from hypothesis import given
from hypothesis import strategies as st

from tensor_round_service.net.http2 import huffman
from tensor_round_service.net.http2.blocks import BlockReader
from tensor_round_service.net.http2.fields import STATIC, Decoder, encoded
from tensor_round_service.net.http2.frames import Code
from tensor_round_service.net.http2.limits import ConnectionFault, SessionLimits

LIMITS = SessionLimits()
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
    heads = [reader.head(encoder.encode(REQUEST)) for _ in range(3)]
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
    head = reader.head(further)
    again = reader.head(further)
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
        assert reader.head(own).path == path
        assert reader.fields(encoded((b"grpc-status", b"0"))) == [(b"grpc-status", b"0")]


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
