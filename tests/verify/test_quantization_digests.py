"""The published digests of quantization, computed again by the reference."""

from __future__ import annotations

import hashlib
from itertools import product

import numpy as np
import pytest

from support.cases.references import quantized
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.functions import Quantize
from tensor_round.contract.operators.registry import OPERATORS
from tensor_round.contract.quantization_digests import (
    FUNCTIONS,
    POINT,
    QUANTIZATION_DIGESTS,
    published,
    scales_of,
)
from tensor_round_verify.conversions.linear import dequantized
from tensor_round_verify.reference import Bits, all_patterns, bits_type


def digest(operator: str, source: str, target: str) -> str:
    """SHA-256 of the results for every pattern, ascending, by each function and scale."""
    bits, found = all_patterns(source), hashlib.sha256()
    for function in FUNCTIONS[operator]:
        for scale, pattern in scales_of(operator):
            types, scales = (source, scale, target), np.full(bits.size, pattern, bits_type(scale))
            codes = target if operator == "quantize" else source
            for points in (None, np.full(bits.size, POINT, bits_type(codes))):
                if isinstance(function, Quantize):
                    precision = function.precision.name if function.precision else ""
                    saturate = function.saturates
                    results: Bits = quantized(
                        bits, scales, points, types, precision=precision, saturate=saturate
                    )
                else:
                    results = dequantized(bits, scales, points, types)
                if BY_NAME[target].is_sub_byte:
                    results = results[::2] | results[1::2] << 4
                found.update(results.tobytes())
    return found.hexdigest()


def test_published_digests_of_quantization_are_the_references() -> None:
    quick = [key for key in published("dequantize") if BY_NAME[key[0]].width <= 8]
    assert len(quick) == 27
    for source, target in quick:
        assert digest("dequantize", source, target) == published("dequantize")[source, target]


@pytest.mark.sweep
@pytest.mark.parametrize("operator", QUANTIZATION_DIGESTS)
def test_published_digests_of_16_bits_are_the_references(operator: str) -> None:
    for source, target in published(operator):
        assert digest(operator, source, target) == published(operator)[source, target]


def test_every_pair_from_a_narrow_type_has_a_digest() -> None:
    for operator, name in (("quantize", "QuantizeLinear"), ("dequantize", "DequantizeLinear")):
        row = OPERATORS[f"onnx:{name}"]
        newest = row.versions[-1]
        sources, targets = (
            [row.dtypes[one] for one in names] for names in (newest.dtypes, newest.results)
        )
        narrow = [source for source in sources if BY_NAME[source].width <= 16]
        assert published(operator).keys() == {*product(narrow, targets)}
    assert [*published("quantize", "float16", "int8")] == [("float16", "int8")]
