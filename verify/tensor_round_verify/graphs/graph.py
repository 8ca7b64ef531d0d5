"""A model as a graph: the nodes that round or convert, with the rules of their specifications."""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensor_round.contract.errors import CannotVerify

from ..reference import WIDTHS
from ..runtimes import NotSupported, Runtime
from ..runtimes.model_tensors import Array, Tensor


@dataclass(frozen=True, slots=True)
class Rounding:
    """Rounds to integral values in a direction."""

    rounding: str


@dataclass(frozen=True, slots=True)
class Casting:
    """Casts floats to a float type, ties to even."""

    target: str
    saturate: bool = False


@dataclass(frozen=True, slots=True)
class Quantizing:
    """ONNX's QuantizeLinear; scales are those of an axis, or there of blocks of ``block_size``.

    ``target`` is the type of its results if there is no zero point. Without ``precision`` quotients
    have the scale's type.
    """

    axis: int
    target: str = "uint8"
    saturate: bool = True
    block_size: int = 0
    precision: str = ""


@dataclass(frozen=True, slots=True)
class Dequantizing:
    """ONNX's DequantizeLinear, likewise; without a ``target`` its results have the scale's type."""

    axis: int
    target: str = ""
    block_size: int = 0


@dataclass(frozen=True, slots=True)
class Moving:
    """Passes its elements on, in C order or with its dimensions in another ``order``.

    An empty order reverses the dimensions.
    """

    order: tuple[int, ...] | None = None


Rule = Rounding | Casting | Quantizing | Dequantizing
#: Words in the names of operators that quantize.
_QUANTIZERS = ("quantize", "qlinear", "fakeconvert")


@dataclass(frozen=True, slots=True)
class Node:
    """A node: its name, its operator in words, its rule, and the names of its tensors.

    With a rule, ``inputs`` are the operand, and for quantization scale and zero point, and the
    first of the ``outputs`` is the result. A node that rounds, but has no rule here, has ``why``.
    An operator that no model runs has no outputs, and a node in the body of another one neither.
    """

    name: str
    operator: str
    rule: Rule | Moving | None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    why: str = ""
    #: Whether its results are random.
    random: bool = False

    @property
    def output(self) -> str:
        """The name of the result; empty for an operator that no model runs."""
        return self.outputs[0] if self.outputs else ""

    @property
    def is_judged(self) -> bool:
        """Whether its results are compared with those of its rule."""
        return isinstance(self.rule, Rule)


@dataclass(frozen=True, slots=True)
class NodeLacking:
    """A node on which a runtime gets no verdict, and the reason; every runtime if none is named."""

    node: str
    operator: str
    why: str
    runtime: str = ""

    def __str__(self) -> str:
        return f"{self.node}, {self.reason}"

    @property
    def reason(self) -> str:
        """The operator, the runtime without a verdict on it, and the reason."""
        who = f" by {self.runtime}" if self.runtime else ""
        what = f"{self.operator}: " if self.operator else ""
        return f"{what}not judged{who}: {self.why}"

    def as_data(self) -> dict[str, Any]:
        """The row as JSON values."""
        return {**asdict(self), "runtime": self.runtime or None}


def why_unjudged(operator: str) -> str:
    """The reason for an operator without a rule, if its name says that it quantizes."""
    quantizes = any(word in operator.lower() for word in _QUANTIZERS)
    return "no rule is known here for this operator" if quantizes else ""


@dataclass(frozen=True, slots=True)
class Declared:
    """An input of the model: its names, the first in messages; its type and its sizes, if stated.

    An array may have more or fewer dimensions of size 1.
    """

    names: tuple[str, ...]
    dtype: np.dtype[np.generic] | None
    sizes: tuple[int, ...] | None = None

    def __str__(self) -> str:
        """The name, the type and the sizes."""
        sizes = "" if self.sizes is None else f" {list(self.sizes)}"
        return f"{self.names[0]} ({self.dtype}{sizes})" if self.dtype else self.names[0]


