"""What is proved: the product's texts and functions, by its public names. Nothing else imports it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensor_round.contract.dtypes import DTYPES, DType
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cpu.floats import kernel, round_floats
from tensor_round_service.backends.cpu.floats16 import KERNELS
from tensor_round_service.backends.cpu.llvm import optimized, target_machine
from tensor_round_service.backends.cpu.llvm_kernels import module_text
from tensor_round_service.backends.cpu.tables import entries_of_16_bits
from tensor_round_service.backends.cuda.kernels import ROUND_KERNELS
from tensor_round_verify.reference import all_patterns, rounded, rounded_block

FLOATS = tuple(dtype for dtype in DTYPES if dtype.is_float)


def cuda_text(dtype: DType, rounding: Rounding) -> str:
    """The functions of a GPU kernel; ``lanes`` rounds a word."""
    return ROUND_KERNELS[dtype, rounding].preamble


def llvm_text(dtype: DType) -> str:
    """The module of a type, as it is written."""
    return module_text(dtype, prefetch=True)


def optimized_text(text: str) -> str:
    """A module after the passes that the service runs, for this processor."""
    return str(optimized(text, target_machine()))


def round_as_numpy(dtype: DType, rounding: Rounding, run: Any) -> None:
    """Round a run of float32 or float64 in place, as NumPy's backend does."""
    round_floats(dtype.numpy, kernel(dtype, rounding), run)


#: (dtype, rounding) -> a function that rounds words of two elements, with scratch memory.
ROUND_WORDS: dict[tuple[DType, Rounding], Any] = dict(KERNELS)


def reference(dtype: DType, rounding: Rounding, patterns: Any) -> Any:
    """A block of patterns as the verifier's reference rounds it."""
    return rounded_block(patterns, dtype.name, rounding)


def table_faults(dtype: DType, rounding: Rounding) -> int:
    """How many bytes of the look-up table differ from the reference's."""
    entries = entries_of_16_bits(dtype, rounding).view(dtype.bits)
    operands = np.arange(1 << 16, dtype="<u2").view(dtype.bits)
    return int(np.count_nonzero(entries != rounded(operands, dtype.name, rounding)))
