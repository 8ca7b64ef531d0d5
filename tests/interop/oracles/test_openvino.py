"""OpenVINO's Round-5: its constant folding as an oracle, and its tensors in the client."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov
import openvino.passes
import pytest
from openvino import opset5

import tensor_round as tr
from support.cases.array_cases import patterns
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import WIDTHS, Bits, is_nan, rounded

ROUNDINGS = {"half_to_even": "ties_to_even", "half_away_from_zero": "ties_to_away"}
ELEMENTS = {
    "float16": ov.Type.f16,
    "bfloat16": ov.Type.bf16,
    "float32": ov.Type.f32,
    "float64": ov.Type.f64,
    "int8": ov.Type.i8,
    "int16": ov.Type.i16,
    "int32": ov.Type.i32,
    "int64": ov.Type.i64,
    "uint8": ov.Type.u8,
    "uint16": ov.Type.u16,
    "uint32": ov.Type.u32,
    "uint64": ov.Type.u64,
}
FOLDED = [
    *("float16", "bfloat16", "float32"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
]


def tensor(dtype: str, patterns: Bits) -> ov.Tensor:
    filled = ov.Tensor(ELEMENTS[dtype], ov.Shape([patterns.size]))
    filled.data.view(np.uint8).reshape(-1)[:] = patterns.view(np.uint8)
    return filled


def as_bits(values: np.ndarray[Any, Any], like: Bits) -> Bits:
    return np.ascontiguousarray(values).reshape(-1).view(like.dtype)


def folded(dtype: str, mode: str, patterns: Bits) -> Bits:
    """Round-5 of a constant, evaluated by OpenVINO's reference code while it folds constants."""
    constant = ov.op.Constant(tensor(dtype, patterns))
    model = ov.Model([opset5.round(constant, mode)], [])
    manager = openvino.passes.Manager()
    manager.register_pass(openvino.passes.ConstantFolding())
    manager.run_passes(model)
    node = model.get_results()[0].input_value(0).get_node()
    assert node.get_type_name() == "Constant", "Round was not folded"
    return as_bits(node.data, patterns)


@pytest.mark.parametrize("mode", ROUNDINGS)
@pytest.mark.parametrize("dtype", FOLDED)
def test_constant_folding_is_the_reference(dtype: str, mode: str) -> None:
    x = samples(dtype, 1 << 20)
    got, want = folded(dtype, mode, x), rounded(x, dtype, ROUNDINGS[mode])
    nan = is_nan(dtype, x)
    np.testing.assert_array_equal(got[~nan], want[~nan])
    assert is_nan(dtype, got)[nan].all()


@pytest.mark.parametrize("mode", ROUNDINGS)
@pytest.mark.parametrize("dtype", ELEMENTS)
def test_the_client_takes_openvino_s_tensors(dtype: str, mode: str) -> None:
    given = patterns(dtype, 256).view(f"u{WIDTHS[dtype] // 8}")
    x, out = tensor(dtype, given), tensor(dtype, given)
    with tr.Client("local:") as client:
        y = client.round(x, tr.OpenVINORound(mode))
        assert client.round(x, tr.OpenVINORound(mode), out=out) is out
    expected = rounded(given, dtype, ROUNDINGS[mode])
    for result in (y, out):
        assert (result.element_type, result.shape) == (x.element_type, x.shape)
        assert np.array_equal(as_bits(result.data, given), expected)


def test_the_client_refuses_openvino_s_other_types_by_name() -> None:
    x = ov.Tensor(ov.Type.i4, ov.Shape([4]))
    with (
        tr.Client("local:") as client,
        pytest.raises(tr.InvalidDescriptor, match=r'got "openvino\.Type\.i4"'),
    ):
        client.round(x)
