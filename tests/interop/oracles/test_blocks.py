"""Block formats of real libraries: what is wrong with each, and by which deviations."""

from __future__ import annotations

from typing import Any

import pytest

from tensor_round_verify import verify
from tensor_round_verify.conversions.blocks.formats import FORMATS, RULES

BY_2_126 = "divided by 2^-126 where the scale is 2^-127"
NOT_DIVIDED = "not divided where the scale is 2^-127"
LOG2 = "log2 in float32"
#: What explains torchao's wrong results for float32 in the MX formats, by the rule of scales.
MX = {"floor": {BY_2_126}, "ceil": {BY_2_126}, "rceil": {NOT_DIVIDED, LOG2}, "even": {BY_2_126}}
#: Those in NVFP4, beside a reciprocal.
NV = {"least scales raised to normal ones"}


# All formats, each with millions of elements: half a minute on an idle machine.
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scale", RULES)
def test_each_fault_of_torchao_is_explained(scale: str) -> None:
    report = verify("torchao", operator="block_quantize", dtypes=["float32"], scale=scale)
    assert {row.dtype for row in report.lacking} == {"float32 to mxint8"}
    for verdict in report.verdicts:
        named = {model.name for model in verdict.explanation.models}
        assert verdict.wrong
        assert verdict.explanation.complete
        is_nv = "nvfp4" in verdict.dtype
        assert named - {"reciprocal", "reciprocal by parts"} == (NV if is_nv else MX[scale])
        assert bool(named & {"reciprocal", "reciprocal by parts"}) == is_nv


def test_torchao_decodes_right_but_for_float16() -> None:
    report = verify("torchao", operator="block_dequantize")
    for verdict in report.verdicts:
        assert verdict.right == (
            not verdict.dtype.endswith("float16")
            or "nv" in verdict.dtype[:2]
            or verdict.dtype.endswith("bfloat16")
        )
        if not verdict.right:
            names = {model.name for model in verdict.explanation.models}
            assert names == {"scale rounded to the result's type"}


@pytest.mark.parametrize("operator", ["block_quantize", "block_dequantize"])
def test_gfloat_is_right_in_every_format(operator: Any) -> None:
    """A library that shares nothing with the reference, and finds it right."""
    report = verify("gfloat", operator=operator)
    assert report.right, str(report)
    judged = {name for verdict in report.verdicts for name in verdict.dtype.split(" to ")}
    assert judged & FORMATS.keys() == FORMATS.keys() - {"nvfp4"}
