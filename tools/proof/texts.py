"""What is proved: the product's texts and functions, by its public names. Nothing else imports it.

``edit`` changes a text before it is read, to plant a fault; the functions of NumPy's way and of
the reference are made again from the source of their module.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from tensor_round.contract.dtypes import ROUNDABLE, DType
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cpu import floats, narrow_floats
from tensor_round_service.backends.cpu.llvm import optimized, target_machine
from tensor_round_service.backends.cpu.llvm_kernels import module_text
from tensor_round_service.backends.cuda.kernels import ROUND_KERNELS
from tensor_round_verify import reference

FLOATS = tuple(dtype for dtype in ROUNDABLE if dtype.is_float)
Edit = Callable[[str], str]


def unchanged(text: str) -> str:
    """The edit that plants nothing."""
    return text


def cuda_text(dtype: DType, rounding: Rounding) -> str:
    """The functions of a GPU kernel; ``lanes`` rounds a ``word``."""
    return ROUND_KERNELS[dtype, rounding].preamble


def llvm_texts(dtype: DType) -> list[str]:
    """The module of a type, as it is written for processors that prefetch and for others."""
    return [module_text(dtype, prefetch=prefetch) for prefetch in (True, False)]


@cache
def optimized_texts(dtype: DType) -> list[str]:
    """The same after the passes that the service runs, for this processor."""
    return [str(optimized(text, target_machine())) for text in llvm_texts(dtype)]


def round_floats(dtype: DType, rounding: Rounding, edit: Edit) -> Callable[[Any], None] | None:
    """NumPy's way to round a run of float32 or float64 in place; None for other types."""
    if dtype.itemsize <= 2:
        return None
    module = _edited(floats, edit)
    return lambda run: module.round_floats(dtype.numpy, module.kernel(dtype, rounding), run)


def round_words(dtype: DType, rounding: Rounding, edit: Edit) -> Callable[[Any, Any], bool] | None:
    """NumPy's way to round words of two elements, if there is one: see ``narrow_floats``."""
    kernels: dict[Any, Callable[[Any, Any], bool]] = _edited(narrow_floats, edit).KERNELS
    return kernels.get((dtype, rounding))


def round_by_reference(dtype: DType, rounding: Rounding, edit: Edit) -> Callable[[Any], Any]:
    """What the verifier's reference makes of a block of patterns."""
    module = _edited(reference, edit)
    return lambda patterns: module.rounded_block(patterns, dtype.name, rounding)


def table_faults(dtype: DType, rounding: Rounding, edit: Edit) -> list[int]:
    """The operands for which a look-up table differs from the reference; wide types have none."""
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


def _edited(module: ModuleType, edit: Edit) -> Any:
    if edit is unchanged:
        return module
    made = ModuleType(module.__name__)
    made.__package__ = module.__package__
    exec(compile(edit(inspect.getsource(module)), str(module.__file__), "exec"), made.__dict__)
    return made
