"""ONNX's node tests of QuantizeLinear and DequantizeLinear, and its evaluator on drawn operands."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper
from onnx.backend.test.case.node import dequantizelinear, quantizelinear
from onnx.reference import ReferenceEvaluator

import tensor_round as tr
from suites.node_cases import NodeCase
from suites.node_cases import node_cases as generated
from support.cases.array_cases import off_wire, on_wire
from support.cases.wrong_kernels import names
from tensor_round.contract.dtypes import dtype_name
from tensor_round.contract.errors import InvalidDescriptor
from tensor_round.contract.operators import registry
from tensor_round_verify import verify

pytestmark = pytest.mark.timeout(300)
OPERATORS = {"QuantizeLinear": "y", "DequantizeLinear": "x"}
#: Of types that are not served.
REFUSED = {f"test_{name.lower()}_{kind}" for name in OPERATORS for kind in ("int2", "uint2")}
#: The suite adds a zero point of +0 to -0, and gets +0.
UNSIGNED_ZERO = "test_quantizelinear_float4e2m1"


@pytest.fixture(scope="module")
def cases() -> list[NodeCase]:
    return [case for case in generated() if case.operator in OPERATORS]


@pytest.fixture(scope="module")
def client() -> Iterator[tr.Client]:
    with tr.Client("local:") as client:
        yield client


def executed(client: tr.Client, model: Any, inputs: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """What comes back for a model of one node, by its attributes."""
    (node,) = model.graph.node
    names = ["input", *(f"{OPERATORS[node.op_type]}_{name}" for name in ("scale", "zero_point"))]
    types = [value.type.tensor_type.elem_type for value in model.graph.input]
    document = {
        "dialect": "onnx",
        "op_type": node.op_type,
        "opset_version": model.opset_import[0].version,
        **{attribute.name: attribute.i for attribute in node.attribute},
        **{
            name: {"elem_type": onnx.TensorProto.DataType.Name(kind), "shape": list(x.shape)}
            for name, kind, x in zip(names, types, inputs, strict=False)
        },
    }
    resolved = registry.validate(document).resolve()
    assert resolved.parameters is not None
    found = client.execute(document, b"".join(map(on_wire, inputs)))
    dtype = dtype_name(found.layout.dtype)
    size = int(np.prod(inputs[0].shape))
    return off_wire(bytes(found.data), dtype, size).reshape(inputs[0].shape)


def test_every_node_test_gets_its_result(client: tr.Client, cases: list[NodeCase]) -> None:
    source = "".join(map(inspect.getsource, (quantizelinear, dequantizelinear)))
    assert {case.name for case in cases} == {*re.findall(r'name="(test_\w+)"', source)}
    refused, otherwise = set[tuple[str, bool]](), set[str]()
    for case in cases:
        inputs = list(case.inputs.values())
        try:
            found = executed(client, case.model, inputs)
        except InvalidDescriptor as error:
            refused.add((case.name, "two bits are not served" in str(error)))
            continue
        assert found.dtype == case.expected.dtype, case.name
        if on_wire(found) != on_wire(case.expected):
            otherwise.add(case.name)
            assert np.array_equal(found.astype(float), case.expected.astype(float))
    assert refused == {(name, True) for name in REFUSED}
    assert otherwise == {UNSIGNED_ZERO}


@pytest.mark.parametrize("target", ["INT8", "UINT8", "INT16", "UINT16", "INT4", "UINT4"])
def test_the_evaluator_agrees_on_drawn_operands_within_its_range(
    client: tr.Client, target: str
) -> None:
    """It converts to int32 before it saturates: quotients stay below."""
    rng, number = np.random.default_rng(47), onnx.TensorProto.DataType.Value(target)
    kind = helper.tensor_dtype_to_np_dtype(number)
    scale = (rng.random(64) + 0.01).astype(np.float32)
    x = (rng.standard_normal((256, 64)) * 100).astype(np.float32)
    x[:, 0] = (rng.integers(-300, 300, 256) + 0.5) * scale[0]
    point = rng.integers(0, 8, 64).astype(kind)
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], axis=1)
    values = [
        helper.make_tensor_value_info(name, given, array.shape)
        for name, given, array in (
            ("x", onnx.TensorProto.FLOAT, x),
            ("s", onnx.TensorProto.FLOAT, scale),
            ("z", number, point),
        )
    ]
    result = helper.make_tensor_value_info("y", number, x.shape)
    graph = helper.make_graph([node], "quantize", values, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    (want,) = ReferenceEvaluator(model).run(None, {"x": x, "s": scale, "z": point})
    assert np.array_equal(executed(client, model, [x, scale, point]), want)


def test_onnxruntime_adds_no_zero_point_to_floats_and_divides_in_float16() -> None:
    asked: Any = {"dtypes": ["float32", "float8_e4m3fn"]}
    report = verify("onnxruntime", operator="quantize_linear", **asked)
    forgotten, rounded = "zero point forgotten", "operands rounded first"
    found = {row.dtype: {one.name for one in row.explanation.deviations} for row in report.verdicts}
    # Without saturation its conversion is wrong, too, as that of Cast, and has no name.
    assert found.pop("float32 to float8_e4m3fn, not saturated, per tensor") == set()
    assert {*map(frozenset, found.values())} == {
        frozenset({forgotten}),
        frozenset({forgotten, rounded}),
    }
    asked = {"dtypes": ["float32", "int4"]}
    report = verify("onnxruntime", operator="quantize_linear", **asked)
    assert names(report) == {(), (rounded,)}
    wrong = [verdict.dtype.rpartition(", ")[2] for verdict in report.verdicts if verdict.wrong]
    assert wrong == ["float16 scales", "float16 quotients"]


def test_torch_fake_quantizes_by_a_reciprocal() -> None:
    asked: Any = {"dtypes": ["float32", "int8"]}
    report = verify("torch", operator="fake_quantize", **asked)
    assert names(report) == {("reciprocal",), ("reciprocal", "through int32")}
