"""Kernels compiled by LLVM for this processor (extra ``compiled``).

A thread compiles and proves them in about 0.3 s; LLVM releases the GIL meanwhile, and NumPy
rounds until then. This uses llvmlite without Numba, which takes ten times as long and twice the
memory for the same loops.
"""

from __future__ import annotations

import ctypes
import logging
import mmap
import sys
import threading
from functools import cache, partial
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from tensor_round.contract.dtypes import BY_NAME, DType
from tensor_round.contract.functions import Function, RoundToIntegral
from tensor_round.contract.rounding import Rounding

from .. import Bytes
from ..proof import patterns
from .llvm_kernels import SPLIT_BYTES, module_text
from .loops import Loop, rounder

logger = logging.getLogger(__name__)

#: The order of compilation: the most common types first.
DTYPES = tuple(
    BY_NAME[name]
    for name in (
        "float32", "float16", "bfloat16", "float64", "float8_e4m3fn", "float8_e5m2",
        "float8_e4m3fnuz", "float8_e5m2fnuz", "float4_e2m1fn",
    )
)  # fmt: skip

#: AMD's processors since Zen. They follow a run of memory across pages: float32 and float64 take
#: up to a third longer if the kernels ask for the next page too. An Intel gained by that.
_PREFETCHES_BY_ITSELF = "znver"

_LOOP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class CannotCompile(Exception):
    """Kernels cannot be compiled on this machine; the message says why."""


class LlvmKernels:
    """The compiled kernels; see :class:`.backend.Kernels`. Each is available once it is proved."""

    def __init__(self) -> None:
        self._rounders: dict[tuple[DType, Rounding], Loop] = {}
        self._thread = threading.Thread(target=self._compile, name="tensor-round-llvm")
        self._thread.start()

    def get(self, function: Function, source: DType, _target: DType) -> Loop | None:
        """The kernel for a function and its types; None until it is proved."""
        if isinstance(function, RoundToIntegral):
            return self._rounders.get((source, function.rounding))
        return None

    def __str__(self) -> str:
        version = ".".join(map(str, llvm.llvm_version_info))
        return f"compiled by LLVM {version} for {llvm.get_host_cpu_name()}"

    def wait(self) -> None:
        """Wait until all kernels are compiled and proved, or compilation has failed."""
        self._thread.join()

    def _compile(self) -> None:
        try:
            for dtype in DTYPES:
                for rounding, found in compiled(dtype).items():
                    self._rounders[dtype, rounding] = proved(found, dtype, rounding)
        except (CannotCompile, RuntimeError) as error:  # llvmlite raises RuntimeError
            logger.warning("kernels: NumPy's (LLVM's cannot be used: %s)", error)


@cache
def llvm_kernels() -> LlvmKernels:
    """The kernels of this process; the first call starts their compilation."""
    return LlvmKernels()


def compiled(dtype: DType) -> dict[Rounding, Loop]:
    """Compile the kernels of a type, without a proof. Raises :class:`CannotCompile`."""
    if sys.byteorder != "little":
        raise CannotCompile("this processor is not little-endian")
    if not _may_execute_new_code():
        raise CannotCompile("this process may not make memory executable")
    machine = target_machine()
    prefetch = not llvm.get_host_cpu_name().startswith(_PREFETCHES_BY_ITSELF)
    module = optimized(module_text(dtype, prefetch=prefetch), machine)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return {rounding: _rounder(engine, dtype, rounding) for rounding in Rounding}


def target_machine() -> Any:
    """LLVM's description of this processor."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        jit=True,
    )


def optimized(text: str, machine: Any) -> Any:
    """The module of a text after LLVM's passes: what becomes machine code."""
    module = llvm.parse_assembly(text)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    return module


def proved(found: Loop, dtype: DType, rounding: Rounding) -> Loop:
    """Return the kernel if it gives NumPy's bits, else raise :class:`CannotCompile`."""
    operands = patterns(dtype)
    expected, result = operands.copy(), np.empty_like(operands)
    count = operands.size // dtype.itemsize
    rounder(dtype, rounding).run(expected, expected, count)
    found.run(operands, result, count)
    if not np.array_equal(result, expected):
        raise CannotCompile(f"{dtype.name} {rounding} differs from NumPy's")
    return found


def _rounder(engine: Any, dtype: DType, rounding: Rounding) -> Loop:
    loop = _LOOP(engine.get_function_address(str(rounding)))
    return Loop(partial(_run, loop, engine), SPLIT_BYTES)


def _run(loop: Any, _owner: Any, source: Bytes, target: Bytes, count: int) -> None:
    """Round without the GIL; ``_owner`` keeps the machine code alive."""
    if not target.size:
        return
    # Takes a third of the time of ``target.ctypes.data``, but works for writable memory only.
    to = ctypes.addressof(ctypes.c_char.from_buffer(target.data))
    loop(to if source is target else source.ctypes.data, to, count)


def _may_execute_new_code() -> bool:
    """Whether written memory can be made executable; hardened systems forbid it.

    LLVM does not check this: the process would crash when it runs the code.
    """
    if sys.platform != "linux":
        return True
    page = mmap.mmap(-1, mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    readable_and_executable = mmap.PROT_READ | mmap.PROT_EXEC
    done: int = ctypes.CDLL(None).mprotect(
        ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), readable_and_executable
    )
    return done == 0
