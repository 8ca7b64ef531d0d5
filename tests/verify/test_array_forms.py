"""Kernels that are right for every pattern: what else is wrong with them is found and named."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from support.cases.wrong_kernels import Array, right
from tensor_round_verify import Baseline, CannotVerify, complaints, junit_xml, verify

#: Of these the results for patterns are no one's: each call gives others.
UNSTEADY = {"every-third-call"}


Kernel = Callable[..., Any]
EVEN = "ties_to_even"


def rounded(x: Array) -> Array:
    """What is right for any array."""
    return right(np.ascontiguousarray(x).reshape(-1), EVEN).reshape(x.shape)


def spoiling(spoil: Callable[[Array, Array], object]) -> Kernel:
    """A kernel whose right results ``spoil(x, y)`` makes wrong."""

    def kernel(x: Array) -> Array:
        y = rounded(x)
        spoil(x, y)
        return y

    return kernel


def tail(width: int, become: Callable[[Array], Any]) -> Kernel:
    def spoil(x: Array, y: Array) -> None:
        rest = x.size % width if x.ndim == 1 else 0
        if rest:
            y[-rest:] = become(x[-rest:])

    return spoiling(spoil)


def where(condition: Callable[[int], bool], become: Callable[[Array], Any]) -> Kernel:
    """All elements of arrays with so many."""

    def spoil(x: Array, y: Array) -> None:
        if condition(x.size):
            y[...] = become(x)

    return spoiling(spoil)


def rows_tail(x: Array) -> Array:
    """Vectors of 16 in each row; the rest of a row is copied."""
    y = rounded(x)
    rest = x.shape[-1] % 16 if x.ndim > 1 else 0
    if rest:
        y[..., -rest:] = x[..., -rest:]
    return y


def first(x: Array, y: Array) -> None:
    if x.size > 1:
        y.reshape(-1)[0] = x.reshape(-1)[0]


def needs_aligned(x: Array) -> Array:
    if x.size and x.ctypes.data % 32:
        raise MemoryError("not aligned")
    return rounded(x)


def packed(x: Array) -> Array:
    """As C reads it from a pointer, whatever the strides."""
    base = x
    while isinstance(base.base, np.ndarray):
        base = base.base
    at = (x.ctypes.data - base.ctypes.data) // x.dtype.itemsize
    memory = base.reshape(-1).view(np.uint8)[(x.ctypes.data - base.ctypes.data) % x.itemsize :]
    memory = memory[: memory.size // x.itemsize * x.itemsize].view(x.dtype)
    return rounded(memory[at : at + x.size]).reshape(x.shape)


def one_dimension(x: Array) -> Array:
    """The first row alone is rounded."""
    y = x.copy()
    if x.ndim == 1:
        return rounded(x)
    y[0] = rounded(x[0])
    return y


def flat(x: Array) -> Array:
    return rounded(x).reshape(-1)


def fortran(x: Array) -> Array:
    """Rounds in the other order of memory."""
    return rounded(x).reshape(-1).reshape(x.shape, order="F")


def in_place(x: Array) -> Array:
    x[...] = rounded(x)
    return x


def writes_beyond(x: Array) -> Array:
    """A last vector that is stored whole, into memory that is not the operand's."""
    y = rounded(x)
    base = x
    while isinstance(base.base, np.ndarray):
        base = base.base
    if base.nbytes > x.nbytes and x.flags.c_contiguous:
        end = x.ctypes.data - base.ctypes.data + x.nbytes
        base.view(np.uint8).reshape(-1)[end : end + 1] = 1
    return y


