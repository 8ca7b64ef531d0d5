"""Which calls are begun before their tensor has all come, and how far they are at each moment."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from support.cases.backend_calls import WatchedBackend
from tensor_round.contract.call import RoundCall
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.engine.overlap import Overlap, flat_call, is_worthwhile

KIB, MIB = 1 << 10, 1 << 20
MIN_BYTES = 16 * MIB
COUNT = MIN_BYTES // 4
PIECE = 512 * KIB
#: Of three pieces and one element.
SIZE = 3 * PIECE + 4
#: Bytes up to which no device is waited for.
ANY = NumpyBackend.inline_bytes


def call(input: Layout, output: Layout | None = None) -> RoundCall:
    return RoundCall(Rounding.TIES_TO_EVEN, input, output or input, input.byte_length)


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
        pytest.param(call(layout()), True, MIN_BYTES, id="large"),
        pytest.param(call(layout()), False, MIN_BYTES - 1, id="waits-for-a-device"),
        pytest.param(call(layout(shape=(COUNT - 1,))), False, ANY, id="small"),
        pytest.param(call(layout(shape=(2, COUNT), strides=(1, 2))), True, ANY, id="columns"),
        pytest.param(call(layout("int32")), False, ANY, id="integers"),
        pytest.param(call(layout(byte_length=MIN_BYTES + 4)), False, ANY, id="padded"),
        pytest.param(
            call(layout(shape=(2, COUNT), strides=(1, 2)), layout(shape=(2, COUNT))),
            *(False, ANY),
            id="moved",
        ),
    ],
)
def test_overlap_suits_large_contiguous_calls(
    asked: RoundCall, suited: bool, inline_bytes: int
) -> None:
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
            backend, call(layout(shape=(SIZE // 4,))), self.source, lambda: self.others
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
def test_rest_begins_after_the_last_rounded_piece(progress: Progress, pieces: int) -> None:
    for _ in range(pieces):
        progress.overlap.progress(0)
    rest, left = progress.overlap.rest()
    assert left.size == SIZE - pieces * PIECE
    assert rest == flat_call(BY_NAME["float32"], Rounding.TIES_TO_EVEN, left.size)
    assert (rest.input.shape, rest.is_in_place) == ((left.size // 4,), True)
    progress.backend.round(rest, left, left)
    assert np.array_equal(progress.source.view(np.float32), np.rint(progress.values))


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
            progress.overlap.rest()
