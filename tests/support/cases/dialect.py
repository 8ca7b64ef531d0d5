"""What is expected of an operator: the form of the data in ``dialects/``, one file a dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tensor_round as tr
from support.cases.array_cases import Array
from tensor_round.contract.dtypes import BY_NAME, AnyDType
from tensor_round.contract.functions import Convert
from tensor_round.contract.operators.operator import Kind
from tensor_round.contract.rounding import Rounding

Document = dict[str, Any]
#: Fields set in the dialect's example, at dotted paths; several documents with one outcome.
Changes = dict[str, Any] | list[dict[str, Any]]
#: What is set, and the call's attributes by dotted path, or functions of the call; None for the
#: example's own call.
Accepted = tuple[Changes, dict[str, Any] | None]
#: A field, or ``field[place of the fault]``, a value that it refuses, and a part of the message.
Refusal = tuple[str, Any, str]
#: What is set, and a part of the message at each path.
Broken = tuple[Changes, dict[str, str]]
#: A callable that must be refused, the place of its first fault, and a pattern of the message.
Refused = tuple[Callable[[], object], str, str]

#: As a value of a change: the field is taken out.
ABSENT = ...
#: The names of MLIR's types, which StableHLO has too.
MLIR_TYPES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2",
    "f8E4M3FNUZ": "float8_e4m3fnuz", "f8E5M2FNUZ": "float8_e5m2fnuz", "f4E2M1FN": "float4_e2m1fn",
}  # fmt: skip


def datatypes(dtypes: Iterable[str]) -> str:
    """The datatypes of a model that takes these types."""
    return ",".join(BY_NAME[name].oip or f"UINT8:{name}" for name in dtypes)


def conversion(source: str, target: str, *, saturates: bool = False) -> Convert:
    """What a cast of any dialect does: toward zero from a float to an integer, else to even."""
    to_integer = "int" in target and "int" not in source
    rounding = Rounding.TOWARD_ZERO if to_integer else Rounding.TIES_TO_EVEN
    return Convert(rounding, saturates)


def spelled(*values: Any, at: Sequence[str]) -> list[dict[str, Any]]:
    """Changes that set these fields to each of the values."""
    return [dict.fromkeys(at, value) for value in values]


def shapes(at: str, *sizes: list[int]) -> list[Accepted]:
    """Shapes that are accepted, by default those that any tensor may have."""
    chosen = sizes or ([], [0], [3, 0], [2] * 9, [1] * 32)
    return [({at: shape}, {"output.shape": tuple(shape)}) for shape in chosen]


class Whole(str):
    """A message in full; a plain string is a part of one."""

    __slots__ = ()


@dataclass(frozen=True)
class Model:
    """The model of ``/v2``; of each version the datatypes and the ranks that it takes.

    ``parameters`` are the inputs behind the operand, and ``quantized`` the names with the type of
    quantized numbers. With ``has_optional`` a zero point may be absent.
    """

    name: str
    input: str
    output: str
    mode_parameter: str | None
    versions: dict[str, tuple[str, str]]
    parameters: tuple[str, ...] = ()
    quantized: tuple[str, ...] = ()
    has_optional: bool = True


@dataclass(frozen=True)
class Example:
    """Numbers that a specification gives, and the mode and version of the operator that has them.

    ``dtypes`` hold the numbers well enough to round as written; ``shapes`` are all
    that they come in, if not a row alone. ``to`` and ``saturate`` are those of a cast.
    """

    source: tuple[float, ...]
    result: tuple[float, ...]
    dtypes: tuple[str, ...]
    mode: str = ""
    version: str = ""
    shapes: tuple[tuple[int, ...], ...] = ()
    to: str | None = None
    saturate: bool | None = None

    def arrays(self, dtype: str) -> tuple[Array, Array]:
        """What goes in and what must come out."""
        kinds = (BY_NAME[name].numpy for name in (dtype, self.to or dtype))
        source, result = (
            np.array(numbers, kind)
            for numbers, kind in zip((self.source, self.result), kinds, strict=True)
        )
        return source, result


def by_mode(
    numbers: dict[str, tuple[tuple[float, ...], tuple[float, ...]]], dtypes: tuple[str, ...]
) -> dict[str, Example]:
    """Examples by the mode that each is for."""
    return {mode: Example(*pair, dtypes, mode) for mode, pair in numbers.items()}


@dataclass(frozen=True, kw_only=True)
class OperatorCases:
    """All that is expected of one operator of a dialect.

    ``example`` is that of the published contract, word for word; ``operator`` makes it on a tensor
    of a dtype and the sizes 2 and 3; ``parameters`` are the scale and the zero point. ``word`` is
    the operator as one word, but for its attributes.

    ``unsigned`` are dtypes of names that have no sign, where the operation tells it.
    ``dtype_at`` and ``mode_at`` are the fields of its dtypes and modes, ``defaulted`` those of the
    example that may be absent. ``rounding`` is the direction without a mode. ``broken`` are
    refusals that need several fields, or have several faults; ``refused`` are wrong arguments.
    ``words`` are operators as one word, ``wrong_words`` have a part of the message, and
    ``spelling`` is the operator's part of the sentence on all words. ``optional`` fields are not in
    the example. With ``in_every_version`` the example is one of each version.
    ``taking`` makes an operator that takes a dtype, where an attribute tells it.
    """

    example: Document
    operator: tuple[tr.RoundOperator, AnyDType]
    parameters: tuple[tuple[str, list[int]], ...] = ()
    word: str = ""
    dtypes: dict[str, str]
    unsigned: dict[str, str] = field(default_factory=dict)
    modes: dict[str, Rounding] = field(default_factory=dict)
    rounding: Rounding = Rounding.TIES_TO_EVEN
    rounds_to_integral: bool = True
    dtype_at: tuple[str, ...] = ()
    mode_at: str = ""
    defaulted: Set[str] = frozenset()
    accepted: list[Accepted]
    refusals: list[Refusal]
    broken: list[Broken] = field(default_factory=list)
    refused: list[Refused]
    words: dict[str, tr.RoundOperator]
    wrong_words: dict[str, str] = field(default_factory=dict)
    spelling: str = ""
    optional: tuple[str, ...] = ()
    in_every_version: dict[str, Any] = field(default_factory=dict)
    taking: Callable[[str], tr.RoundOperator] | None = None
    model: Model
    examples: dict[str, Example] = field(default_factory=dict)

    @property
    def to(self) -> str | None:
        """The target of ``operator``, None if it is no cast."""
        return getattr(self.operator[0], "to", None) if self.kind is Kind.CAST else None

    @property
    def kind(self) -> Kind:
        """What the operator does."""
        return self.operator[0].kind
