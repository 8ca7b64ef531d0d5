"""Python functions as runtimes: what they are given, and what keeps them from a verdict."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from support.verifying import why_not
from tensor_round_verify import (
    FLOATS,
    rounded,
    verify,
)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: x.tolist(), "returned a list for a NumPy array of float16"),
        (lambda x: x.sort(), "returned None for a NumPy array of float16"),
        (lambda x: np.rint(x.astype("f8")), "returned float64 of shape (65536,) for float16"),
        (lambda x: x[:-1], "returned float16 of shape (65535,) for float16 of shape (65536,)"),
        (lambda x: x.astype(">f2"), "returned >f2 of shape"),
        (lambda x: 1 // 0, "failed on float16: ZeroDivisionError: "),
        (lambda x: sys.exit("no"), "failed on float16: SystemExit: no"),
    ],
    ids=["list", "none", "dtype", "shape", "byte-order", "raises", "exits"],
)
def test_a_function_that_returns_no_result_gets_no_verdict(function: Any, why: str) -> None:
    assert why in why_not(function, dtypes=["float16"])


def test_a_function_that_hangs_gets_no_verdict() -> None:
    released = Event()
    try:
        why = why_not(lambda x: released.wait(100), dtypes=["float16"], timeout=1)
    finally:
        released.set()
    assert why.endswith("was not done after 1 s")


def test_a_callable_object_is_a_function() -> None:
    class Kernel:
        def __call__(self, x: Any) -> Any:
            return np.rint(x)

    report = verify(Kernel(), dtypes=["float8_e4m3fn"])
    assert report.right
    assert report.runtime.endswith("Kernel")
    assert verify(np.rint, dtypes=["float8_e4m3fn"]).runtime == "python:numpy:rint"


def test_a_function_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_kernel_of_mine.py").write_text(
        "import numpy as np\n"
        "class Kernels:\n"
        "    @staticmethod\n"
        "    def away(x): return np.trunc(x + np.copysign(x.dtype.type(0.5), x))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    report = verify("python:a_kernel_of_mine:Kernels.away", roundings=["ties_to_away"])
    assert report.runtime == "python:a_kernel_of_mine:Kernels.away"
    assert len(report.verdicts) == len(FLOATS)
    assert all("trunc(x + copysign(0.5, x))" in str(verdict) for verdict in report.verdicts)


def test_a_function_with_a_rounding_is_verified_in_all() -> None:
    def kernel(x: Any, rounding: str) -> Any:
        return rounded(x.view("<u4"), "float32", rounding).view("<f4")

    report = verify(kernel, dtypes=["float32"])
    assert len(report.verdicts) == 5
    assert report.right


def test_a_function_that_rounds_in_place_changes_its_operand_alone() -> None:
    def in_place(x: Any) -> Any:
        x[:] = rounded(x.view("<u2"), "float16", "ties_to_even").view("<f2")
        return x

    (verdict,) = verify(in_place, dtypes=["float16"]).verdicts
    assert verdict.wrong == 0
    assert [fault.cause for fault in verdict.calls] == ["changes its operand"]
