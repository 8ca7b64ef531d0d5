"""The kernels compiled by LLVM, for the processor that they run on (extra ``compiled``).

They are compiled and proved on a thread, some 0.3 s, during which LLVM does not hold the
interpreter's lock; NumPy rounds until then. llvmlite alone, without Numba, which takes
ten times as long and needs twice the memory for the same loops.
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

from tensor_round.dtypes import BY_NAME, DType
from tensor_round.rounding import Rounding

from .. import Bytes
from ..proof_patterns import patterns
from .backend import Rounder, rounder
from .llvm_kernels import SPLIT_BYTES, module_text

logger = logging.getLogger(__name__)

#: In the order in which they are most asked for.
DTYPES = tuple(
    BY_NAME[name]
    for name in ("float32", "float16", "bfloat16", "float64", "float8_e4m3fn", "float8_e5m2")
)

_LOOP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class CannotCompile(Exception):
    """Kernels cannot be made here; the message says why."""


class LlvmKernels:
    """Compiled ways of rounding; see :class:`~.cpu.Kernels`. Each is there once it is proved."""

    def __init__(self) -> None:
        self._rounders: dict[tuple[DType, Rounding], Rounder] = {}
        self._thread = threading.Thread(target=self._compile, name="tensor-round-llvm")
        self._thread.start()

    def get(self, dtype: DType, rounding: Rounding) -> Rounder | None:
        """The way for a type and a direction, if it is compiled by now."""
        return self._rounders.get((dtype, rounding))

    def __str__(self) -> str:
        version = ".".join(map(str, llvm.llvm_version_info))
        return f"compiled by LLVM {version} for {llvm.get_host_cpu_name()}"

    def wait(self) -> None:
        """Return when all of them are there that ever will be."""
        self._thread.join()

    def _compile(self) -> None:
        try:
            for dtype in DTYPES:
                for rounding, found in compiled(dtype).items():
                    self._rounders[dtype, rounding] = proved(found, dtype, rounding)
        except (CannotCompile, RuntimeError) as error:  # the latter is llvmlite's
            logger.warning("kernels: NumPy's (LLVM's cannot be used: %s)", error)


@cache
def llvm_kernels() -> LlvmKernels:
    """This process's kernels, which are compiled from the first call on."""
    return LlvmKernels()


def compiled(dtype: DType) -> dict[Rounding, Rounder]:
    """The kernels of a type, not proved yet. Raises :class:`CannotCompile`."""
    if sys.byteorder != "little":
        raise CannotCompile("tensors are little-endian, this processor is not")
    if not _may_run_new_code():
        raise CannotCompile("this process may not make memory executable")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        jit=True,
    )
    module = llvm.parse_assembly(module_text(dtype))
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return {rounding: _rounder(engine, dtype, rounding) for rounding in Rounding}


def proved(found: Rounder, dtype: DType, rounding: Rounding) -> Rounder:
    """The kernel, if it gives NumPy's bits. Raises :class:`CannotCompile`."""
    given = patterns(dtype)
    right, result = given.copy(), np.empty_like(given)
    rounder(dtype, rounding).round(right, right)
    found.round(given, result)
    if not np.array_equal(result, right):
        raise CannotCompile(f"{dtype.name} {rounding} differs from NumPy's")
    return found


def _rounder(engine: Any, dtype: DType, rounding: Rounding) -> Rounder:
    loop = _LOOP(engine.get_function_address(str(rounding)))
    return Rounder(partial(_run, loop, dtype.itemsize, engine), SPLIT_BYTES)


def _run(loop: Any, itemsize: int, _owner: Any, source: Bytes, target: Bytes) -> None:
    """Round without the interpreter's lock; ``_owner`` has the code."""
    if not target.size:
        return
    # A third of what ``target.ctypes.data`` costs; but for memory that may be written alone.
    to = ctypes.addressof(ctypes.c_char.from_buffer(target.data))
    loop(to if source is target else source.ctypes.data, to, target.size // itemsize)


def _may_run_new_code() -> bool:
    """Whether the system lets memory that was written be run: hardened ones need not.

    There LLVM would not fail, but jump into memory that cannot be run.
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