@dataclass(slots=True)
class Stateful:
    """A kernel with memory: a test uses a copy."""

    kind: str
    calls: int = 0
    memory: dict[int, Array] = field(default_factory=dict)

    def __call__(self, x: Array) -> Array:
        self.calls += 1
        y = rounded(x)
        if self.kind == "every third call" and self.calls % 3 == 0 and x.size:
            y.reshape(-1)[x.size // 2] = x.reshape(-1)[x.size // 2]
        if self.kind == "static buffer":
            # The buffer of the last array of this size is given out again.
            buffer = self.memory.setdefault(x.size, np.empty_like(y).reshape(-1))
            buffer[:] = y.reshape(-1)
            return buffer.reshape(x.shape)
        return y


def empty_fails(x: Array) -> Array:
    x.max()
    return rounded(x)


def empty_returns(x: Array) -> Array:
    return rounded(x) if x.size else np.zeros(1, x.dtype)


def fails_below_eight(x: Array) -> Array:
    if 0 < x.size < 8:
        raise IndexError("no whole vector")
    return rounded(x)


def negative_strides(x: Array) -> Array:
    return rounded(x[::-1] if x.ndim == 1 and x.strides[0] < 0 else x)


def into(x: Array, out: Array | None = None) -> Array:
    """Writes zeros first, and reads its operand afterwards."""
    y = np.empty_like(x) if out is None else out
    y[...] = 0
    y[...] = rounded(x)
    return y


def out_of_nothing(x: Array, out: Array | None = None) -> Array:
    """Takes ``out`` and writes nothing there."""
    return rounded(x)


def same(x: Array) -> Array:
    return x


def zero(x: Array) -> Array:
    return np.zeros_like(x)


def after(width: int, what: str, length: int) -> str:
    rest = f"the last {length % width} of {length} elements"
    return f"the elements after the last multiple of {width} are {what}: {rest}"


NOT_ROUNDED = after(16, "not rounded", 19)
#: By kind: the kernel, and the words of the one cause that is found. Further ones, planted in every
#: operator, are in test_plants.
SUBTLE: dict[str, tuple[Kernel, str]] = {
    "tail-of-16": (tail(16, same), NOT_ROUNDED),
    "tail-of-8-zero": (
        tail(8, zero),
        after(8, "zero", 11),
    ),
    "tail-of-4-wrong": (
        tail(4, lambda x: -x),
        after(4, "wrong", 7),
    ),
    "first-element": (spoiling(first), "the first of 3 elements is not rounded"),
    "no-multiple-of-8": (
        where(lambda n: n % 8 > 0, zero),
        "arrays whose length is not a multiple of 8 are zero",
    ),
    "one": (where(lambda n: n == 1, zero), "arrays of one element are zero"),
    "long": (
        where(lambda n: n > 65535, same),
        "arrays of 65,536 elements and more are not rounded",
    ),
    "very-long": (
        where(lambda n: n > 1 << 20, same),
        "arrays of 1,114,113 elements and more are not rounded",
    ),
    "fails-below-8": (
        fails_below_eight,
        "arrays of 1 element and 6 other lengths: IndexError: no whole vector",
    ),
    "empty-fails": (empty_fails, "the empty tensor: ValueError: "),
    "empty-returns": (empty_returns, "the empty tensor: it returned "),
    "needs-aligned": (
        needs_aligned,
        "in unaligned memory, at addresses that are not multiples of 32: MemoryError: not aligned",
    ),
    "strided": (packed, "wrong for strided input: x[::2], x[::-1], x.T, x[:, :16]"),
    "negative-strides": (negative_strides, "wrong for strided input: x[::-1]"),
    "one-dimension": (
        one_dimension,
        "wrong for other ranks: (64, 64), (64, 19), (1024, 1), ",
    ),
    "rows-tail": (rows_tail, "wrong for other ranks: (64, 19)"),
    "flat": (flat, "(2, 2, 2, 4, 4, 8): it returned "),
    "fortran": (fortran, "wrong for other ranks: (64, 64), (64, 19), (4, 16, 16)"),
    "in-place": (in_place, "changes its operand"),
    "writes-beyond": (writes_beyond, "writes beyond its operand"),
    "static-buffer": (Stateful("static buffer"), "the next call changes its result"),
    "every-third-call": (Stateful("every third call"), "differs from call to call"),
    "into-itself": (into, "wrong in place, with out=x"),
    "into-nothing": (out_of_nothing, "wrong with out=y"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        pytest.param(kind, dtype, marks=() if (number - place) % 3 == 0 else pytest.mark.sweep)
        for number, kind in enumerate(SUBTLE)
        for place, dtype in enumerate(("float32", "bfloat16", "float8_e4m3fn"))
    ],
)
def test_a_subtle_fault_has_one_true_cause(kind: str, dtype: str) -> None:
    kernel, cause = SUBTLE[kind]
    report = verify(copy.deepcopy(kernel), dtypes=[dtype])
    (verdict,) = report.verdicts
    (fault,) = verdict.calls
    assert cause in fault.cause
    assert cause in verdict.sentence
    assert not report.right
    if kind not in UNSTEADY:
        assert (verdict.wrong, verdict.explanation.deviations) == (0, ())
        assert verdict.sentence == f"every pattern is right, but {fault.cause}"
    else:
        assert (verdict.unsteady, verdict.sentence) == (True, fault.cause)


def test_a_wrong_pattern_and_a_wrong_tail_are_told_apart() -> None:
    """A kernel of half added, whose tail is not rounded: each fault has its own name."""
    ends = tail(16, lambda x: x)

    def kernel(x: Any) -> Any:
        half = np.trunc(x + np.copysign(x.dtype.type(0.5), x))
        rest = x.size % 16 if x.ndim == 1 else 0
        half[..., half.shape[-1] - rest :] = ends(x)[..., half.shape[-1] - rest :]
        return half

    (verdict,) = verify(kernel, dtypes=["float32"], roundings=["ties_to_away"]).verdicts
    assert verdict.wrong == 15_904
    assert [one.name for one in verdict.explanation.deviations] == ["trunc(x + copysign(0.5, x))"]
    (fault,) = verdict.calls
    assert fault.cause.startswith("the elements after the last multiple of 16 are not rounded")
    assert fault.example is not None


def test_a_form_that_is_refused_is_told_and_no_fault() -> None:
    def kernel(x: Any) -> Any:
        if x.ndim > 1:
            raise TypeError("one dimension only")
        return rounded(x)

    report = verify(kernel, dtypes=["float16"])
    assert report.right
    (verdict,) = report.verdicts
    assert verdict.refused == (
        "other ranks, (64, 64), (64, 19), (1, 1024), (1024, 1), (4, 16, 16), (2, 4, 8, 16), "
        "(2, 4, 4, 4, 8), (2, 2, 2, 4, 4, 8): TypeError: one dimension only",
    )
    assert f"refused: {verdict.refused[0]}" in str(report)


def program(folder: Path, body: str) -> str:
    path = folder / "kernel.py"
    path.write_text(
        "import sys, numpy as np\n"
        "x = np.frombuffer(sys.stdin.buffer.read(), '<f4')\n"
        f"y = np.rint(x)\n{body}\n"
        "sys.stdout.buffer.write(y.tobytes())\n"
    )
    return f"cmd:{sys.executable} {path}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "causes"),
    [
        ("", []),
        (
            "rest = x.size % 8\nif rest: y[-rest:] = x[-rest:]",
            [after(8, "not rounded", 19)],
        ),
        ("x.max()", ["the empty tensor: "]),
        (
            "import pathlib\nhere = pathlib.Path(__file__)\n"
            "here.with_suffix('.n').open('a').write('.')\n"
            "if len(here.with_suffix('.n').read_text()) % 2: y = x",
            ["differs from call to call"],
        ),
    ],
    ids=["right", "tail", "empty", "every-second-call"],
)
def test_a_program_is_tried_with_lengths_and_again(
    tmp_path: Path, body: str, causes: list[str]
) -> None:
    (verdict,) = verify(program(tmp_path, body), timeout=60).verdicts
    assert verdict.pair == ("float32", "ties_to_even"), "no placeholder names another"
    found = [fault.cause for fault in verdict.calls]
    assert len(found) == len(causes)
    assert all(some.startswith(cause) for some, cause in zip(found, causes, strict=True))


