"""Code that verifies, and how strict type checkers see it: ``make types`` reads it."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import tensor_round as tr
import tensor_round_verify as conformance


def kernel(x: npt.NDArray[Any]) -> npt.NDArray[Any]:  # of any type of element
    """A function, to be verified."""
    return np.asarray(np.rint(x))


report = conformance.verify(kernel, dtypes=["float16"], roundings=["ties_to_even"], nans="quiet")
assert_type(report, conformance.Report)
assert_type(report.right, bool)
assert_type([verdict.wrong for verdict in report.verdicts], list[int])
conformance.verify("cmd:./kernel", roundings=[tr.Rounding.TIES_TO_AWAY], every=True, progress=print)
assert_type(conformance.complaints(report, conformance.Baseline.of(report)), conformance.Complaints)

# What type checkers must refuse.
conformance.verify(kernel, dtypes=["float31"])  # type: ignore[list-item]  # pyright: ignore
conformance.verify(kernel, roundings=["nearest"])  # type: ignore[list-item]  # pyright: ignore
conformance.verify(kernel, nans="all")  # type: ignore[arg-type]  # pyright: ignore
