"""What is expected of a dialect: the form of the data in ``dialects/``, one file a dialect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tensor_round as tr
from support.cases.array_cases import Array
from tensor_round.contract.dtypes import BY_NAME, AnyDType
from tensor_round.contract.operators.model import OperatorDescriptor
from tensor_round.contract.rounding import Rounding

Document = dict[str, Any]
#: Fields set in the dialect's example, at dotted paths; several documents with one outcome.
Changes = dict[str, Any] | list[dict[str, Any]]
#: A callable that must be refused, the place of its first fault, and a pattern of the message.
Refused = tuple[Callable[[], object], tuple[str | int, ...], str]

#: As a value of a change: the field is taken out.
ABSENT = object()


class Whole(str):
    """A message in full; a plain string is a part of one."""

    __slots__ = ()


@dataclass(frozen=True)
class Model:
    """The model of ``/v2``; of each version the datatypes and the ranks that it takes."""

    name: str
    input: str
    output: str
    mode_parameter: str | None
    versions: dict[str, tuple[str, str]]


@dataclass(frozen=True)
class Example:
    """Numbers that a specification gives, and the operator it gives them for.

    ``dtypes`` hold the numbers well enough to round as written; ``shapes`` are all of them.
    ``version`` and ``mode`` are those of the model of ``/v2``.
    """

    operator: tr.RoundOperator
    source: tuple[float, ...]
    result: tuple[float, ...]
    dtypes: tuple[str, ...]
    model: Model
    version: str
    mode: str | None = None
    shapes: tuple[tuple[int, ...], ...] = ()

    @property
    def parameters(self) -> dict[str, str]:
        """What a request to the model says of the mode."""
        return {} if self.mode is None else {str(self.model.mode_parameter): self.mode}

    def arrays(self, dtype: str) -> tuple[Array, Array]:
        """What goes in and what must come out."""
        kind = BY_NAME[dtype].numpy
        return np.array(self.source, kind), np.array(self.result, kind)


@dataclass(frozen=True, kw_only=True)
class DialectCases:
    """All that is expected of one dialect.

    ``example`` is that of the published contract, word for word; ``made`` is the same made in
    Python, and ``operator`` makes it on a tensor of a dtype and the sizes 2 and 3.

    ``accepted`` have what their calls are: attributes by dotted path, or a function of the call;
    None for the example's own call. ``refusals`` have a part of the message at each path.
    ``refused`` are wrong arguments. ``words`` are operators as one word, ``wrong_words`` have a
    part of the message, and ``spelling`` is the dialect's part of the sentence on all words.
    ``fields`` are worth replacing with anything.
    """

    example: Document
    made: OperatorDescriptor
    operator: tuple[tr.RoundOperator, AnyDType]
    dtypes: dict[str, str]
    modes: dict[str, Rounding]
    accepted: dict[str, tuple[Changes, dict[str, Any] | None]]
    refusals: dict[str, tuple[Changes, dict[str, str]]]
    refused: dict[str, Refused]
    words: dict[str, tr.RoundOperator]
    wrong_words: dict[str, str]
    spelling: str
    fields: tuple[str, ...]
    model: Model
    examples: dict[str, Example] = field(default_factory=dict)
