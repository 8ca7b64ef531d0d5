"""OpenVINO's Round-5 as an oracle, its tensors in the client; what it and ONNX write down."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino as ov
import openvino.passes
import pytest
from onnx import helper
from openvino import opset5

import tensor_round as tr
from support.cases.array_cases import patterns
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.operators.dialects import openvino as dialect
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import WIDTHS, Bits, is_nan, rounded

ROUNDINGS = {"half_to_even": "ties_to_even", "half_away_from_zero": "ties_to_away"}
#: OpenVINO's types of tensors that NumPy sees as they are.
ELEMENTS = {
    dtype: getattr(ov.Type, name)
    for name, dtype in dialect.DTYPES.items()
    if not (BY_NAME[dtype].is_sub_byte or dtype.startswith("float8"))
}


def tensor(dtype: str, patterns: Bits) -> ov.Tensor:
    filled = ov.Tensor(ELEMENTS[dtype], ov.Shape([patterns.size]))
    filled.data.view(np.uint8).reshape(-1)[:] = patterns.view(np.uint8)
    return filled


def as_bits(values: np.ndarray[Any, Any], like: Bits) -> Bits:
    return np.ascontiguousarray(values).reshape(-1).view(like.dtype)


def folded(constant: ov.op.Constant, mode: str) -> ov.Node:
    """What Round-5 of a constant becomes while OpenVINO folds constants by its reference code."""
    model = ov.Model([opset5.round(constant, mode)], [])
    manager = openvino.passes.Manager()
    manager.register_pass(openvino.passes.ConstantFolding())
    manager.run_passes(model)
    return model.get_results()[0].input_value(0).get_node()


@pytest.mark.parametrize("mode", ROUNDINGS)
@pytest.mark.parametrize("dtype", [dtype for dtype in ELEMENTS if dtype != "float64"])
def test_constant_folding_is_the_reference(dtype: str, mode: str) -> None:
    x = samples(dtype, 1 << 20)
    node = folded(ov.op.Constant(tensor(dtype, x)), mode)
    assert node.get_type_name() == "Constant", "Round was not folded"
    got, want = as_bits(node.data, x), rounded(x, dtype, ROUNDINGS[mode])
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


SHAPES: list[list[int]] = [[], [3], [1, 3, 2, 2], [0, 4], [-1, 3]]


def layers(shape: list[int], element_type: str, mode: str, folder: Path) -> list[str]:
    """The Round layers of the IR of a model with one."""
    parameter = opset5.parameter(ov.PartialShape(shape), getattr(ov.Type, element_type))
    model = ov.Model([opset5.round(parameter, mode)], [parameter])
    ov.save_model(model, folder / "model.xml", compress_to_fp16=False)
    text = (folder / "model.xml").read_text()
    return re.findall(r'<layer [^>]*type="Round".*?</layer>', text, re.S)


@pytest.mark.parametrize("mode", ["half_to_even", "half_away_from_zero"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("element_type", dialect.DTYPES)
def test_a_layer_of_a_saved_model(
    tmp_path: Path, element_type: str, shape: list[int], mode: str
) -> None:
    (layer,) = layers(shape, element_type, mode, tmp_path)
    operator = tr.from_openvino(layer)
    assert operator == tr.OpenVINORound(mode)
    if -1 in shape:
        assert operator.shape is None
        shape = [5, 3]
        call = operator.descriptor(shape=shape).resolve()
    else:
        call = operator.descriptor().resolve()
    assert call.input.dtype is BY_NAME[dialect.DTYPES[element_type]]
    assert call.input.shape == tuple(shape)


NOT_TAKEN = ["u1", "u2", "u3", "u6", "nf4", "f8e8m0"]


@pytest.mark.parametrize("element_type", NOT_TAKEN)
def test_openvino_s_own_evaluation_takes_none_of_the_types_that_are_refused(
    tmp_path: Path, element_type: str
) -> None:
    """Nor are there fewer than it has: every numeric type is taken or refused with a reason."""
    constant = opset5.constant([0, 1], getattr(ov.Type, element_type))
    node = folded(constant, "half_to_even")
    assert node.get_type_name() == "Round", "it was folded"
    (layer,) = layers([2], element_type, "half_to_even", tmp_path)
    with pytest.raises(tr.InvalidDescriptor, match="evaluation of Round rejects it too"):
        tr.from_openvino(layer)


def test_every_numeric_type_is_taken_or_refused_with_a_reason() -> None:
    names = {name for name in dir(ov.Type) if re.fullmatch(r"(bf|nf|[fiu])\d\w*", name)}
    assert names == {*dialect.DTYPES, *NOT_TAKEN}


@pytest.mark.parametrize("opset", [11, 21, 22, 28])
def test_a_node_of_a_checked_model(opset: Any) -> None:
    node = helper.make_node("Round", ["x"], ["y"])
    tensors = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2, 3]) for n in "xy"]
    graph = helper.make_graph([node], "g", [tensors[0]], [tensors[1]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    onnx.checker.check_model(model)
    operator = tr.from_onnx(model.graph.node[0], opset)
    assert operator == tr.OnnxRound(opset)
    assert operator.descriptor("float32", (2, 3)).domain == ""
