"""ONNX's node tests of rounding, casts and quantization: what they expect, and what runtimes do.

It needs the onnx package, which generates the cases, and the runtimes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

from tensor_round.contract.errors import CannotVerify
from tensor_round_verify import verify_model
from tensor_round_verify.graphs.judging import verdict_of
from tensor_round_verify.graphs.onnx_graph import JUDGED, OnnxGraph
from tensor_round_verify.runtimes.model_tensors import Tensor

Array = npt.NDArray[Any]
#: Who expects the results that are in the cases.
SUITE = "the suite"


@dataclass(frozen=True, slots=True)
class NodeCase:
    """A model of one node, with its inputs by name and the result that is expected."""

    name: str
    model: Any
    inputs: dict[str, Array]
    expected: Array

    @property
    def operator(self) -> str:
        """The operator of its node."""
        return str(self.model.graph.node[0].op_type)


@dataclass(frozen=True, slots=True)
class Found:
    """One case by one runtime, or as the suite expects it: the verdict in words.

    ``right`` is None without a verdict.
    """

    case: str
    operator: str
    who: str
    right: bool | None
    told: str


def node_cases() -> list[NodeCase]:
    """The cases of one node that rounds, casts or quantizes; it generates those of all operators.

    That takes some ten seconds.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, of other operators' cases
        cases = collect_testcases()
    return [
        NodeCase(case.name, case.model, dict(_named(case.model, inputs)), _array(outputs[0]))
        for case in cases
        if len(case.model.graph.node) == 1 and case.model.graph.node[0].op_type in JUDGED
        for inputs, outputs in case.data_sets
    ]


def run(cases: Sequence[NodeCase], runtimes: Sequence[str]) -> Iterator[Found]:
    """Judge what is expected and what each runtime does, by the rules of ``verify``."""
    with TemporaryDirectory() as folder:
        for case in cases:
            path = Path(folder) / f"{case.name}.onnx"
            onnx.save_model(case.model, path)
            expected = _expected(case, OnnxGraph(path))
            yield expected
            if expected.right is not None:
                for runtime in runtimes:
                    yield _by(runtime, case, path)


def _expected(case: NodeCase, graph: OnnxGraph) -> Found:
    about = (case.name, case.operator, SUITE)
    if not graph.nodes:
        told = graph.lacking[0].why if graph.lacking else "nothing is rounded"
        return Found(*about, None, told)
    (node,) = graph.nodes
    operands = [Tensor.of(case.inputs[name]) for name in node.inputs]
    try:
        verdict = verdict_of(node, operands, Tensor.of(case.expected), None)
    except CannotVerify as error:
        return Found(*about, None, error.reason)
    return Found(*about, not verdict.wrong, verdict.sentence)


def _by(runtime: str, case: NodeCase, path: Path) -> Found:
    about = (case.name, case.operator, runtime)
    try:
        report = verify_model(path, case.inputs, [runtime])
    except CannotVerify as error:
        return Found(*about, None, error.reason)
    (found,) = report.verdicts
    return Found(*about, not found.verdict.wrong, found.verdict.sentence)


def _named(model: Any, inputs: Sequence[Any]) -> Iterator[tuple[str, Array]]:
    for value, given in zip(model.graph.input, inputs, strict=True):
        yield value.name, _array(given)


def _array(value: Any) -> Array:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value)
