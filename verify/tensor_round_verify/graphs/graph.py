"""A model as a graph: the nodes that round or convert, with the rules of their specifications."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensor_round.contract.errors import CannotVerify

from ..faulty_kernels import loses_by
from ..reference import FLOATS, INTEGER_WIDTHS
from ..runtimes import Runtime
from ..runtimes.tensors import Array, Tensor


@dataclass(frozen=True, slots=True)
class Rounding:
    """Rounds to integral values in a direction."""

    rounding: str


@dataclass(frozen=True, slots=True)
class Casting:
    """Casts floats to a narrower float type, ties to even."""

    target: str
    saturate: bool = False


@dataclass(frozen=True, slots=True)
class Quantizing:
    """ONNX's QuantizeLinear; one-dimensional scales are those of an axis.

    ``target`` is the type of its results if there is no zero point.
    """

    axis: int
    target: str = "uint8"


@dataclass(frozen=True, slots=True)
class Dequantizing:
    """ONNX's DequantizeLinear; one-dimensional scales are those of an axis."""

    axis: int


Rule = Rounding | Casting | Quantizing | Dequantizing


@dataclass(frozen=True, slots=True)
class Node:
    """A node: its name, its operator in words, its rule, and the names of its tensors.

    ``inputs`` are the operand, and for quantization scale and zero point; ``output`` is empty for
    an operator that no model runs.
    """

    name: str
    operator: str
    rule: Rule
    inputs: tuple[str, ...]
    output: str = ""


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
        return f"{self.operator}: not judged{who}: {self.why}"

    def as_data(self) -> dict[str, Any]:
        """The row as JSON values."""
        return {
            "node": self.node,
            "operator": self.operator,
            "runtime": self.runtime or None,
            "why": self.why,
        }


def row_of(
    name: str, operator: str, rule: Rule | str | None, inputs: Iterable[str], output: str
) -> Node | NodeLacking | None:
    """A node, or why it gets no verdict if there is a sentence for a rule; None without a rule."""
    if isinstance(rule, str):
        return NodeLacking(name, operator, rule)
    return None if rule is None else Node(name, operator, rule, tuple(inputs), output)


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
        self, path: Path, rows: Iterable[Node | NodeLacking | None], inputs: Sequence[Declared]
    ) -> None:
        self.path = path
        found = tuple(rows)
        self.nodes = tuple(row for row in found if isinstance(row, Node))
        self.lacking = tuple(row for row in found if isinstance(row, NodeLacking))
        self.inputs = tuple(inputs)

    @abc.abstractmethod
    def run(
        self, runtime: Runtime | None, given: Mapping[str, Array], *, outputs: bool
    ) -> tuple[str, dict[str, Tensor]]:
        """Run the model: the runtime's name, and its nodes' tensors, with ``outputs`` those too.

        Without a runtime it is run by one that runs every model of this kind. Raises
        :class:`NotTaken` if the runtime runs no such models, and :class:`CannotVerify` if it fails.
        """

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
            raise CannotVerify(f"the input {declared} is given as {array.dtype}")
    if declared.sizes is not None:
        sizes = [size for size in declared.sizes if size != 1]
        if sizes != [size for size in array.shape if size != 1]:
            raise CannotVerify(f"the input {declared} is given with shape {list(array.shape)}")
    return array


def cast_rule(source: str, target: str, *, saturate: bool) -> Casting | str | None:
    """The rule of a cast; a sentence if there is none here, None if nothing is rounded."""
    if source in FLOATS and target in FLOATS:
        return Casting(target, saturate) if loses_by(source, target) else None
    rounds_to_integers = source in FLOATS and target not in FLOATS and target != "bool"
    rounds_integers = (
        source in INTEGER_WIDTHS
        and target in FLOATS
        and INTEGER_WIDTHS[source] > FLOATS[target].fraction_bits + 1
    )
    if rounds_to_integers or rounds_integers:
        return f"no rule is known here for a cast from {source} to {target}"
    return None