def test_a_cause_is_in_every_form_of_the_report() -> None:
    report = verify(SUBTLE["tail-of-16"][0], dtypes=["float16"])
    (verdict,) = report.verdicts
    (cause,) = [fault.cause for fault in verdict.calls]
    data = report.as_data()
    assert (data["right"], data["verdicts"][0]["wrong"]) == (False, 0)
    assert data["verdicts"][0]["calls"][0]["cause"] == cause
    assert f"float16 ties_to_even: every pattern is right, but {cause}.\n  x " in str(report)
    found = complaints(report)
    assert found == {verdict.pair: verdict.sentence}
    suite = ElementTree.fromstring(junit_xml(report, found)).find("testsuite")
    assert suite is not None
    assert suite.get("failures") == "1"
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == verdict.sentence
    assert (failure.text or "").startswith("x ")


def test_a_baseline_knows_causes() -> None:
    wrong = verify(SUBTLE["in-place"][0], dtypes=["float16"])
    right = verify(rounded, dtypes=["float16"])
    assert complaints(wrong, Baseline.of(wrong)) == {}
    assert list(complaints(wrong, Baseline.of(right)).values()) == [
        "not in the baseline: changes its operand"
    ]
    assert list(complaints(right, Baseline.of(wrong)).values()) == [
        "fixed: changes its operand; write a new baseline"
    ]
    data = right.as_data()
    del data["verdicts"][0]["calls"]  # of a report from before causes were told
    assert complaints(right, Baseline.from_data(data)) == {}


def test_check_raises_the_whole_report() -> None:
    verify(rounded, dtypes=["float16"]).check()
    report = verify(SUBTLE["in-place"][0], dtypes=["float16"])
    with pytest.raises(AssertionError) as caught:
        report.check()
    assert str(report) in str(caught.value)


def test_a_kernel_that_hangs_on_one_length_is_not_called_again() -> None:
    released, calls = Event(), []

    def kernel(x: Any) -> Any:
        calls.append(x.size)
        if x.size == 7:
            released.wait(100)
        return rounded(x)

    try:
        with pytest.raises(CannotVerify, match="did not finish within 2 s"):
            verify(kernel, dtypes=["float16"], timeout=2)
    finally:
        released.set()
    assert calls.count(7) == 1
