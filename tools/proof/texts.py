"""What is proved: the product's texts and functions, by its public names. Nothing else imports it.

``edit`` changes a text before it is read, to plant a fault; the functions of NumPy's way and of
the reference are made again from the source of their module.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from itertools import permutations, product
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from tensor_round.contract.dtypes import BY_NAME, ROUNDABLE, DType
from tensor_round.contract.functions import Convert, Function, ReducePrecision, RoundToIntegral
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cpu import conversions as numpy_conversions
from tensor_round_service.backends.cpu import floats, narrow_floats
from tensor_round_service.backends.cpu.llvm import optimized, target_machine
from tensor_round_service.backends.cpu.llvm_conversions import LANES as LANES
from tensor_round_service.backends.cpu.llvm_conversions import conversion_text, is_supported
from tensor_round_service.backends.cpu.llvm_kernels import module_text
from tensor_round_service.backends.cuda.conversions import conversion_kernel, distinct
from tensor_round_service.backends.cuda.kernels import ROUND_KERNELS
from tensor_round_verify import reference

FLOATS = tuple(dtype for dtype in ROUNDABLE if dtype.is_float)
#: Types with fewer bits of exponent and fraction, as ``reduce_precision`` gets them: one as IEEE
#: 754 has it, one with fewer of one alone, and the least there is.
REDUCTIONS = ((5, 10), (8, 7), (2, 23), (11, 3), (1, 0))
Edit = Callable[[str], str]


class Case(NamedTuple):
    """What a text computes."""

    function: Function
    source: DType
    target: DType

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
        is_saturated = isinstance(function, Convert) and function.saturates
        return f"{words} saturated" if is_saturated else words

    @classmethod
    def named(cls, types: str, manner: str) -> Case:
        """The case of these words."""
        source, _, target = types.partition(" to ")
        direction, *words = manner.split()
        rounding = Rounding(direction)
        function: Function = RoundToIntegral(rounding)
        if target:
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


def unchanged(text: str) -> str:
    """The edit that plants nothing."""
    return text


def cuda_text(case: Case) -> str:
    """The functions of a GPU kernel: ``lanes`` rounds a ``word``, ``converted`` converts one."""
    if isinstance(case.function, RoundToIntegral):
        return ROUND_KERNELS[case.source, case.function.rounding].preamble
    return conversion_kernel(*case).preamble


def llvm_texts(dtype: DType) -> list[str]:
    """The module of a type, as it is written for processors that prefetch and for others."""
    return [module_text(dtype, prefetch=prefetch) for prefetch in (True, False)]


def has_llvm(case: Case) -> bool:
    """Whether LLVM has a text of a conversion."""
    return is_supported(*case)


def llvm_conversions(case: Case) -> list[str]:
    """The modules of a conversion, which convert :data:`LANES` elements at once."""
    return [conversion_text(*case, prefetch=prefetch) for prefetch in (True, False)]


def optimized_conversions(case: Case) -> list[str]:
    """The same after the passes."""
    return [str(optimized(text, target_machine())) for text in llvm_conversions(case)]


@cache
def optimized_texts(dtype: DType) -> list[str]:
    """The same after the passes that the service runs, for this processor."""
    return [str(optimized(text, target_machine())) for text in llvm_texts(dtype)]


def round_floats(case: Case, edit: Edit) -> Callable[[Any], None] | None:
    """NumPy's way to round a run of float32 or float64 in place; None for other types."""
    dtype, rounding = case.source, case.function.rounding
    if dtype.itemsize <= 2:
        return None
    module = _edited(floats, edit)
    return lambda run: module.round_floats(dtype.numpy, module.kernel(dtype, rounding), run)


def numpy_chain(case: Case, table: Any, edit: Edit = unchanged) -> list[Any] | None:
    """NumPy's steps to convert a wide type, without packing.

    None for types that are looked up. ``table`` makes what stands for a table of the results of
    the upper halves of float32.
    """
    if case.source.width <= 16:
        return None
    module = _numpy_conversions(edit)
    module.upper_table = table
    return [step for step in module.chain(*case) if step is not module.PACK]


@cache
def _numpy_conversions(edit: Edit) -> Any:
    """A module of its own, in which the tables can be replaced."""
    return _edited(numpy_conversions, edit, copied=True)


def round_words(case: Case, edit: Edit) -> Callable[[Any, Any], bool] | None:
    """NumPy's way to round words of two elements, if there is one: see ``narrow_floats``."""
    kernels: dict[Any, Callable[[Any, Any], bool]] = _edited(narrow_floats, edit).KERNELS
    return kernels.get((case.source, case.function.rounding))


def round_by_reference(case: Case, edit: Edit) -> Callable[[Any], Any]:
    """What the verifier's reference makes of a block of patterns."""
    module = _edited(reference, edit)
    dtype, rounding = case.source, case.function.rounding
    return lambda patterns: module.rounded_block(patterns, dtype.name, rounding)


def table_faults(case: Case, edit: Edit) -> list[int]:
    """The operands for which a look-up table differs from the reference; wide types have none."""
    dtype, rounding = case.source, case.function.rounding
    if dtype.itemsize > 2:
        return []
    table = _edited(narrow_floats, edit).entries_of_16_bits(dtype, rounding)
    every = np.arange(1 << 16, dtype="<u2")
    entries, operands = (_elements(words.view(dtype.bits), dtype) for words in (table, every))
    wrong = entries != reference.rounded(operands, dtype.name, rounding)
    return [int(operand) for operand in operands[wrong]]


def _elements(patterns: Any, dtype: DType) -> Any:
    """The elements in bytes or wider patterns."""
    return np.stack([patterns & 15, patterns >> 4], -1) if dtype.is_sub_byte else patterns


def _edited(module: ModuleType, edit: Edit, *, copied: bool = False) -> Any:
    if edit is unchanged and not copied:
        return module
    made = ModuleType(module.__name__)
    made.__package__ = module.__package__
    exec(compile(edit(inspect.getsource(module)), str(module.__file__), "exec"), made.__dict__)
    return made
