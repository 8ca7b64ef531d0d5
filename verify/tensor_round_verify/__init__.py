"""Verification of other runtimes: test patterns, an integer reference, and named wrong rules.

::

    from tensor_round import conformance

    report = conformance.verify("onnxruntime", dtypes=["float16"])
    print(report)
    conformance.verify(my_kernel, dtypes=["float32"]).check()  # raises the whole report

It needs no service and no network. The reference computes in integers, from IEEE 754 alone, and
shares no code with the rounding of this package.
"""

from __future__ import annotations

from tensor_round.contract.differences.classes import PatternClass, classify
from tensor_round.contract.errors import CannotVerify

from .baseline import Baseline, complaints
from .checks.verification import verify
from .comparison import Comparison, compare
from .deviation import Deviation
from .deviations import DEVIATIONS, RoundingDeviation
from .explain import Explanation
from .graphs.graph import NodeLacking
from .graphs.outputs import OutputVerdict
from .graphs.report import ModelReport, NodeVerdict
from .graphs.verification import verify_model
from .patterns import blocks, edges, random_patterns, samples
from .reference import FLOATS, INTEGER_WIDTHS, ROUNDINGS, WIDTHS, all_patterns, is_nan, rounded
from .report import ClassCount, Complaints, Example, Lacking, Report, Verdict, junit_xml
from .runtimes import RUNTIMES, NotSupported

__all__ = [
    "DEVIATIONS",
    "FLOATS",
    "INTEGER_WIDTHS",
    "ROUNDINGS",
    "RUNTIMES",
    "WIDTHS",
    "Baseline",
    "CannotVerify",
    "ClassCount",
    "Comparison",
    "Complaints",
    "Deviation",
    "Example",
    "Explanation",
    "Lacking",
    "ModelReport",
    "NodeLacking",
    "NodeVerdict",
    "NotSupported",
    "OutputVerdict",
    "PatternClass",
    "Report",
    "RoundingDeviation",
    "Verdict",
    "all_patterns",
    "blocks",
    "classify",
    "compare",
    "complaints",
    "edges",
    "is_nan",
    "junit_xml",
    "random_patterns",
    "rounded",
    "samples",
    "verify",
    "verify_model",
]
