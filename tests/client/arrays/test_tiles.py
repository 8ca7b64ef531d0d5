"""Tiles: every element once, in its place, whatever the layouts are and wherever an answer ends."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from support.cases.array_cases import LAYOUTS, Array, bits, on_wire, patterns
from tensor_round import DirectMLRound, IEEE754Round, OnnxRound, RoundOperator
from tensor_round.arrays.tiles import Sink, StagedSink, Tile, cut

EVEN = IEEE754Round()


def cut_up(x: Array, out: Array, tile_bytes: int, operator: RoundOperator = EVEN) -> list[Tile]:
    prepared = operator.prepare(x.dtype.newbyteorder("<").name, x.shape)
    tiles = cut(operator, prepared, x, out, tile_bytes, aliased=np.may_share_memory(x, out))
    return [tiles] if isinstance(tiles, Tile) else list(tiles)


def land(sink: Sink, data: bytes) -> None:
    while data:
        room = sink.get_buffer()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        sink.advance(count)
        data = data[count:]


def complement(x: Array, out: Array, tile_bytes: int, *, verified: bool = False) -> list[int]:
    """Fill ``out`` with the complement of ``x`` tile by tile; the tiles' lengths in bytes."""
    lengths = []
    for tile in cut_up(x, out, tile_bytes):
        payload = tile.payload()
        assert len(payload) == tile.nbytes == tile.prepared.call.input.byte_length
        lengths.append(len(payload))
        sink = tile.sink(verified=verified)
        land(sink, (~np.frombuffer(payload, np.uint8)).tobytes())
        sink.commit()
    return lengths


@pytest.mark.parametrize("verified", [False, True], ids=["", "verified"])
@pytest.mark.parametrize("layout", ["cube", "fortran", "every-other", "reversed", "permuted"])
def test_in_place_each_element_changes_once(layout: str, verified: bool) -> None:
    x = LAYOUTS[layout](patterns("float64", 96))
    before = bits(x).copy()
    complement(x, x, 64, verified=verified)
    assert np.array_equal(bits(x), ~before)


@given(st.data())
def test_any_slices_of_any_shapes(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=5))
    orders = st.sampled_from(["<u2", ">u2"])
    whole = np.arange(math.prod(shape), dtype=data.draw(orders)).reshape(shape)
    axes = data.draw(st.permutations(range(len(shape))))
    x = whole.transpose(axes)
    if shape:
        x = x[data.draw(hnp.basic_indices(x.shape, allow_newaxis=False))]
        x = np.asarray(x)
    room = np.zeros(tuple(2 * side for side in x.shape), data.draw(orders))
    corner: Any = (..., *(slice(None, side) for side in x.shape))
    out = room[corner]
    out = data.draw(st.sampled_from([out, np.empty_like(x)]))
    before, tile_bytes = x.copy(), data.draw(st.integers(1, 64))
    lengths = complement(x, out, tile_bytes)
    assert np.array_equal(out, ~before)
    assert np.array_equal(x, before)
    assert sum(lengths) == x.nbytes
    assert all(length <= max(tile_bytes, x.itemsize) for length in lengths)


def test_a_dense_tensor_of_any_order_is_not_copied() -> None:
    for layout in ("flat", "cube", "fortran", "permuted"):
        x = LAYOUTS[layout](patterns("float32", 96))
        out = np.empty_like(x)
        for tile_bytes in (40, 1 << 20):
            for tile in cut_up(x, out, tile_bytes):
                assert tile.prepared.call.input.shape == tile.source.shape
                assert np.shares_memory(np.frombuffer(tile.payload(), np.uint8), x)
                room = np.frombuffer(tile.sink(verified=True).get_buffer(), np.uint8)
                assert np.shares_memory(room, out)


@pytest.mark.parametrize(
    ("operator", "flat"),
    [(EVEN, (9,)), (OnnxRound(), (9,)), (DirectMLRound(feature_level="2_1"), (1, 1, 1, 9))],
    ids=["ieee754", "onnx", "directml"],
)
def test_tiles_are_lawful_in_the_dialect(operator: RoundOperator, flat: tuple[int, ...]) -> None:
    x = np.zeros((1, 3, 3, 3), "<f4")
    (whole,) = cut_up(x, np.empty_like(x), 108, operator)
    assert whole.prepared.call.input.shape == x.shape
    for tile in cut_up(x, np.empty_like(x), 36, operator):
        assert tile.prepared.call.input.shape == flat


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "float8_e5m2"])
def test_wherever_an_answer_ends_no_element_is_torn(dtype: str) -> None:
    """The operand is the target: an element half old and half new could not be sent again."""
    before = patterns(dtype, 9)
    after = ~bits(before)
    answer = after.tobytes()
    for length in range(len(answer) + 1):
        x = before.copy()
        target = x.view(after.dtype)
        sink = StagedSink(target, hold=False)
        # A scratch so small that it is committed several times.
        sink._scratch = sink._scratch[:2]
        sink._memory = sink._memory[: 2 * x.itemsize]
        land(sink, answer[:length])
        if length == len(answer):
            sink.commit()
        for old, new, got in zip(bits(before), after, target, strict=True):
            assert got in (old, new)


def test_nothing_is_committed_before_it_is_verified() -> None:
    x = patterns("float32", 5)
    before = x.tobytes()
    sink = StagedSink(bits(x), hold=True)
    land(sink, bytes(20))
    assert x.tobytes() == before


@pytest.mark.parametrize("layout", ["flat", "cube", "permuted", "every-other", "reversed"])
def test_tiles_of_4_bits_are_packed_one_by_one_and_unpacked_when_they_are_complete(
    layout: str,
) -> None:
    """Those of an odd number of elements too; the operand is the target."""
    x = LAYOUTS[layout](patterns("int4", 96))
    before = x.copy()
    for tile in cut_up(x, x, 7):
        payload = bytes(tile.payload())
        assert len(payload) == tile.prepared.call.input.byte_length == -(-tile.source.size // 2)
        assert payload == on_wire(tile.source)
        sink, kept = tile.sink(verified=False), bits(x).copy()
        assert sink.nbytes == len(payload)
        land(sink, bytes(byte ^ 0xFF for byte in payload))
        assert np.array_equal(bits(x), kept)
        sink.commit()
    assert np.array_equal(bits(x), bits(before) ^ 0x0F)
