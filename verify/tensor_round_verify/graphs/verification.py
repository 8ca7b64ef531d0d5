"""Verifying a model: each rounding node, on the tensor that reaches it, by several runtimes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensor_round.contract.errors import CannotVerify
from tensor_round.contract.quoting import not_accepted

from ..checks.rounding import NANS, Nans
from ..runtimes import TIMEOUT, NotTaken, Runtime, open_runtime
from ..runtimes.function import Function
from ..runtimes.runtime import first_line
from ..runtimes.tensors import Array, Tensor
from .dxdispatch_graph import DxDispatchGraph
from .graph import Graph, Node, NodeLacking
from .judging import NoRule, alone, verdict_of
from .process import Reader, SeparateGraph
from .report import ModelReport, NodeVerdict

#: The readers of models, by the end of their files' names; DxDispatch's JSON needs no process.
MODELS: dict[str, Reader | None] = {
    ".onnx": ("onnx_graph", "OnnxGraph", "onnx"),
    ".xml": ("openvino_graph", "OpenVINOGraph", "openvino"),
    ".json": None,
}


def verify_model(
    path: str | os.PathLike[str],
    inputs: Mapping[str, Any] | str | os.PathLike[str] | Any,
    runtimes: Sequence[str | Function],
    *,
    nans: Nans | None = None,
    timeout: float = TIMEOUT,
) -> ModelReport:
    """Compare the rounding nodes of a model with their own specifications, bit for bit.

    Each node is judged on the tensor that reaches it when the model runs on ``inputs``. ``path``
    is an ONNX model (.onnx: Round, Ceil, Floor, Cast, CastLike, QuantizeLinear, DequantizeLinear),
    an OpenVINO IR (.xml: Round, Ceiling, Floor, Convert), or DxDispatch's JSON (.json:
    ELEMENT_WISE_ROUND). ``inputs`` are arrays by the names of the model's inputs, one array if
    there is one input, or the path of a .npz or .npy file.

    ``runtimes`` are names as for :func:`verify`, or functions. ONNX Runtime, ONNX's reference
    evaluator and OpenVINO run the model itself. All others, and all for DxDispatch's JSON, run
    their own operator on the tensor that reached the node. A runtime without the node's direction
    rounds in its first one. A function gets the direction if it has a parameter ``rounding``.
    ``nans`` is that of :func:`verify`. A model is read and run in a separate process; ``timeout``
    is the limit in seconds for reading it, and for each runtime.

    Raises :class:`CannotVerify` if no verdict is possible: a package is missing, a runtime fails or
    is not done in time, an input does not fit, or the model is invalid or has no such node.
    """
    path = Path(path)
    if nans is not None and nans not in NANS:
        raise CannotVerify(f"nans: {not_accepted(nans, NANS)}")
    if isinstance(runtimes, str) or not runtimes:
        raise CannotVerify("runtimes is a sequence of at least one name, as ['onnxruntime']")
    with contextlib.ExitStack() as stack:
        opened = []
        for runtime in runtimes:
            adapter = open_runtime(runtime, timeout)
            stack.callback(adapter.close)
            opened.append(adapter)
        graph = _graph(path, timeout, stack)
        given = graph.bound(_arrays(inputs))
        rows = _Rows(graph, given, nans)
        for adapter in opened:
            rows.add(adapter)
    lacking = [*graph.lacking, *rows.lacking]
    if not rows.verdicts:
        raise CannotVerify(f"{path}: no verdict: {lacking[0]}")
    return ModelReport(str(path), tuple(rows.verdicts), tuple(lacking))


class _Rows:
    """The rows of a report, runtime by runtime."""

    def __init__(self, graph: Graph, given: Mapping[str, Array], nans: Nans | None) -> None:
        self._graph = graph
        self._given = given
        self._nans = nans
        #: Who ran the model, and the tensors that reached its nodes.
        self._reached: tuple[str, dict[str, Tensor]] | None = None
        self.verdicts: list[NodeVerdict] = []
        self.lacking: list[NodeLacking] = []

    def add(self, runtime: Runtime) -> None:
        """Judge every node by a runtime: in the model if it runs it, else by its own operator."""
        in_model = True
        try:
            source, tensors = self._graph.run(runtime, self._given, outputs=True)
        except NotTaken:
            in_model = False
            source, tensors = self._reached or self._graph.run(None, self._given, outputs=False)
        self._reached = self._reached or (source, tensors)
        for node in self._graph.nodes:
            operands, got, note = _operands(node, tensors), tensors.get(node.output), ""
            try:
                if not in_model or got is None:
                    got, note = alone(node, operands, runtime)
                verdict = verdict_of(node, operands, got, self._nans)
            except (NotTaken, NoRule) as error:
                why = NodeLacking(node.name, node.operator, error.detail, runtime.name)
                self.lacking.append(why)
            else:
                shape = operands[0].shape
                row = NodeVerdict(node, runtime.name, shape, in_model, source, verdict, note)
                self.verdicts.append(row)


def _operands(node: Node, tensors: Mapping[str, Tensor]) -> list[Tensor]:
    return [tensors[name] for name in node.inputs if name]


def _graph(path: Path, timeout: float, stack: contextlib.ExitStack) -> Graph:
    suffix = path.suffix.lower()
    if suffix not in MODELS:
        raise CannotVerify(f"{path} is not a model: the name of one ends in {', '.join(MODELS)}")
    if not path.is_file():
        raise CannotVerify(f"there is no file {path}")
    graph: Graph
    if (reader := MODELS[suffix]) is None:
        graph = DxDispatchGraph(path)
    else:
        graph = stack.enter_context(contextlib.closing(SeparateGraph(path, reader, timeout)))
    if not graph.nodes and not graph.lacking:
        raise CannotVerify(f"{path} has no node that rounds")
    return graph


def _arrays(inputs: Any) -> Mapping[str, Array] | Array:
    """The arrays of a caller, or of a file; raises :class:`CannotVerify`."""
    if isinstance(inputs, str | os.PathLike):
        return _read(Path(inputs))
    if isinstance(inputs, Mapping):
        return {str(name): np.asarray(array) for name, array in inputs.items()}
    return np.asarray(inputs)


def _read(path: Path) -> Mapping[str, Array] | Array:
    if path.exists() and not path.is_file():
        raise CannotVerify(f"{path} is not a file")
    try:
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            arrays = found if isinstance(found, np.ndarray) else {n: found[n] for n in found.files}
    except OSError as error:
        raise CannotVerify(f"{path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # of many classes: of zipfile, its decompressors, and NumPy
        why = first_line(error)
        raise CannotVerify(f"{path} is not a .npz or .npy file of numbers: {why}") from error
    for name, array in arrays.items() if isinstance(arrays, dict) else ():
        if not isinstance(array, np.ndarray):
            raise CannotVerify(f"{path} is not a .npz file of numbers: {name} is not a .npy file")
    return arrays
