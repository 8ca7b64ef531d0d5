"""What there is to prove: every function of every type, and what of it is compiled for GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from typing import NamedTuple

from tensor_round.contract.dtypes import BY_NAME, ROUNDABLE, DType
from tensor_round.contract.functions import (
    Convert,
    Function,
    Quantize,
    ReducePrecision,
    RoundToIntegral,
)
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cuda.conversions import distinct

FLOATS = tuple(dtype for dtype in ROUNDABLE if dtype.is_float)
#: Types with fewer bits of exponent and fraction, as ``reduce_precision`` gets them: one as IEEE
#: 754 has it, one with fewer of one alone, and the least there is.
REDUCTIONS = ((5, 10), (8, 7), (2, 23), (11, 3), (1, 0))


class Case(NamedTuple):
    """What a text computes."""

    function: Function
    source: DType
    target: DType

    @property
    def is_rounding(self) -> bool:
        """Whether it rounds to integers, and converts nothing."""
        return isinstance(self.function, RoundToIntegral)

    @property
    def types(self) -> str:
        """``float32``, or ``float32 to int8``."""
        if self.source is self.target:
            return self.source.name
        return f"{self.source.name} to {self.target.name}"

    @property
    def manner(self) -> str:
        """``ties_to_even``, ``ties_to_even saturated``, or ``ties_to_even 5 10``."""
        function, words = self.function, str(self.function.rounding)
        if isinstance(function, ReducePrecision):
            return f"{words} {function.exponent_bits} {function.mantissa_bits}"
        if isinstance(function, Quantize) and function.precision is not None:
            return f"{words} by {function.precision.name}"
        is_saturated = isinstance(function, Convert) and function.saturates
        return f"{words} saturated" if is_saturated else words

    @property
    def file_name(self) -> str:
        """The same for files: ``float32-to-int8.ties_to_even-saturated``."""
        return f"{self.types}.{self.manner}".replace(" ", "-")

    @classmethod
    def named(cls, types: str, manner: str) -> Case:
        """The case of these words."""
        source, _, target = types.partition(" to ")
        direction, *words = manner.split()
        rounding = Rounding(direction)
        function: Function = RoundToIntegral(rounding)
        if words[:1] == ["by"]:
            function = Quantize(rounding, BY_NAME[words[1]])
        elif target:
            function = Convert(rounding, saturates=words == ["saturated"])
        elif words:
            function = ReducePrecision(rounding, *map(int, words))
        return cls(function, BY_NAME[source], BY_NAME[target or source])


ROUNDINGS = tuple(
    Case(RoundToIntegral(rounding), dtype, dtype) for dtype in FLOATS for rounding in Rounding
)


def conversions() -> Iterator[Case]:
    """Every conversion, and some reductions of precision of every float."""
    for source, target in permutations(BY_NAME.values(), 2):
        functions = [Convert(*each) for each in product(Rounding, (False, True))]
        for function in dict.fromkeys(distinct(each, source, target) for each in functions):
            yield Case(function, source, target)
    floats = [dtype for dtype in BY_NAME.values() if dtype.is_float]
    for dtype, rounding, reduction in product(floats, Rounding, REDUCTIONS):
        reduced = ReducePrecision(rounding, *reduction)
        if not reduced.is_copy(dtype, dtype):
            yield Case(reduced, dtype, dtype)


def quantizations() -> Iterator[Case]:
    """Quotients in float32, rounded to the type of a scale, that become integers."""
    for kind, codes in product(("float32", "float16", "bfloat16"), BY_NAME.values()):
        if not codes.is_float and codes.width <= 16:
            yield Case(Quantize(precision=BY_NAME[kind]), BY_NAME["float32"], codes)


def compiled_conversions() -> Iterator[tuple[Case, int]]:
    """A conversion of each pair of types, and a reduction of each float, each with a turn.

    Functions and architectures take turns, so that each pair of them meets.
    """
    pairs: dict[tuple[DType, DType], list[Case]] = {}
    for case in conversions():
        pairs.setdefault((case.source, case.target), []).append(case)
    for number, cases in enumerate(pairs.values()):
        yield cases[number % len(cases)], number + number // len(BY_NAME)
