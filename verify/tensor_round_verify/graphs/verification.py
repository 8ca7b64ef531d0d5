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
from ..runtimes import TIMEOUT, NotSupported, Runtime, open_runtime
from ..runtimes.function import Function
from ..runtimes.model_tensors import Array, Tensor
from ..runtimes.runtime import NotLoaded, TimedOut, first_line
from .dxdispatch_graph import DxDispatchGraph
from .graph import Graph, Node, NodeLacking
from .judging import alone, verdict_of
from .outputs import OutputDifference, OutputVerdict, UnchangedRuns, differing
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

    Each node is judged on the tensor that reaches it when the model runs on ``inputs``, with its
    nodes' tensors as further outputs. Then the model runs as it is: its outputs are compared with
    the right ones, where they follow from nodes with a rule alone, else with those of the first
    run. ``path`` is an ONNX model (.onnx: Round, Ceil, Floor, Cast, CastLike, QuantizeLinear,
    DequantizeLinear), an OpenVINO IR (.xml: Round, Ceiling, Floor, Convert), or DxDispatch's JSON
    (.json: ELEMENT_WISE_ROUND). ``inputs`` are arrays by the names of the model's inputs, one array
    if there is one input, or the path of a .npz or .npy file.

    ``runtimes`` are names as for :func:`verify`, or functions. ONNX Runtime, ONNX's reference
    evaluator and OpenVINO run the model itself, with their default options. All others, those that
    cannot load the model, and all for DxDispatch's JSON, run their own operator on the tensor that
    reached the node. A runtime without the node's direction
    rounds in its first one. A function gets the direction if it has a parameter ``rounding``.
    ``nans`` is that of :func:`verify`. A model is read and run in a separate process; ``timeout``
    is the limit in seconds for reading it, and for each run.

    Raises :class:`CannotVerify` if no verdict is possible: a package is missing, each runtime fails
    or is not done in time, an input does not fit, or the model is invalid or has no such node.
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
    report = rows.report()
    if not (report.verdicts or report.outputs):
        if rows.errors:
            raise rows.errors[0]
        raise CannotVerify(f"{path}: no verdict: {report.lacking[0]}")
    return report


class _Rows:
    """The rows of a report, runtime by runtime."""

    def __init__(self, graph: Graph, given: Mapping[str, Array], nans: Nans | None) -> None:
        self._graph = graph
        self._given = given
        self._nans = nans
        #: Who ran the model, and the tensors that reached its nodes.
        self._reached: tuple[str, dict[str, Tensor]] | None = None
        self._verdicts: list[NodeVerdict] = []
        self._outputs: list[OutputVerdict] = []
        #: Of each judged output, the first runtime that gave it, and what it gave.
        self._first: dict[str, tuple[str, Tensor]] = {}
        self._differences: list[OutputDifference] = []
        self._lacking: list[NodeLacking] = []
        self._unjudged: list[NodeLacking] = []
        #: Of runtimes that could not run the model, or have no verdict.
        self.errors: list[CannotVerify] = []

    def report(self) -> ModelReport:
        """The report on all runtimes."""
        return ModelReport(
            str(self._graph.path),
            tuple(self._verdicts),
            (*self._graph.lacking, *self._lacking),
            tuple(self._outputs),
            self._graph.others,
            tuple(self._unjudged),
            tuple(self._differences),
        )

    def add(self, runtime: Runtime) -> None:
        """Judge the nodes and outputs by a runtime.

        If it does not run the model, it runs its own operator on what reached each node elsewhere.
        """
        before = len(self._verdicts), len(self._outputs), len(self._lacking)
        try:
            found = self._observed(runtime)
            if found:
                self._reached = self._reached or found
                self._judge_nodes(runtime, *found, in_model=True)
            else:
                self._reached = self._reached or self._graph.observed(None, self._given)
                self._judge_nodes(runtime, *self._reached, in_model=False)
        except CannotVerify as error:
            self._fail(runtime, error)
        else:
            own = self._verdicts[before[0] :]
            self._judge_outputs(runtime, found and found[1], own)
            if not own and len(self._outputs) == before[1]:
                why = self._lacking[before[2]].reason
                self._fail(runtime, CannotVerify(f"no verdict: {why}", f"no verdict: {why}"))

    def _observed(self, runtime: Runtime) -> tuple[str, dict[str, Tensor]] | None:
        """The tensors of the runtime's own run; None if it does not load the model."""
        try:
            return self._graph.observed(runtime, self._given)
        except NotSupported:
            return None
        except NotLoaded as error:
            self._fail(runtime, error)
            return None

    def _judge_nodes(
        self, runtime: Runtime, source: str, tensors: Mapping[str, Tensor], *, in_model: bool
    ) -> None:
        for node in self._graph.nodes:
            try:
                row = self._judged(node, runtime, source, tensors, in_model=in_model)
            except CannotVerify as error:
                why = NodeLacking(node.name, node.operator, error.reason, runtime.name)
                self._lacking.append(why)
                if isinstance(error, TimedOut):
                    raise
            else:
                self._verdicts.append(row)

    def _judged(
        self,
        node: Node,
        runtime: Runtime,
        source: str,
        tensors: Mapping[str, Tensor],
        *,
        in_model: bool,
    ) -> NodeVerdict:
        operands = [tensors[name] for name in node.inputs if name]
        got, note = tensors.get(node.output), ""
        if not in_model or got is None:
            got, note = alone(node, operands, runtime)
        verdict = verdict_of(node, operands, got, self._nans)
        right_alone = False
        if in_model and not verdict.right:
            right_alone = self._is_right_alone(node, operands, runtime)
        shape = operands[0].shape
        return NodeVerdict(node, runtime.name, shape, in_model, source, verdict, note, right_alone)

    def _is_right_alone(self, node: Node, operands: Sequence[Tensor], runtime: Runtime) -> bool:
        try:
            got = self._graph.alone(runtime, node, operands)
            return verdict_of(node, operands, got, self._nans).right
        except CannotVerify:
            return False

    def _judge_outputs(
        self,
        runtime: Runtime,
        tensors: Mapping[str, Tensor] | None,
        verdicts: Sequence[NodeVerdict],
    ) -> None:
        wrong = {row.node.name for row in verdicts if not (row.right or row.right_alone)}
        runs = UnchangedRuns(self._graph, runtime, self._given, self._nans, tensors, wrong)
        try:
            rows = runs.verdicts()
        except NotSupported:
            return
        except CannotVerify as error:
            self._fail(runtime, error)
            return
        self._lacking += [row for row in rows if isinstance(row, NodeLacking)]
        for row in rows:
            if isinstance(row, OutputVerdict):
                self._outputs.append(row)
                self._compare(row.output, runtime.name, runs.found[row.output])

    def _compare(self, output: str, runtime: str, got: Tensor) -> None:
        first, want = self._first.setdefault(output, (runtime, got))
        different = differing(got, want, self._nans)
        if different.any():
            counts = different.size, int(different.sum())
            self._differences.append(OutputDifference(output, (first, runtime), *counts))

    def _fail(self, runtime: Runtime, error: CannotVerify) -> None:
        self.errors.append(error)
        if runtime.name not in {row.runtime for row in self._unjudged}:
            self._unjudged.append(NodeLacking("the model", "", error.reason, runtime.name))


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
    if not graph.nodes:
        kinds = list(dict.fromkeys(row.operator for row in graph.lacking))
        if not kinds:
            raise CannotVerify(f"{path} has no node that rounds or converts")
        verb = "is" if len(kinds) == 1 else "are"
        raise CannotVerify(f"{path} has {', '.join(kinds)}, which {verb} not judged")
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
