"""ONNX models: the tensors of rounding, casting, quantizing and dequantizing nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from operator import index
from pathlib import Path
from typing import Any

import onnx
import onnx.inliner
import onnx.numpy_helper

from tensor_round.contract.errors import CannotVerify
from tensor_round.contract.operators.importers.onnx_node import DEFAULT_DOMAINS, label
from tensor_round.contract.operators.onnx_types import NUMBERS

from ..runtimes import NotSupported, Runtime, open_runtime
from ..runtimes.model_tensors import Array, Tensor
from ..runtimes.onnx_model import constant
from ..runtimes.runtime import RunsOnnx, first_line
from .graph import (
    Declared,
    Dequantizing,
    Graph,
    Moving,
    Node,
    Quantizing,
    Rounding,
    Rule,
    cast_rule,
    why_unjudged,
)

DIRECTIONS = {"Round": "ties_to_even", "Ceil": "toward_positive", "Floor": "toward_negative"}
UNARY = {*DIRECTIONS, "Cast"}
JUDGED = {*UNARY, "CastLike", "QuantizeLinear", "DequantizeLinear"}
#: Operators that pass their elements on in C order.
IN_ORDER = {"Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"}
RANDOM = {
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
}
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
        every: list[Node] = []
        for node in model.graph.node:
            with _invalid(path, f"{node.op_type} {label(node)}".rstrip()):
                every.append(self._read(node))
            every += _inner(node, f"it is in the body of {label(node)}")
        inputs = [
            Declared((value.name,), _numpy_type(value))
            for value in model.graph.input
            if value.name not in self._constants
        ]
        super().__init__(
            path, every, inputs, {value.name: value.name for value in model.graph.output}
        )

    def observed(
        self, runtime: Runtime | None, given: Mapping[str, Array]
    ) -> tuple[str, dict[str, Tensor]]:
        """Run it with every tensor of the nodes as an output; by default by the onnx package."""
        running = _running(runtime or open_runtime("onnx-reference"))
        known = {**self._constants, **given}
        names = [name for name in self.wanted if name not in known]
        found = running.run_onnx(self._with_outputs(names), given, names)
        constants = {name: Tensor.of(known[name]) for name in self.wanted if name in known}
        return running.name, {**constants, **found}

    def unchanged(
        self, runtime: Runtime, given: Mapping[str, Array], *, strict: bool = False
    ) -> dict[str, Tensor]:
        """Run the file."""
        return _running(runtime).run_onnx(self.path, given, list(self.outputs), strict=strict)

    def alone(self, runtime: Runtime, node: Node, operands: Sequence[Tensor]) -> Tensor:
        """Run a model of the node, whose scale and zero point are constants."""
        (own,) = (each for each in self._model.graph.node if node.output in each.output)
        model = type(self._model)()
        model.CopyFrom(self._model)
        model.graph.Clear()
        model.graph.name = node.name or "alone"
        model.graph.node.add().CopyFrom(own)
        names = [name for name in own.input if name]
        # The second input of CastLike has a type alone: that of the result.
        for name, tensor in zip(names, operands, strict=False):
            if name == names[0]:
                info = onnx.helper.make_tensor_value_info(name, NUMBERS[tensor.dtype], tensor.shape)
                model.graph.input.append(info)
            else:
                model.graph.initializer.append(constant(name, tensor))
        if own.op_type == "CastLike":
            like = Tensor.of_bytes(self._types[names[1]], (0,), b"")
            model.graph.initializer.append(constant(names[1], like))
        model.graph.output.add().name = own.output[0]
        given = {names[0]: operands[0].array()}
        found = _running(runtime).run_onnx(model.SerializeToString(), given, [own.output[0]])
        return found[own.output[0]]

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

    def _read(self, node: Any) -> Node:
        operator = node.op_type
        needed = {"CastLike": 2, "QuantizeLinear": 2, "DequantizeLinear": 2}.get(operator, 1)
        if operator in JUDGED and node.domain in DEFAULT_DOMAINS:
            if len(node.input) < needed or not all(node.input[:needed]):
                raise CannotVerify(f"it needs {'an input' if needed == 1 else 'two inputs'}")
            if not any(node.output[:1]):
                raise CannotVerify("it needs an output")
        inner = [own for graph in _bodies(node) for own in graph.node]
        reads = (*node.input, *(name for own in inner for name in own.input))
        about = label(node), operator
        more = tuple(filter(None, reads)), tuple(node.output)
        if node.domain not in DEFAULT_DOMAINS:
            is_judged = operator in JUDGED or why_unjudged(operator)
            why = f"it is of the domain {node.domain}" if is_judged else ""
            return Node(*about, None, *more, why)
        is_random = any(map(_is_random, (node, *inner)))
        rule, named = self._rule(node)
        if isinstance(rule, str):
            return Node(about[0], named, None, *more, rule)
        if rule is None:
            return Node(*about, None, *more, why_unjudged(operator), is_random)
        # The other inputs of a cast and of a reshape have a type or a shape alone.
        is_scaled = isinstance(rule, Quantizing | Dequantizing)
        inputs = tuple(node.input) if is_scaled else tuple(node.input[:1])
        return Node(about[0], named, rule, inputs, tuple(node.output))

    def _rule(self, node: Any) -> tuple[Rule | Moving | str | None, str]:
        """The rule of a node, or why it has none; and its operator in words."""
        operator = node.op_type
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if operator in DIRECTIONS:
            return Rounding(DIRECTIONS[operator]), operator
        if operator in IN_ORDER:
            return Moving(), operator
        if operator == "Transpose":
            return Moving(tuple(attributes.get("perm", ()))), operator
        if operator in ("Cast", "CastLike"):
            source = self._types.get(node.input[0], "")
            if operator == "Cast":
                if "to" not in attributes:
                    raise CannotVerify("it needs the attribute to")
                target = _dtype(attributes["to"])
            else:
                target = self._types.get(node.input[1], "")
            # Only types of 8 bits saturate.
            saturates = target.startswith("float8") and bool(attributes.get("saturate", 1))
            if not target:
                return "onnx cannot infer the type of its result", operator
            return cast_rule(source, target, saturate=saturates), f"Cast to {target}"
        if operator not in JUDGED:
            return None, operator
        axis, block_size = (
            index(attributes.get(*each)) for each in (("axis", 1), ("block_size", 0))
        )
        target, precision = (
            _dtype(attributes[name]) if attributes.get(name) else ""
            for name in ("output_dtype", "precision")
        )
        if operator == "DequantizeLinear":
            return Dequantizing(axis, target, block_size), operator
        saturate = bool(attributes.get("saturate", 1))
        return Quantizing(axis, target or "uint8", saturate, block_size, precision), operator


@contextlib.contextmanager
def _invalid(path: Path, what: str) -> Iterator[None]:
    """Raise :class:`CannotVerify` for any error, since onnx checks nothing of what it reads."""
    try:
        yield
    except Exception as error:  # of the classes that Python has for wrong values
        why = error.detail if isinstance(error, CannotVerify) else first_line(error)
        raise CannotVerify(f"{path} is not a valid model: {what}: {why}") from error


def _running(runtime: Runtime) -> RunsOnnx:
    if not isinstance(runtime, RunsOnnx):
        raise NotSupported("it runs operators here, not models")
    return runtime


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


def _dtype(number: int) -> str:
    """The type of a number in ONNX: one without a row by ONNX's own name."""
    return _DTYPES.get(number) or str(onnx.TensorProto.DataType.Name(number)).lower()


def _numpy_type(value: Any) -> Any:
    """The NumPy type of an input; None if it is not a tensor."""
    number = value.type.tensor_type.elem_type
    return onnx.helper.tensor_dtype_to_np_dtype(number) if number else None


def _is_random(node: Any) -> bool:
    # Dropout has its third input for training alone.
    return node.op_type in RANDOM or (node.op_type == "Dropout" and len(node.input) > 2)


def _bodies(node: Any) -> Iterator[Any]:
    """The graphs in a node, which is a loop or a branch, and those in their nodes."""
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            yield graph
            for inner in graph.node:
                yield from _bodies(inner)


def _inner(node: Any, why: str) -> Iterator[Node]:
    """The nodes that round or convert in the bodies of a node."""
    for graph in _bodies(node):
        for inner in graph.node:
            if inner.op_type in JUDGED or why_unjudged(inner.op_type):
                yield Node(label(inner), inner.op_type, None, why=why)
