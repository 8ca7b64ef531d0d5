"""Where tensors are cut and how they lie, on a device that is this CPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.cases.backend_calls import expected, flat_call, sample_pair
from support.devices.host_device import HostDevice
from support.devices.host_kernels import NO_COMPILER, compiler
from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.functions import RoundToIntegral
from tensor_round.contract.layout import Layout, packed_strides
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends import Bytes
from tensor_round_service.backends.cuda import pipeline as pipelines
from tensor_round_service.backends.cuda.pipeline import (
    MIN_PIECE_BYTES,
    PIECE_BYTES,
    SLOTS,
    Pipeline,
    cut,
    dims,
    round_resident,
)
from tensor_round_service.backends.devices import DeviceBuffer

pytestmark = pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)


@pytest.fixture(scope="module")
def pipeline() -> Iterator[Pipeline]:
    pipeline = Pipeline(HostDevice())
    yield pipeline
    pipeline.close()


def device_of(pipeline: Pipeline) -> HostDevice:
    assert isinstance(pipeline.device, HostDevice)
    return pipeline.device


@given(nbytes=st.integers(0, 1 << 34))
def test_pieces_cover_a_run_once_and_none_is_too_large(nbytes: int) -> None:
    pieces = cut(nbytes)
    assert [piece.start for piece in pieces] == [0, *(piece.stop for piece in pieces)][:-1]
    assert not pieces or pieces[-1].stop == nbytes
    sizes = [piece.stop - piece.start for piece in pieces]
    assert all(0 < size <= PIECE_BYTES for size in sizes)
    assert all(size % 4096 == 0 and size >= MIN_PIECE_BYTES for size in sizes[:-1])
    if nbytes > 2 * SLOTS * MIN_PIECE_BYTES:
        assert len(pieces) >= 2 * SLOTS - 1


@pytest.mark.parametrize("source_is_pinned", [True, False], ids=["source-pinned", "source-plain"])
@pytest.mark.parametrize("target_is_pinned", [True, False], ids=["target-pinned", "target-plain"])
def test_memory_of_either_kind_on_either_side(
    pipeline: Pipeline, source_is_pinned: bool, target_is_pinned: bool
) -> None:
    patterns, right = sample_pair("float32", "toward_positive")
    count = (5 << 20) // 4 + 3
    source = np.resize(patterns, count).view(np.uint8)
    target = np.full(source.size, 0xAA, np.uint8)
    device = device_of(pipeline)
    for memory, is_pinned in ((source, source_is_pinned), (target, target_is_pinned)):
        if is_pinned:
            device.pin(memory)
    pipeline.round(flat_call("float32", "toward_positive", count), source, target)
    np.testing.assert_array_equal(target.view(right.dtype), np.resize(right, count))
    for memory in (source, target):
        device.pinned.pop(memory.ctypes.data, None)


@pytest.mark.parametrize("launch", [1 << 12, 1 << 14])
def test_launches_are_cut(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, launch: int) -> None:
    """Above a gigabyte there are several; here from a few kilobytes on."""
    monkeypatch.setattr(pipelines, "LAUNCH", launch)
    assert_rounded(pipeline, transposition("float32"))
    for dtype in ("float16", "int32"):
        assert_resident(pipeline, flat_call(dtype, "ties_to_away", 30_001), 0)


@pytest.mark.parametrize("offset", [0, 1, 2, 8, 15, 16])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float64", "int16"])
def test_tensors_on_the_device_may_begin_anywhere(
    pipeline: Pipeline, dtype: str, offset: int
) -> None:
    assert_resident(pipeline, flat_call(dtype, "toward_zero", 1001), offset)
    assert_resident(pipeline, transposition(dtype), offset)


def test_a_tensor_on_the_device_is_rounded_where_it_is(pipeline: Pipeline) -> None:
    patterns, right = sample_pair("float32", "ties_to_even")
    for offset in (0, 4):
        memory, place = on_device(patterns.view(np.uint8), offset)
        call = flat_call("float32", "ties_to_even", patterns.size)
        with pipeline.slot() as slot, slot.queue() as stream:
            round_resident(stream, pipeline.device.allocate, call, place, place)
        answer = memory[: patterns.nbytes].tobytes()
        assert answer == right.tobytes()


def test_dimensions_are_folded_where_one_stride_serves_both() -> None:
    def folded(shape: list[int], given: list[int] | None, result: list[int] | None) -> list[int]:
        source, target = (packed_strides(shape) if s is None else s for s in (given, result))
        found: list[int] = dims(shape, source, target).view("<i8").tolist()
        return found

    assert folded([2, 3, 4], None, None) == [24, 1, 1]
    assert folded([], None, None) == [1, 0, 0]
    assert folded([1, 5, 1], [9, 2, 7], [1, 1, 3]) == [5, 2, 1]
    assert folded([2, 3, 4], [0, 0, 0], None) == [24, 0, 1]
    assert folded([4, 3], [1, 4], None) == [3, 4, 1, 4, 1, 3]
    assert folded([2, 3, 4], None, [15, 5, 1]) == [4, 1, 1, 6, 4, 5]


def transposition(dtype: str) -> Call:
    rows, columns = 70, 60
    source = Layout.of(BY_NAME[dtype], (rows, columns), (1, rows))
    target = Layout.of(BY_NAME[dtype], (rows, columns), (columns + 3, 1))
    return Call(RoundToIntegral(Rounding.TIES_TO_AWAY), source, target, source.byte_length)


def payload(call: Call) -> Bytes:
    patterns, _ = sample_pair(call.input.dtype.name, call.rounding)
    drawn = np.random.default_rng(0).choice(patterns, call.input.byte_length)
    return drawn.view(np.uint8)[: call.input.byte_length].copy()


def assert_rounded(pipeline: Pipeline, call: Call) -> None:
    source = payload(call)
    target = np.full(call.output.byte_length, 0xAA, np.uint8)
    pipeline.round(call, source, target)
    assert target.tobytes() == expected(call, source.tobytes())


def on_device(content: Bytes, offset: int) -> tuple[Bytes, DeviceBuffer]:
    """Memory that counts as the device's, beginning so many bytes off a border."""
    memory = np.full(content.size + 64, 0xAA, np.uint8)
    start = -memory.ctypes.data % 16 + offset
    part = memory[start : start + content.size]
    part[:] = content
    return part, DeviceBuffer(part.ctypes.data, part.size, memory)


def assert_resident(pipeline: Pipeline, call: Call, offset: int) -> None:
    content = payload(call)
    _, source = on_device(content, offset)
    result, target = on_device(np.zeros(call.output.byte_length, np.uint8), offset)
    with pipeline.slot() as slot, slot.queue() as stream:
        round_resident(stream, pipeline.device.allocate, call, source, target)
    assert result.tobytes() == expected(call, content.tobytes())
