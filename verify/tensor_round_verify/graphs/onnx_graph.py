"""ONNX models: the tensors of rounding, casting, quantizing and dequantizing nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from operator import index
from pathlib import Path
from typing import Any

import onnx
import onnx.inliner
import onnx.numpy_helper

from tensor_round.contract.errors import CannotVerify
from tensor_round.contract.operators.dialects.onnx import NUMBERS
from tensor_round.contract.operators.importers.onnx_node import DEFAULT_DOMAINS, label

from ..runtimes import NotTaken, Runtime, open_runtime
from ..runtimes.runtime import RunsOnnx, first_line
from ..runtimes.tensors import Array, Tensor
from .graph import (
    Casting,
    Declared,
    Dequantizing,
    Graph,
    Node,
    NodeLacking,
    Quantizing,
    Rounding,
    Rule,
    cast_rule,
    row_of,
)

DIRECTIONS = {"Round": "ties_to_even", "Ceil": "toward_positive", "Floor": "toward_negative"}
UNARY = {*DIRECTIONS, "Cast"}
JUDGED = {*UNARY, "CastLike", "QuantizeLinear", "DequantizeLinear"}
_DTYPES = {number: dtype for dtype, number in NUMBERS.items()}


# Any: onnx has no annotations.
class OnnxGraph(Graph):
    """An ONNX model, read by the onnx package."""

    def __init__(self, path: Path) -> None:
        self._model = model = _loaded(path)
        self._types = _types(model)
        self._constants = {}
        for tensor in model.graph.initializer:
            with _invalid(path, f"initializer {tensor.name}"):
                if any(size < 0 for size in tensor.dims):
                    raise CannotVerify("it has a negative dimension")
                self._constants[tensor.name] = onnx.numpy_helper.to_array(tensor)
        rows: list[Node | NodeLacking | None] = []
        for node in model.graph.node:
            with _invalid(path, f"{node.op_type} {label(node)}".rstrip()):
                rows.append(self._read(node))
            rows += _inner(node, f"it is in the body of {label(node)}")
        inputs = [
            Declared((value.name,), _numpy_type(value))
            for value in model.graph.input
            if value.name not in self._constants
        ]
        super().__init__(path, rows, inputs)

    def run(
        self, runtime: Runtime | None, given: Mapping[str, Array], *, outputs: bool
    ) -> tuple[str, dict[str, Tensor]]:
        """Run it with every tensor of the nodes as an output; by default by the onnx package."""
        runtime = runtime or open_runtime("onnx-reference")
        if not isinstance(runtime, RunsOnnx):
            raise NotTaken("it runs operators here, not models")
        known = {**self._constants, **given}
        wanted = [name for node in self.nodes for name in node.inputs if name]
        wanted += [node.output for node in self.nodes] if outputs else []
        names = [name for name in dict.fromkeys(wanted) if name not in known]
        found = runtime.run_onnx(self._with_outputs(names), given, names) if names else {}
        constants = {name: Tensor.of(known[name]) for name in wanted if name in known}
        return runtime.name, {**constants, **found}

    def _with_outputs(self, names: list[str]) -> bytes:
        """The model with these outputs too; runtimes find their types themselves."""
        model = type(self._model)()
        model.CopyFrom(self._model)
        present = {value.name for value in model.graph.output}
        for name in names:
            if name not in present:
                model.graph.output.add().name = name
        try:
            serialized: bytes = model.SerializeToString()
        except ValueError as error:
            raise CannotVerify(f"{self.path} is too large: {first_line(error)}") from error
        return serialized

    def _read(self, node: Any) -> Node | NodeLacking | None:
        if node.op_type not in JUDGED:
            return None
        name = label(node)
        if node.domain not in DEFAULT_DOMAINS:
            return NodeLacking(name, node.op_type, f"it is of the domain {node.domain}")
        needed = 1 if node.op_type in UNARY else 2
        if len(node.input) < needed or not all(node.input[:needed]):
            raise CannotVerify(f"it needs {'an input' if needed == 1 else 'two inputs'}")
        if not any(node.output[:1]):
            raise CannotVerify("it needs an output")
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        rule: Rule | str | None
        operator = node.op_type
        if operator in DIRECTIONS:
            rule = Rounding(DIRECTIONS[operator])
        elif operator in ("Cast", "CastLike"):
            source = self._types.get(node.input[0], "")
            if operator == "Cast":
                if "to" not in attributes:
                    raise CannotVerify("it needs the attribute to")
                number = attributes["to"]
                target = _DTYPES.get(number, onnx.TensorProto.DataType.Name(number).lower())
            else:
                target = self._types.get(node.input[1], "")
            rule = _cast(source, target, bool(attributes.get("saturate", 1)))
            operator = f"Cast to {target}"
        elif attributes.get("block_size") or attributes.get("precision"):
            rule = "no rule is known here for block_size and precision"
        elif operator == "QuantizeLinear":
            target = _DTYPES.get(attributes.get("output_dtype", 0), "uint8")
            rule = Quantizing(index(attributes.get("axis", 1)), target)
        else:
            rule = Dequantizing(index(attributes.get("axis", 1)))
        # The second input of CastLike has a type alone.
        inputs = node.input[:1] if isinstance(rule, Casting) else node.input
        return row_of(name, operator, rule, inputs, node.output[0])


@contextlib.contextmanager
def _invalid(path: Path, what: str) -> Iterator[None]:
    """Raise :class:`CannotVerify` for any error, since onnx checks nothing of what it reads."""
    try:
        yield
    except Exception as error:  # of the classes that Python has for wrong values
        why = error.detail if isinstance(error, CannotVerify) else first_line(error)
        raise CannotVerify(f"{path} is not a valid model: {what}: {why}") from error


def _cast(source: str, target: str, saturate: bool) -> Casting | str | None:
    if not (source and target):
        return "onnx cannot infer the types of its operands"
    # Only types of 8 bits saturate.
    return cast_rule(source, target, saturate=saturate and target.startswith("float8"))


def _loaded(path: Path) -> Any:
    """The model with its external data, and with its functions in place."""
    try:
        model = onnx.load(path)
        return onnx.inliner.inline_local_functions(model) if model.functions else model
    except OSError:
        raise
    except Exception as error:  # of classes that the package does not publish
        raise CannotVerify(f"{path} is not an ONNX model: {first_line(error)}") from error


def _types(model: Any) -> dict[str, str]:
    """The types of values by their names, as far as onnx can infer them."""
    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except Exception:  # of several classes, and for models of more than 2 GiB
        graph = model.graph
    numbers = {tensor.name: tensor.data_type for tensor in graph.initializer}
    numbers |= {
        value.name: value.type.tensor_type.elem_type
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    return {name: _DTYPES.get(number, "other") for name, number in numbers.items() if number}


def _numpy_type(value: Any) -> Any:
    """The NumPy type of an input; None if it is not a tensor."""
    number = value.type.tensor_type.elem_type
    return onnx.helper.tensor_dtype_to_np_dtype(number) if number else None


def _inner(node: Any, why: str) -> Iterator[NodeLacking]:
    """The nodes in the bodies of a node, which is a loop or a branch."""
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                if inner.op_type in JUDGED - {"Cast", "CastLike"}:
                    yield NodeLacking(label(inner), inner.op_type, why)
                yield from _inner(inner, why)
