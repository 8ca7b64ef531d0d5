"""ONNX Runtime, ONNX's own reference evaluator, and the standard's node tests."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from suites.node_cases import NodeCase
from support.cases.backend_calls import run_flat
from support.cases.oracle_ledger import Ledger
from tensor_round_verify.reference import Bits

ELEMENTS: dict[str, tuple[int, Any]] = {
    "float16": (TensorProto.FLOAT16, np.float16),
    "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
    "float32": (TensorProto.FLOAT, np.float32),
    "float64": (TensorProto.DOUBLE, np.float64),
}
# No implementation of bfloat16 is registered in ONNX Runtime for the CPU. NaNs keep their bits
# where no conversion to another type is on the way.
RUNTIME = [("float16", False), ("float32", True), ("float64", True)]


def model(dtype: str, opset: int) -> onnx.ModelProto:
    element, _ = ELEMENTS[dtype]
    graph = helper.make_graph(
        [helper.make_node("Round", ["x"], ["y"])],
        "round",
        [helper.make_tensor_value_info("x", element, ["n"])],
        [helper.make_tensor_value_info("y", element, ["n"])],
    )
    # The newest that every supported ONNX Runtime reads.
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


@pytest.mark.parametrize("opset", [11, 22])
@pytest.mark.parametrize(("dtype", "keeps_nans"), RUNTIME)
def test_onnx_runtime(ledger: Ledger, dtype: str, keeps_nans: bool, opset: int) -> None:
    session = onnxruntime.InferenceSession(
        model(dtype, opset).SerializeToString(), providers=["CPUExecutionProvider"]
    )

    def ask(patterns: Bits) -> Bits:
        (result,) = session.run(None, {"x": patterns.view(ELEMENTS[dtype][1])})
        return np.asarray(result).view(patterns.dtype)

    ledger.compare(
        f"ONNX Runtime, Round-{opset}", dtype, "ties_to_even", ask, keeps_nans=keeps_nans
    )


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_onnx_reference_evaluator(ledger: Ledger, dtype: str) -> None:
    evaluator = ReferenceEvaluator(model(dtype, opset=22))

    def ask(patterns: Bits) -> Bits:
        with np.errstate(invalid="ignore"):  # NumPy's, for signalling NaNs
            (result,) = evaluator.run(None, {"x": patterns.view(ELEMENTS[dtype][1])})
        return np.asarray(result).view(patterns.dtype)

    ledger.compare("ONNX reference evaluator", dtype, "ties_to_even", ask)


def test_the_standards_own_node_tests(ledger: Ledger, node_cases: list[NodeCase]) -> None:
    own = {"Round": "ties_to_even", "Ceil": "toward_positive", "Floor": "toward_negative"}
    cases = [case for case in node_cases if case.operator in own]
    assert {case.operator for case in cases} == set(own)
    for case in cases:
        assert case.expected.dtype == np.float32
        bits = case.inputs["x"].reshape(-1).view("<u4")
        answer = run_flat(ledger.backend, "float32", own[case.operator], bits)
        np.testing.assert_array_equal(answer, case.expected.reshape(-1).view("<u4"))
