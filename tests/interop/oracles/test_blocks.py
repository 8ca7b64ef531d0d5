"""Block formats of real libraries: what is wrong with each, and by which deviations."""

from __future__ import annotations

from typing import Any

import gfloat
import numpy as np
import pytest
from gfloat import formats

from tensor_round_verify import verify
from tensor_round_verify.conversions.blocks.formats import FORMATS, RULES

BY_2_126 = "divided by 2^-126 where the scale is 2^-127"
NOT_DIVIDED = "not divided where the scale is 2^-127"
LOG2 = "log2 in float32"
#: What explains torchao's wrong results for float32 in the MX formats, by the rule of scales.
MX = {"floor": {BY_2_126}, "ceil": {BY_2_126}, "rceil": {NOT_DIVIDED, LOG2}, "even": {BY_2_126}}
#: Those in NVFP4, beside a reciprocal.
NV = {"least scales raised to normal ones"}


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


def test_gfloat_is_right_in_every_format() -> None:
    """A library that shares nothing with the reference, and finds it right."""
    report = verify(of_gfloat, operator="block_quantize")
    assert report.right, str(report)
    judged = {verdict.dtype.partition(" to ")[2] for verdict in report.verdicts}
    assert judged == FORMATS.keys() - {"nvfp4"}


def of_gfloat(x: Any, format: str, scale: str) -> Any:
    """Quantize by gfloat's functions of blocks and of elements."""
    info = getattr(formats, f"format_info_{format}", None)
    if info is None or scale != "floor":
        raise NotImplementedError(f"{format} by {scale}")
    blocks = x.astype(np.float64).reshape(-1, info.k)
    scales = np.array([gfloat.compute_scale_amax(info.etype.emax, block) for block in blocks])
    rounded = gfloat.round_ndarray(info.etype, blocks / scales[:, None], sat=True)
    codes = gfloat.encode_ndarray(info.etype, rounded).astype(np.uint8)
    stored = gfloat.encode_ndarray(info.stype, scales).astype(np.uint8)
    return stored.reshape(*x.shape[:-1], -1), codes.reshape(x.shape)
