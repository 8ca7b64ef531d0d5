"""ONNX's own backend suite on a real service, and models of more than one node."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.backend.test.runner import Runner

import tensor_round as tr
from support.services.server import Service
from tensor_round_verify.onnx_backend import OnnxBackend


@pytest.fixture(autouse=True)
def _address(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSOR_ROUND_URL", service.url)


#: ONNX leaves these open, and the suite has what NumPy and ml_dtypes do: numbers beyond the range
#: of an integer of 4 bits wrap around, and a NaN is -0 in FLOAT4E2M1.
OTHERWISE = {
    f"test_cast_{source}_to_{target}_cpu"
    for source in ("FLOAT16", "FLOAT")
    for target in ("FLOAT4E2M1", "INT4", "UINT4")
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # other operators' cases, as they are made
def test_the_suites_cases() -> None:
    """As `pytest -k` chooses them: those of other operators are passed over."""
    runner = Runner(OnnxBackend, __name__)
    for pattern in ("round", "test_floor", "test_ceil", "test_cast_"):
        runner.include(pattern)
    # Operands of types that no node states.
    suite = runner.exclude("cast_(BOOL|STRING|U?INT2)_to").test_suite
    result = unittest.TestResult()
    suite.run(result)
    assert not result.errors, result.errors
    assert {case.id().rpartition(".")[2] for case, _ in result.failures} == OTHERWISE
    skipped = {case.id().rpartition(".")[2] for case, _ in result.skipped}
    assert result.testsRun > len(skipped)
    assert not skipped & {"test_round_cpu", "test_floor_cpu", "test_cast_FLOAT_to_FLOAT16_cpu"}


def model(*nodes: Any, opset: int = 22, element: int = TensorProto.FLOAT) -> ModelProto:
    names = ["x", *(node.output[0] for node in nodes)]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", element, ["n"])],
        [helper.make_tensor_value_info(names[-1], element, ["n"])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


X = np.array([0.5, 1.5, -0.3, 2.5], np.float32)
ROUND = helper.make_node("Round", ["x"], ["y"])


@pytest.mark.parametrize("opset", [11, 21, 22])
def test_a_model(opset: int) -> None:
    (y,) = OnnxBackend.run_model(model(ROUND, opset=opset), [X])
    np.testing.assert_array_equal(y, np.rint(X))
    assert y.dtype == X.dtype


def test_nodes_in_a_row() -> None:
    prepared = OnnxBackend.prepare(model(ROUND, helper.make_node("Round", ["y"], ["z"])))
    for inputs in ([X], {"x": X}):
        (z,) = prepared.run(inputs)
        np.testing.assert_array_equal(z, np.rint(X))


def test_a_node() -> None:
    (y,) = OnnxBackend.run_node(ROUND, [X])
    np.testing.assert_array_equal(y, np.rint(X))
    (y,) = OnnxBackend.run_node(ROUND, [X.astype(np.float64)], opset_version=11)
    np.testing.assert_array_equal(y, np.rint(X))


def test_options_are_the_clients(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSOR_ROUND_URL", "http://127.0.0.1:9")
    (y,) = OnnxBackend.run_model(model(ROUND), [X], url=service.url)
    np.testing.assert_array_equal(y, np.rint(X))


def test_nodes_of_several_operators() -> None:
    cast = helper.make_node("Cast", ["y"], ["z"], to=TensorProto.INT8)
    (z,) = OnnxBackend.prepare(model(helper.make_node("Floor", ["x"], ["y"]), cast)).run([X])
    assert (z.dtype, z.tolist()) == (np.int8, [0, 1, -1, 2])


def test_backend_accepts_nodes_that_round_on_the_cpu_only() -> None:
    assert OnnxBackend.supports_device("CPU")
    assert not OnnxBackend.supports_device("CUDA")
    assert OnnxBackend.is_compatible(model(ROUND))
    other = model(helper.make_node("Abs", ["x"], ["y"]))
    assert not OnnxBackend.is_compatible(other)
    with pytest.raises(tr.InvalidDescriptor, match="op_type"):
        OnnxBackend.prepare(other)
    with pytest.raises(onnx.checker.ValidationError):
        OnnxBackend.prepare(model(helper.make_node("Round", ["nothing"], ["y"])))
    with pytest.raises(tr.InvalidDescriptor, match="Round-11"):
        OnnxBackend.run_model(
            model(ROUND, opset=11, element=TensorProto.BFLOAT16), [X.astype("bfloat16")]
        )
    with pytest.raises(tr.InvalidArgument, match="1 inputs, got 2"):
        OnnxBackend.prepare(model(ROUND)).run([X, X])


def test_it_is_offered_at_the_top() -> None:
    assert tr.OnnxBackend is OnnxBackend
