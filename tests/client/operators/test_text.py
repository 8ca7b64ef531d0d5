"""Operators as one word: each is what its object is, and what is not says what there is."""

from __future__ import annotations

import pytest

import tensor_round as tr
from tensor_round.operators.text import operator_from_text

OPERATORS: dict[str, tr.RoundOperator] = {
    **{rounding.value: tr.IEEE754Round(rounding) for rounding in tr.Rounding},
    "onnx": tr.OnnxRound(),
    "onnx:11": tr.OnnxRound(11),
    "openvino": tr.OpenVINORound(),
    "openvino:half_away_from_zero": tr.OpenVINORound("half_away_from_zero"),
    "directml:TOWARD_INFINITY": tr.DirectMLRound("TOWARD_INFINITY"),
    "directml:DML_ROUNDING_MODE_TOWARD_ZERO": tr.DirectMLRound("TOWARD_ZERO"),
    "directml:2": tr.DirectMLRound("TOWARD_INFINITY"),
    "directml:TOWARD_ZERO:2_1": tr.DirectMLRound("TOWARD_ZERO", "2_1"),
    "directml:TOWARD_ZERO:DML_FEATURE_LEVEL_5_0": tr.DirectMLRound("TOWARD_ZERO", "5_0"),
    "webnn": tr.WebNNRoundEven(),
    "stablehlo:round_nearest_afz": tr.StableHLORound("round_nearest_afz"),
    "stablehlo:stablehlo.round_nearest_even": tr.StableHLORound(),
    "array_api:trunc": tr.ArrayAPIRound("trunc"),
}


@pytest.mark.parametrize("text", OPERATORS)
def test_an_operator_in_one_word(text: str) -> None:
    assert operator_from_text(text) == OPERATORS[text]


REFUSED = {
    "": "must be one of ties_to_even, ties_to_away",
    "up": "directml:MODE:FEATURE_LEVEL; webnn; stablehlo:OP (round_nearest_even, "
    'round_nearest_afz); array_api:OP (round, trunc, ceil, floor), got "up"',
    "ties_to_even:2": "must be one of",
    "ieee754": "must be one of",
    "onnx:": "onnx:OPSET (11 to 28)",
    "onnx:x": "onnx:OPSET (11 to 28)",
    "onnx:10": "introduced in opset 11, got 10",
    "onnx:29": "newest opset known here is 28, got 29",
    "onnx:22:x": "must be one of",
    "openvino:up": 'takes half_to_even, half_away_from_zero, got "up"',
    "directml": "directml:MODE (HALVES_TO_NEAREST_EVEN, TOWARD_INFINITY, TOWARD_ZERO)",
    "directml:up": 'takes HALVES_TO_NEAREST_EVEN, TOWARD_INFINITY, TOWARD_ZERO, got "up"',
    "directml:TOWARD_ZERO:1_0": "introduced in feature level 2_1",
    "directml:1:2:3": "must be one of",
    "webnn:roundEven": "must be one of",
    "stablehlo": "must be one of",
    "stablehlo:floor": 'takes round_nearest_even, round_nearest_afz, got "floor"',
    "array_api:rint": 'takes round, trunc, ceil, floor, got "rint"',
    "x" * 10_000: "...",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:20])
def test_what_is_none_says_what_there_is(text: str) -> None:
    with pytest.raises(tr.InvalidDescriptor) as caught:
        operator_from_text(text, ("query", "operator"))
    (fault,) = caught.value.faults
    assert fault.loc == ("query", "operator")
    assert REFUSED[text] in fault.msg
    assert len(fault.msg) < 600
