"""DirectML's rule of aliasing, over shared memory: in place, or apart.

"In place" binds OutputTensor where InputTensor is bound: the same offset, the same size. Any
other overlap of the two is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from support.cases.descriptors import NUMBERS
from support.http.inference_form import document, tensor
from support.segments import PREFIX, Segment, segment
from support.services.server import Service
from support.v2.callers import Caller
from support.v2.regions import register, unregister

MODEL = "directml_element_wise_round"
LEVELS = ["2_1", "3_0"]
SIZE = 4096


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service("--shared-memory-prefix", PREFIX) as running:
        yield running


@pytest.fixture
def owned(caller: Caller) -> Iterator[Segment]:
    """A segment, registered under two names: one for either tensor."""
    with segment(SIZE) as made:
        for name in ("input", "output"):
            assert register(caller, name, made.key, SIZE).status == 200
        yield made
        assert unregister(caller).status == 200


def place(region: str, offset: int, nbytes: int) -> dict[str, Any]:
    return {
        "shared_memory_region": region,
        "shared_memory_offset": offset,
        "shared_memory_byte_size": nbytes,
    }


def bound(level: str, mode: str, dtype: str, where: int, to: int) -> dict[str, Any]:
    """A request whose tensors are bound there."""
    example = NUMBERS[f"directml, {level}, {mode}"]
    source, _ = example.arrays(dtype)
    datatype = {"float32": "FP32", "float16": "FP16"}[dtype]
    shape = [1, 1, 3, 3] if level == "2_1" else [9]
    given = tensor(datatype, shape, "InputTensor", parameters=place("input", where, source.nbytes))
    wanted = {"name": "OutputTensor", "parameters": place("output", to, source.nbytes)}
    return document(given, outputs=[wanted], parameters={"rounding_mode": mode})


CASES = [
    (level, mode, dtype)
    for level in LEVELS
    for mode in ("HALVES_TO_NEAREST_EVEN", "TOWARD_ZERO", "TOWARD_INFINITY")
    for dtype in ("float32", "float16")
]
EACH = pytest.mark.parametrize(("level", "mode", "dtype"), CASES)


@EACH
@pytest.mark.parametrize("apart", [0, 1, 2], ids=["in place", "behind", "far"])
def test_the_table_in_place_and_apart(
    caller: Caller, owned: Segment, level: str, mode: str, dtype: str, apart: int
) -> None:
    source, result = NUMBERS[f"directml, {level}, {mode}"].arrays(dtype)
    where, to = 64, 64 + apart * source.nbytes
    owned.memory[:] = 7
    owned.memory[where : where + source.nbytes] = source.view(np.uint8)
    expected = owned.memory.copy()
    expected[to : to + result.nbytes] = result.view(np.uint8)
    outcome = caller.infer(bound(level, mode, dtype, where, to), None, MODEL, level)
    assert outcome.output["name"] == "OutputTensor"
    assert np.array_equal(owned.memory, expected)


@EACH
@pytest.mark.parametrize("shift", [-1, 1, -4, 4, -17, 17])
def test_any_other_overlap_is_an_error_and_changes_nothing(
    caller: Caller, owned: Segment, level: str, mode: str, dtype: str, shift: int
) -> None:
    source, _ = NUMBERS[f"directml, {level}, {mode}"].arrays(dtype)
    owned.memory[:] = 7
    owned.memory[64 : 64 + source.nbytes] = source.view(np.uint8)
    before = owned.memory.copy()
    outcome = caller.infer(bound(level, mode, dtype, 64, 64 + shift), None, MODEL, level)
    assert outcome.status == 400
    assert "share no byte" in outcome.error
    assert np.array_equal(owned.memory, before)