class Graph(abc.ABC):
    """A model in a file."""

    def __init__(
        self,
        path: Path,
        every: Iterable[Node],
        inputs: Sequence[Declared],
        outputs: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        #: All nodes, each behind those whose results it reads.
        self.every = tuple(every)
        self.nodes = tuple(node for node in self.every if node.is_judged)
        self.lacking = tuple(
            NodeLacking(node.name, node.operator, node.why) for node in self.every if node.why
        )
        #: How many nodes of each operator neither round nor convert.
        self.others = Counter(n.operator for n in self.every if not (n.is_judged or n.why))
        self.inputs = tuple(inputs)
        #: The names of the model's outputs, each with that of its tensor.
        self.outputs = dict(outputs or {})
        #: The operands and results of the nodes with a rule, and the model's outputs.
        self.wanted = tuple(
            dict.fromkeys(
                name
                for names in (
                    *((*node.inputs, node.output) for node in self.every if node.rule),
                    tuple(self.outputs.values()),
                )
                for name in names
                if name
            )
        )

    @abc.abstractmethod
    def observed(
        self, runtime: Runtime | None, given: Mapping[str, Array]
    ) -> tuple[str, dict[str, Tensor]]:
        """Run the model with the tensors ``wanted`` as outputs: the runtime's name, and those.

        Without a runtime it is run by one that runs every model
        of this kind. Raises :class:`NotSupported` if the runtime runs no such models,
        :class:`NotLoaded` if it cannot load this one, and :class:`CannotVerify` if it fails.
        """

    def unchanged(
        self, runtime: Runtime, given: Mapping[str, Array], *, strict: bool = False
    ) -> dict[str, Tensor]:
        """Run the model as it is: its outputs; ``strict`` with the runtime's strict options.

        Raises as :meth:`observed`.
        """
        raise NotSupported("it runs operators here, not models")

    def alone(self, runtime: Runtime, node: Node, operands: Sequence[Tensor]) -> Tensor:
        """The result of a model of this node alone; raises as :meth:`observed`."""
        raise NotSupported("it runs operators here, not models")

    def behind(self, output: str) -> tuple[Node, ...]:
        """The nodes on which an output depends, in order."""
        wanted, found = {self.outputs[output]}, []
        for node in reversed(self.every):
            if not wanted.isdisjoint(node.outputs):
                wanted.update(node.inputs)
                found.append(node)
        return tuple(reversed(found))

    def bound(self, given: Mapping[str, Array] | Array) -> dict[str, Array]:
        """The arrays of a caller by the first names of the inputs; raises :class:`CannotVerify`."""
        wanted = ", ".join(map(str, self.inputs))
        if not isinstance(given, Mapping):
            if len(self.inputs) != 1:
                told = f"{self.path} has {len(self.inputs)} inputs ({wanted})"
                raise CannotVerify(f"{told}: give them by name, as in a .npz file")
            given = {self.inputs[0].names[0]: given}
        known = {name for declared in self.inputs for name in declared.names}
        if others := [name for name in given if name not in known]:
            raise CannotVerify(f"{self.path} has no input {others[0]}; it has {wanted or 'none'}")
        found = {}
        for declared in self.inputs:
            arrays = [given[name] for name in declared.names if name in given]
            if not arrays:
                raise CannotVerify(
                    f"{self.path} needs {declared}; got {', '.join(given) or 'none'}"
                )
            found[declared.names[0]] = _fitting(declared, arrays[0])
        return found


def _fitting(declared: Declared, array: Array) -> Array:
    """The array in the type of the input, if its elements have that type already."""
    own = declared.dtype
    if own is not None and array.dtype != own:
        # .npy files have no name for ml_dtypes' types, and the byte order may be the other.
        if array.dtype.kind == "V" and array.dtype.itemsize == own.itemsize:
            array = array.view(own)
        elif array.dtype.newbyteorder("=") == own:
            array = array.astype(own)
        else:
            raise CannotVerify(f"the input {declared.names[0]} must be {own}, got {array.dtype}")
    if declared.sizes is not None:
        sizes = [size for size in declared.sizes if size != 1]
        if sizes != [size for size in array.shape if size != 1]:
            raise CannotVerify(f"the input {declared} got the shape {list(array.shape)}")
    return array


def cast_rule(source: str, target: str, *, saturate: bool) -> Casting | str:
    """The rule of a cast, or a sentence if there is none; a ``source`` may be unknown."""
    if (not source or source in WIDTHS) and target in WIDTHS:
        return Casting(target, saturate)
    return f"no rule is known here for a cast from {source or 'another type'} to {target}"
