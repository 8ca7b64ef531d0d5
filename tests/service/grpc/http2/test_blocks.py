"""The header blocks of one connection: bytes are read once, as long as they say the same."""

from __future__ import annotations

import random

import hpack
import pytest

from tensor_round_service.grpc.http2.blocks import BlockReader
from tensor_round_service.grpc.http2.fields import encoded
from tensor_round_service.grpc.http2.frames import Code
from tensor_round_service.grpc.http2.limits import ConnectionFault, SessionLimits

HEAD = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/x"), (b"te", b"trailers")]


def test_a_head_that_comes_again_is_the_same() -> None:
    encoder, reader = hpack.Encoder(), BlockReader(SessionLimits())
    heads = [reader.head(reader.fields(encoder.encode(HEAD))) for _ in range(3)]
    assert heads[0] is not heads[1]  # the first block has filled the table
    assert heads[1] is heads[2]
    assert [head.path for head in heads] == ["/x"] * 3


@pytest.mark.parametrize(
    "further",
    [
        encoded(*HEAD, (b"x-long", b"v" * 128)),
        encoded(*HEAD, (b"x-a", b"1"), (b"x-a", b"2")),
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
    first, second = encoded(*HEAD), encoded(*HEAD[:2], (b":path", b"/y"))
    for block, path in ((first, "/x"), (first, "/x"), (second, "/y"), (first, "/x")):
        assert reader.head(reader.fields(block)).path == path
        assert reader.fields(encoded((b"grpc-status", b"0"))) == [(b"grpc-status", b"0")]
