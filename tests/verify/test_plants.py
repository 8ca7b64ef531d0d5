"""Faults of position, call, shape and value, planted in right kernels of every operator."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from support.cases.array_cases import Array
from support.cases.wrong_kernels import EVEN, right
from tensor_round.contract.dtypes import BY_NAME
from tensor_round_verify import Report, verify
from tensor_round_verify.checks import array_forms
from tensor_round_verify.checks.array_forms import Effort
from tensor_round_verify.checks.conversions import conversion_verdict
from tensor_round_verify.conversions.conversion import Cast
from tensor_round_verify.runtimes.arrays import NumPy
from tensor_round_verify.runtimes.runtime import RoundBits

pytestmark = pytest.mark.slow

#: Makes right results wrong: of the operand, and of the results, which it changes.
Spoil = Callable[[Array, Array], object]
BF16 = np.dtype(ml_dtypes.bfloat16)


def packed(x: Array) -> Array:
    return np.ascontiguousarray(x)


def rounds(spoil: Spoil) -> Any:
    def kernel(x: Array) -> Array:
        y = right(packed(x).reshape(-1), EVEN).reshape(x.shape)
        spoil(x, y)
        return y

    return kernel


def casts(spoil: Spoil) -> Any:
    def kernel(x: Array, dtype: Any) -> Array:
        y = np.array(x.astype(dtype))
        spoil(x, y)
        return y

    return kernel


def quantizes(spoil: Spoil) -> Any:
    def kernel(x: Array, scale: Array, zero_point: Array) -> Array:
        ends = np.iinfo(zero_point.dtype)
        q = np.rint(x / scale).astype(np.float64) + zero_point
        y = np.array(np.clip(q, ends.min, ends.max).astype(zero_point.dtype))
        spoil(x, y)
        return y

    return kernel


def dequantizes(spoil: Spoil) -> Any:
    def kernel(x: Array, scale: Array, zero_point: Array) -> Array:
        n = x.astype(np.int64) - zero_point
        y = np.array((n * scale.astype(np.float64)).astype(scale.dtype))
        spoil(x, y)
        return y

    return kernel


def quantizes_blocks(spoil: Spoil) -> Any:
    """To mxfp4_e2m1, by the exponent of each block's largest."""

    def kernel(x: Array, format: str, scale: str) -> tuple[Array, Array]:
        if x.shape[-1] % 32:
            raise ValueError("whole blocks only")
        blocks = x.astype(np.float64).reshape(-1, 32)
        amax = np.abs(blocks).max(axis=1, initial=0)
        exponent = np.where(amax > 0, np.frexp(amax)[1] - 3, -127).clip(-127)
        elements = np.clip(np.ldexp(blocks, -exponent[:, None]), -6, 6)
        codes = elements.astype(ml_dtypes.float4_e2m1fn).view(np.uint8).reshape(x.shape)
        spoil(x, codes)
        shape = (*x.shape[:-1], x.shape[-1] // 32)
        return (exponent + 127).astype(np.uint8).reshape(shape), codes

    return kernel


ASKED: dict[str, tuple[Callable[[Spoil], Any], dict[str, Any]]] = {
    "round": (rounds, {"dtypes": ["float32"]}),
    "cast": (casts, {"dtypes": ["float32", "bfloat16"], "roundings": [EVEN]}),
    "quantize_linear": (quantizes, {"dtypes": ["float32", "int8"]}),
    "dequantize_linear": (dequantizes, {"dtypes": ["int8", "float32"]}),
    "block_quantize": (quantizes_blocks, {"dtypes": ["float32", "mxfp4_e2m1"], "scale": "floor"}),
}
BLOCKS = "block_quantize"


def judged(operator: Any, spoil: Spoil, **more: Any) -> Report:
    made, asked = ASKED[operator]
    with np.errstate(all="ignore"):
        return verify(made(spoil), operator=operator, **asked, **more)


def where(condition: Callable[[Array], bool]) -> Spoil:
    """All results are zero for arrays like these."""

    def spoil(x: Array, y: Array) -> None:
        if condition(x):
            y[...] = 0

    return spoil


def tail(width: int, become: Any = 0) -> Spoil:
    def spoil(x: Array, y: Array) -> None:
        rest = x.size % width if x.ndim == 1 else 0
        if rest:
            y[x.size - rest :] = become

    return spoil


def last(x: Array, y: Array) -> None:
    if x.ndim == 1 and x.size > 32:
        y[-1:] = 0


def lane(x: Array, y: Array) -> None:
    if x.ndim == 1:
        y[7::8] = 0


def behind(x: Array, y: Array) -> None:
    y.reshape(-1)[1 << 16 :] = 0


def unaligned(x: Array) -> bool:
    return x.size > 0 and x.ctypes.data % (8 * x.itemsize) > 0


@dataclass(slots=True)
class Counted:
    """Zero in the calls of which ``which`` is true, counted from 1."""

    which: Callable[[int], bool]
    calls: int = 0

    def __call__(self, x: Array, y: Array) -> None:
        self.calls += 1
        if self.which(self.calls):
            y[...] = 0


@dataclass(slots=True)
class Remembered:
    """The results of the call before, if it had as many."""

    before: list[Array] = field(default_factory=list)

    def __call__(self, x: Array, y: Array) -> None:
        own = y.copy()
        if self.before and self.before[0].shape == y.shape:
            y[...] = self.before[0]
        self.before[:] = [own]


def changes_operand(x: Array, y: Array) -> None:
    if x.flags.writeable:
        x[...] = 0


def multiple(x: Array) -> bool:
    return x.size > 0 and x.size % 1024 == 0 and x.ndim == 1 and x.size < 4096


AFTER_8 = "after the last multiple of 8 are"
#: By name: what spoils, and the words that name the cause, of elements and of blocks.
PLANTS: dict[str, tuple[Callable[[], Spoil], str, str]] = {
    "below-1024": (
        lambda: where(lambda x: 0 < x.size < 1024),
        "arrays of fewer than 1,024 elements",
        "arrays of fewer than 32 blocks",
    ),
    "tail-of-8": (lambda: tail(8), f"the elements {AFTER_8}", ""),
    "tail-of-16-blocks": (lambda: tail(512), "", "the blocks after the last multiple of 16 are"),
    "last": (lambda: last, "the last of", "the last of"),
    "lane": (lambda: lane, "element 7 of each 8", ""),
    "behind-65536": (lambda: behind, "after the first 65,536", "after the first 2,048"),
    "one-block": (lambda: where(lambda x: x.size == 32), "arrays of 32 elements", "arrays of one"),
    "odd": (
        lambda: where(lambda x: x.ndim == 1 and x.size % 2 == 1),
        "arrays of an odd number of elements",
        "",
    ),
    "multiples-of-1024": (lambda: where(multiple), "arrays of 1,024, 2,048, 3,072 elements", ""),
    "rank-0": (lambda: where(lambda x: x.ndim == 0), "wrong for other ranks: ()", ""),
    "rank-5": (
        lambda: where(lambda x: x.ndim > 4),
        "wrong for other ranks: (2, 4, 4, 4, 8), (2, 2, 2, 4, 4, 8)",
        "wrong for other ranks: (2, 4, 4, 4, 256), (2, 2, 2, 4, 4, 256)",
    ),
    "strided": (
        lambda: where(lambda x: x.size > 1 and not x.flags.c_contiguous),
        "wrong for strided input: x[::2], x[::-1], stride 0",
        "wrong for strided input: x[::2], x[::-1], stride 0",
    ),
    "stride-0": (
        lambda: where(lambda x: x.size > 1 and 0 in x.strides),
        "wrong for strided input: stride 0",
        "wrong for strided input: stride 0",
    ),
    "unaligned": (
        lambda: where(unaligned),
        "wrong in unaligned memory",
        "wrong in unaligned memory",
    ),
    "second-call": (
        lambda: Counted(lambda calls: calls > 1),
        "from call to call",
        "in another call",
    ),
    "after-60-calls": (
        lambda: Counted(lambda calls: calls > 60),
        "differs from call to call",
        "differs from call to call",
    ),
    "call-before": (Remembered, "from call to call", "from call to call"),
    "changes-operand": (lambda: changes_operand, "changes its operand", "changes its operand"),
}
#: In the suite each operator has every second, so that each is planted in two or three of them.
ROWS = [
    pytest.param(operator, name, says, marks=pytest.mark.sweep if (number + place) % 2 else ())
    for place, operator in enumerate(ASKED)
    for number, (name, (_, cause, of_blocks)) in enumerate(PLANTS.items())
    if (says := of_blocks if operator == BLOCKS else cause)
]


def causes(report: Report) -> list[str]:
    return [cause for verdict in report.verdicts for cause in verdict.causes]


@pytest.mark.parametrize(("operator", "name", "cause"), ROWS)
def test_a_planted_fault_is_noticed_and_named(operator: str, name: str, cause: str) -> None:
    report = judged(operator, PLANTS[name][0]())
    assert not report.right
    assert any(cause in found for found in causes(report)), str(report)
    assert len(causes(report)) == 1, str(report)


@pytest.mark.parametrize("operator", ASKED)
def test_a_right_kernel_has_no_fault(operator: str) -> None:
    report = judged(operator, lambda x, y: None)
    assert report.right, str(report)
    assert causes(report) == []


@pytest.mark.parametrize("operator", ["round", "cast", "quantize_linear", "dequantize_linear"])
def test_one_wrong_call_in_200_is_found_by_more_calls(operator: str) -> None:
    spoil = Counted(lambda calls: calls > 10 and calls % 200 == 0)
    report = judged(operator, spoil, repeat=1000)
    assert any("of 1,000 calls" in cause for cause in causes(report)), str(report)


class Racing(NumPy):
    """Casts in memory that all calls share."""

    def cast(self, how: Cast) -> RoundBits:
        target, shared = BY_NAME[how.target].numpy, list[Array]()

        def casts(x: Array) -> Array:
            shared[:] = [x.copy()]
            time.sleep(1e-4)  # another thread may call
            y: Array = shared[0].astype(target)
            return y

        return self._casting(casts, how)


@pytest.mark.parametrize("concurrent", [True, False])
def test_a_cast_in_shared_memory_is_wrong_in_several_threads_alone(concurrent: bool) -> None:
    how = Cast("float32", "bfloat16", EVEN, saturate=False)
    effort = Effort(concurrent=concurrent)
    verdict = conversion_verdict(Racing("", 30), how, effort, lambda done: None)
    assert (verdict.wrong, verdict.right) == (0, not concurrent)
    assert [re.sub("[0-9]+", "N", cause) for cause in verdict.causes] == [
        "wrong in N of N calls by N threads at once"
    ] * concurrent


def special_tail(which: Callable[[Array], Array]) -> Spoil:
    """Special operands behind the last multiple of 8 become 1."""

    def spoil(x: Array, y: Array) -> None:
        rest = x.size % 8 if x.ndim == 1 else 0
        end = y[x.size - rest :]
        end[which(x[x.size - rest :])] = 1

    return spoil


SPECIAL: dict[str, Callable[[Array], Array]] = {
    "nan": np.isnan,
    "infinity": np.isinf,
    "large": lambda x: np.isfinite(x) & (abs(x) > 1e30),
    "negative-zero": lambda x: (x == 0) & np.signbit(x),
    "subnormal": lambda x: (x != 0) & (abs(x) < 1e-38),
    "half": lambda x: abs(x) == 0.5,
}


@pytest.mark.parametrize("operator", ["round", "cast"])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_operands_in_a_tail_are_tried(operator: str, name: str) -> None:
    report = judged(operator, special_tail(SPECIAL[name]))
    (cause,) = causes(report)
    assert f"some of the elements {AFTER_8}" in cause


#: The place of a deviation's name in each operator: a value that is wrong everywhere.
VALUES: list[tuple[str, Spoil, str]] = [
    ("round", lambda x, y: np.copyto(y, np.trunc(x + np.float32(0.5))), "trunc(x + 0.5)"),
    ("cast", lambda x, y: np.copyto(y, abs(y), where=y == 0), "zero's sign lost"),
    ("quantize_linear", lambda x, y: np.maximum(y, -127, out=y), "narrow range"),
    ("dequantize_linear", lambda x, y: np.copyto(y, 0, where=abs(y) < 2e-38), ""),
    (BLOCKS, lambda x, y: np.bitwise_and(y, 7, out=y, where=(y == 8)), "zero's sign lost"),
]


@pytest.mark.parametrize(("operator", "spoil", "name"), VALUES)
def test_a_wrong_value_is_no_fault_of_position(operator: str, spoil: Spoil, name: str) -> None:
    report = judged(operator, spoil)
    assert not report.right
    assert causes(report) == []
    found = {one.name for v in report.verdicts for one in v.explanation.deviations}
    assert name in found or not name, str(report)


def test_large_arrays_are_tried_if_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_forms, "LARGE_ELEMENTS", (1 << 21) + 19)
    monkeypatch.setattr(array_forms, "LARGE_BYTES", ())

    def spoil(x: Array, y: Array) -> None:
        y.reshape(-1)[1 << 21 :] = 0

    assert judged("cast", spoil).right
    (cause,) = causes(judged("cast", spoil, large=True))
    assert cause == "an array of 2,097,171 elements is wrong from element 2,097,152 on"
