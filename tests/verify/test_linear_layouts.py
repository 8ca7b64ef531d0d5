"""Linear quantization by the service's own engine, in every layout that is verified."""

from __future__ import annotations

from typing import Any

import pytest

import tensor_round_verify as conformance


#: The sweep has all types of scales for each pair.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "dtypes", "scale"),
    [
        ("quantize_linear", ["float32", "int8"], "float32"),
        ("quantize_linear", ["float16", "float8_e4m3fn"], "float8_e8m0fnu"),
        ("quantize_linear", ["int32", "uint4"], "int32"),
        ("quantize_linear", ["bfloat16", "float4_e2m1fn"], "float16"),
        ("dequantize_linear", ["int4", "float16"], "float8_e8m0fnu"),
        ("dequantize_linear", ["float8_e5m2fnuz", "bfloat16"], "float32"),
        ("dequantize_linear", ["int32", "float32"], None),
        ("fake_quantize", ["float16", "uint4"], "bfloat16"),
    ],
)
def test_the_engine_is_right_in_every_layout(operator: Any, dtypes: Any, scale: Any) -> None:
    report = conformance.verify("service:local:", operator=operator, dtypes=dtypes, scale=scale)
    assert report.right, str(report)
    assert not report.lacking
    assert len(report.verdicts) >= 3
    assert not [verdict.refused for verdict in report.verdicts if verdict.refused]


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("operator", ["quantize_linear", "dequantize_linear", "fake_quantize"])
def test_the_engine_is_right_in_every_combination(operator: Any) -> None:
    report = conformance.verify("service:local:", operator=operator)
    assert report.right, str(report)
    assert not report.lacking
