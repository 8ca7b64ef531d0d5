"""What is proved: the product's texts and functions, by its public names. Nothing else imports it.

``edit`` changes a text before it is read, to plant a fault; the functions of NumPy's way and of
the reference are made again from the source of their module.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from tensor_round.contract.dtypes import DType
from tensor_round.contract.functions import Quantize
from tensor_round_service.backends.cpu import conversions as numpy_conversions
from tensor_round_service.backends.cpu import floats, narrow_floats
from tensor_round_service.backends.cpu.llvm import optimized, target_machine
from tensor_round_service.backends.cpu.llvm_conversions import conversion_text, is_supported
from tensor_round_service.backends.cpu.llvm_kernels import module_text
from tensor_round_service.backends.cpu.llvm_loops import LANES as LANES
from tensor_round_service.backends.cuda.launches import launch_of
from tensor_round_service.backends.cuda.quantization import level_text
from tensor_round_verify import reference

from .cases import Case
from .ptx import Launch

Edit = Callable[[str], str]


def unchanged(text: str) -> str:
    """The edit that plants nothing."""
    return text


def cuda_text(case: Case) -> str:
    """The functions of a GPU kernel: ``lanes`` rounds a ``word``, ``converted`` converts one."""
    return launch_of(*case, 1).kernel.preamble


def cuda_codes(case: Case) -> str:
    """The function ``coded`` of a GPU kernel, of a quotient in float32 and a zero point."""
    assert isinstance(case.function, Quantize)
    text = level_text(case.function.precision or case.source, case.target)
    return f"namespace tensor_round {{{text}}}"


def launches(case: Case) -> Iterator[Launch]:
    """Launches of a GPU kernel: elements, what says how many, threads, and whether in place.

    They have whole carriers, with and without elements after them, and less than one carrier.
    """
    whole = next(n for n in range(1, 1 << 10) if launch_of(*case, n + 1).threads > 1)
    over = case.source.width == case.target.width
    for count in dict.fromkeys((5 * whole + whole - 1, 2 * whole, *range(1, min(whole, 3)))):
        for is_over in (False, True)[: 1 + over]:
            launch = launch_of(*case, count)
            yield Launch(count, launch.length, launch.threads, is_over)


def llvm_texts(dtype: DType) -> list[str]:
    """The module of a type, as it is written for processors that prefetch and for others."""
    return [module_text(dtype, prefetch=prefetch) for prefetch in (True, False)]


def has_llvm(case: Case) -> bool:
    """Whether LLVM has a text of a conversion."""
    return is_supported(*case)


def llvm_conversions(case: Case) -> list[str]:
    """The modules of a conversion, which convert :data:`LANES` elements at once.

    As they are written for processors that convert float16 and for others.
    """
    return [conversion_text(*case, prefetch=has, has_halves=has) for has in (True, False)]


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
