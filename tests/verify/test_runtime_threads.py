"""The thread that calls a runtime, and what becomes of a type on which a runtime fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import get_ident
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round_verify import Baseline, complaints, verify
from tensor_round_verify.runtimes.runtime import Adapter


def test_every_call_of_a_function_is_made_by_one_thread() -> None:
    """Some libraries keep streams and connections by thread, and reject another's."""
    threads: set[int] = set()

    def kernel(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        threads.add(get_ident())
        return np.rint(x)

    report = verify(kernel, dtypes=["float16", "float32"])
    assert report.right
    assert len(report.verdicts) == 2
    assert len(threads) == 1
    threads.clear()

    def seen(x: npt.NDArray[Any]) -> None:
        threads.add(get_ident())

    library = Library(seen)
    kernels = [library.kernel(dtype, "ties_to_even") for dtype in ("float16", "float32")]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: kernels[i % 2](np.zeros(3, f"u{2 + 2 * (i % 2)}")), range(40)))
    assert len(threads) == 1
    assert get_ident() not in threads


class Library(Adapter):
    """A runtime that several threads must not call."""

    name, dtypes, roundings = "library", ("float16", "float32"), ("ties_to_even",)
    concurrent = False

    def __init__(self, seen: Callable[[Any], None]) -> None:
        self._seen = seen

    def _rounds(self, dtype: str, rounding: str) -> Callable[[Any], Any]:
        def rounds(x: Any) -> Any:
            self._seen(x)
            return np.rint(x)

        return rounds


def fails_late(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if x.dtype == np.float32 and x.size > 1000:
        raise ValueError("no large arrays")
    return np.rint(x)


def test_type_that_fails_is_a_fault_and_the_other_verdicts_stand() -> None:
    asked: dict[str, Any] = {"dtypes": ["float16", "float32", "float64"]}
    report = verify(fails_late, **asked)
    assert [verdict.dtype for verdict in report.verdicts] == ["float16", "float64"]
    assert all(verdict.right for verdict in report.verdicts)
    (row,) = report.lacking
    told = "failed: ValueError: no large arrays"
    assert (str(row), report.right) == (f"float32 ties_to_even: {told}", False)
    assert f"float32 ties_to_even: {told}" in str(report).splitlines()
    pair = ("float32", "ties_to_even")
    assert complaints(report) == {pair: told}
    assert complaints(report, Baseline.of(verify(np.rint, **asked))).keys() == {pair}
    assert complaints(report, Baseline.of(report)) == {pair: told}


def test_function_that_hangs_is_not_called_again_and_its_other_verdicts_stand() -> None:
    calls: list[str] = []

    def kernel(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        calls.append(str(x.dtype))
        if x.dtype == np.float32:
            time.sleep(30)
        return np.rint(x)

    report = verify(kernel, dtypes=["float16", "float32", "float64"], timeout=2)
    assert [verdict.dtype for verdict in report.verdicts] == ["float16"]
    assert [(row.dtype, row.failed) for row in report.lacking] == [
        ("float32", True),
        ("float64", True),
    ]
    assert "did not finish within 2 s" in report.lacking[0].why
    assert "float64" not in calls
