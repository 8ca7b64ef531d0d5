"""Calls that are begun before their tensor has all come, and what calls cost."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from support.cases.backend_calls import WatchedBackend
from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.functions import ReducePrecision, RoundToIntegral
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.engine.cost import call_cost
from tensor_round_service.engine.overlap import Overlap, is_worthwhile

KIB, MIB = 1 << 10, 1 << 20
MIN_BYTES = 16 * MIB
COUNT = MIN_BYTES // 4
PIECE = 512 * KIB
#: Of three pieces and one element.
SIZE = 3 * PIECE + 4
#: Bytes up to which no device is waited for.
ANY = NumpyBackend.inline_bytes


def call_from(input: Layout, output: Layout | None = None) -> Call:
    return Call(RoundToIntegral(Rounding.TIES_TO_EVEN), input, output or input, input.byte_length)


def converting(source: str, target: str, count: int) -> Call:
    return Call.converting(Layout.of(BY_NAME[source], (count,)), target)


def layout(
    dtype: str = "float32",
    shape: tuple[int, ...] = (COUNT,),
    strides: tuple[int, ...] | None = None,
    byte_length: int | None = None,
) -> Layout:
    return Layout.of(BY_NAME[dtype], shape, strides, byte_length)


@pytest.mark.parametrize(
    ("asked", "suited", "inline_bytes"),
    [
        pytest.param(call_from(layout()), True, MIN_BYTES, id="large"),
        pytest.param(call_from(layout()), False, MIN_BYTES - 1, id="waits-for-a-device"),
        pytest.param(call_from(layout(shape=(COUNT - 1,))), False, ANY, id="small"),
        pytest.param(call_from(layout(shape=(2, COUNT), strides=(1, 2))), True, ANY, id="columns"),
        pytest.param(call_from(layout("int32")), False, ANY, id="integers"),
        pytest.param(call_from(layout(byte_length=MIN_BYTES + 4)), False, ANY, id="padded"),
        pytest.param(
            call_from(layout(shape=(2, COUNT), strides=(1, 2)), layout(shape=(2, COUNT))),
            False,
            ANY,
            id="moved",
        ),
        pytest.param(converting("float32", "float8_e5m2", COUNT), True, ANY, id="narrower"),
        pytest.param(converting("float32", "float64", COUNT), False, ANY, id="wider"),
        pytest.param(converting("int64", "float32", COUNT // 2), False, ANY, id="slow"),
    ],
)
def test_overlap_suits_large_contiguous_calls(asked: Call, suited: bool, inline_bytes: int) -> None:
    backend = NumpyBackend(1)
    backend.inline_bytes = inline_bytes
    assert is_worthwhile(backend, asked) is suited


class Progress:
    """An overlap on a tensor of ``SIZE`` bytes, and what other requests have reserved."""

    def __init__(self, backend: WatchedBackend) -> None:
        self.backend = backend
        self.others = 0
        self.values = np.linspace(-3, 3, SIZE // 4, dtype=np.float32)
        self.source = self.values.copy().view(np.uint8)
        self.overlap = Overlap(
            backend, call_from(layout(shape=(SIZE // 4,))), self.source, lambda: self.others
        )

    def rounded(self) -> int:
        """The bytes that are rounded, from the start; all others are as they were."""
        found = self.source.view(np.float32)
        done = self.overlap.done // 4
        assert np.array_equal(found[:done], np.rint(self.values[:done]))
        assert np.array_equal(found[done:], self.values[done:])
        return self.overlap.done


@pytest.fixture
def progress() -> Iterator[Progress]:
    backend = WatchedBackend()
    yield Progress(backend)
    backend.close()


def test_a_piece_is_rounded_once_its_last_byte_is_there(progress: Progress) -> None:
    overlap = progress.overlap
    assert (overlap.done, overlap.seconds) == (0, 0.0)
    for piece in range(3):
        overlap.progress(SIZE - (piece + 1) * PIECE + 1)
        assert progress.rounded() == piece * PIECE
        overlap.progress(SIZE - (piece + 1) * PIECE)
        assert progress.rounded() == (piece + 1) * PIECE
    assert progress.backend.sizes == [PIECE] * 3
    overlap.progress(0)
    assert progress.rounded() == 3 * PIECE


def test_it_rests_while_others_have_more_than_a_mebibyte(progress: Progress) -> None:
    progress.others = MIB + 1
    progress.overlap.progress(0)
    assert progress.rounded() == 0
    progress.others = MIB
    progress.overlap.progress(0)
    assert progress.rounded() == PIECE


@pytest.mark.parametrize("pieces", range(4))
def test_the_rest_begins_after_the_last_rounded_piece(progress: Progress, pieces: int) -> None:
    for _ in range(pieces):
        progress.overlap.progress(0)
    assert progress.rounded() == pieces * PIECE
    assert progress.overlap.finish() == "numpy"
    assert np.array_equal(progress.source.view(np.float32), np.rint(progress.values))


@pytest.mark.parametrize("target", ["bfloat16", "float8_e5m2", "float4_e2m1fn", "float32"])
@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_narrower_results_lie_behind_each_other(
    progress: Progress, target: str, pieces: int
) -> None:
    dtype, count = BY_NAME[target], progress.values.size
    function = ReducePrecision(Rounding.TIES_TO_EVEN, 8, 7) if target == "float32" else None
    call = converting("float32", target, count)
    if function is not None:
        call = Call.packed_output(function, call.input)
    expected = np.empty(call.output.byte_length, np.uint8)
    progress.backend.round(call, progress.source.copy(), expected)
    progress.overlap.call = call
    for _ in range(pieces):
        progress.overlap.progress(0)
    progress.overlap.finish()
    assert np.array_equal(progress.source[: dtype.nbytes(count)], expected)


def test_the_time_of_all_pieces_is_measured(progress: Progress) -> None:
    began = time.perf_counter()
    seconds = [0.0]
    for _ in range(3):
        progress.overlap.progress(0)
        seconds.append(progress.overlap.seconds)
    assert seconds == sorted(set(seconds))
    assert seconds[-1] <= time.perf_counter() - began


def test_failure_ends_the_pieces_and_is_raised_at_the_end(progress: Progress) -> None:
    def fail(nbytes: int) -> None:
        raise RuntimeError(f"{nbytes} bytes are too many")

    progress.backend.before = fail
    progress.overlap.progress(0)
    progress.backend.before = bool
    for _ in range(2):
        progress.overlap.progress(0)
        assert progress.overlap.done == PIECE
    assert progress.backend.sizes == []
    for _ in range(2):
        with pytest.raises(RuntimeError, match=f"{PIECE} bytes"):
            progress.overlap.finish()


@pytest.mark.parametrize(
    ("dtype", "share"),
    [("uint8", 1), ("float8_e5m2", 1), ("float16", 1), ("float32", 4), ("float64", 4)],
)
def test_wide_types_cost_a_quarter(dtype: str, share: int) -> None:
    layout = Layout.of(BY_NAME[dtype], (100,))
    asked = Call.packed_output(RoundToIntegral(Rounding.TIES_TO_EVEN), layout)
    assert call_cost(asked) == layout.byte_length // share


def test_slow_conversions_cost_more() -> None:
    """So that it is not done on the event loop, nor in pieces while a tensor arrives."""
    pairs = [("float32", "float8_e5m2"), ("float32", "int8"), ("int64", "float32")]
    costs = [call_cost(converting(source, target, 100)) for source, target in pairs]
    assert costs == sorted(set(costs))
    assert call_cost(converting("float32", "float32", 100)) == 100
