"""Kernels compiled by LLVM for this processor (extra ``compiled``).

A thread compiles and proves the common ones in about 0.3 s, and others when they are first asked
for; LLVM releases the GIL meanwhile, and NumPy computes until then. This uses llvmlite without
Numba, which takes ten times as long and twice the memory for the same loops.
"""

from __future__ import annotations

import ctypes
import itertools
import logging
import mmap
import sys
import threading
from collections import deque
from functools import cache, partial
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from tensor_round.contract.dtypes import BY_NAME, DType
from tensor_round.contract.functions import Function, RoundToIntegral
from tensor_round.contract.rounding import Rounding

from .. import Bytes
from ..proof import patterns, quantizations
from .granularity import Numbers
from .llvm_conversions import conversion_text, is_supported
from .llvm_kernels import SPLIT_BYTES, module_text
from .llvm_quantization import linear_text
from .loops import Loop, loop
from .parameters import Tile
from .quantization import Linear, Stage, has_linear_text

logger = logging.getLogger(__name__)

#: The types whose rounding to integral values is compiled at the start, the most common first.
COMMON = tuple(
    BY_NAME[name]
    for name in ("float32", "float16", "bfloat16", "float64", "float8_e4m3fn", "float8_e5m2")
)

#: What is compiled at most beside the common types, about 0.25 MiB each: callers choose it.
MOST_ASKED = 256

#: AMD's processors since Zen. They follow a run of memory across pages: float32 and float64 take
#: up to a third longer if the kernels ask for the next page too. An Intel gained by that.
_PREFETCHES_BY_ITSELF = "znver"

#: Numbers of libraries, whose names differ.
_numbers = itertools.count()

_LOOP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
#: Operands, results, rows, elements of a row, scales and zero points.
_ROWS = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_void_p,
)


class CannotCompile(Exception):
    """Kernels cannot be compiled on this machine; the message says why."""


#: What is compiled as one module: the five roundings of a type, or a function of these types.
Work = DType | tuple[Function, *tuple[DType, ...]]


class LlvmKernels:
    """The compiled kernels; see :class:`.backend.Kernels`. Each is available once it is proved."""

    def __init__(self) -> None:
        self._rounders: dict[tuple[DType, Rounding], Loop] = {}
        self._conversions: dict[tuple[Function, DType, DType], Loop] = {}
        self._stages: dict[tuple[Function, DType, DType, DType], Stage] = {}
        #: What was asked for.
        self._asked: set[Work] = set(COMMON)
        self._wanted: deque[Work] = deque(COMMON)
        #: Held while a thread takes what is wanted, or ends.
        self._lock = threading.Lock()
        self._is_usable = self._is_compiling = True
        self._thread = self._start()

    def get(self, function: Function, source: DType, target: DType) -> Loop | None:
        """The kernel for a function and its types; None until it is proved."""
        if isinstance(function, RoundToIntegral):
            return self._rounders.get((source, function.rounding))
        return self._conversions.get((function, source, target))

    def stage(self, function: Function, source: DType, scale: DType, target: DType) -> Stage | None:
        """The kernel of linear quantization; None until it is proved."""
        return self._stages.get((function, source, scale, target))

    def ask(self, function: Function, *types: DType) -> None:
        """Have a kernel compiled and proved, if there can be one, and there are not too many."""
        is_rounding = isinstance(function, RoundToIntegral)
        work: Work = types[0] if is_rounding else (function, *types)
        if work in self._asked or not (self._is_usable and _has_text(work)):
            return
        with self._lock:
            if work in self._asked or len(self._asked) >= len(COMMON) + MOST_ASKED:
                return
            self._asked.add(work)
            self._wanted.append(work)
            if not self._is_compiling:
                self._is_compiling = True
                self._thread = self._start()

    def __str__(self) -> str:
        version = ".".join(map(str, llvm.llvm_version_info))
        return f"compiled by LLVM {version} for {llvm.get_host_cpu_name()}"

    def wait(self) -> None:
        """Wait until all kernels asked for are compiled and proved, or compilation has failed."""
        self._thread.join()

    def _start(self) -> threading.Thread:
        thread = threading.Thread(target=self._compile, name="tensor-round-llvm")
        thread.start()
        return thread

    def _next(self) -> Work | None:
        with self._lock:
            self._is_compiling = bool(self._wanted)
            return self._wanted.popleft() if self._wanted else None

    def _compile(self) -> None:
        try:
            while (work := self._next()) is not None:
                self._add(work)
        except (CannotCompile, RuntimeError) as error:  # llvmlite raises RuntimeError
            self._is_usable = False
            logger.warning("kernels: NumPy's (LLVM's cannot be used: %s)", error)

    def _add(self, work: Work) -> None:
        """Compile and prove."""
        match work:
            case DType():
                for rounding, found in compiled(work).items():
                    key = RoundToIntegral(rounding), work, work
                    self._rounders[work, rounding] = proved(found, *key)
            case function, source, target:
                loop = compiled_conversion(function, source, target)
                self._conversions[work] = proved(loop, function, source, target)
            case function, source, scale, target:
                stage = compiled_stage(function, source, scale, target)
                self._stages[work] = proved_stage(stage, function, source, scale, target)


def _has_text(work: Work) -> bool:
    match work:
        case DType():
            return work.is_float
        case function, source, target:
            return is_supported(function, source, target)
        case function, source, scale, target:
            return has_linear_text(function, source, scale, target)
    return False


@cache
def llvm_kernels() -> LlvmKernels:
    """The kernels of this process; the first call starts their compilation."""
    return LlvmKernels()


def compiled(dtype: DType) -> dict[Rounding, Loop]:
    """Compile the kernels of a type, without a proof. Raises :class:`CannotCompile`."""
    library = _library(module_text(dtype, prefetch=_prefetches()), *map(str, Rounding))
    # Elements of 4 bits are rounded two at a time.
    together = 8 // dtype.width if dtype.is_sub_byte else 1
    return {rounding: _loop(library, str(rounding), dtype, together) for rounding in Rounding}


def compiled_conversion(function: Function, source: DType, target: DType) -> Loop:
    """Compile a conversion, without a proof. Raises :class:`CannotCompile`."""
    text = conversion_text(
        function, source, target, prefetch=_prefetches(), has_halves=_has_halves()
    )
    return _loop(_library(text, "convert"), "convert", target)


def compiled_stage(function: Function, source: DType, scale: DType, target: DType) -> Stage:
    """Compile a kernel of quantization, without a proof. Raises :class:`CannotCompile`."""
    text = linear_text(function, source, scale, target, prefetch=_prefetches())
    library = _library(text, "one", "each")
    return partial(_run_stage, _ROWS(library["one"]), _ROWS(library["each"]), library)


def _prefetches() -> bool:
    return not llvm.get_host_cpu_name().startswith(_PREFETCHES_BY_ITSELF)


def _has_halves() -> bool:
    """Whether one instruction converts float16: of every 64-bit ARM, of x86 with F16C."""
    features = llvm.get_host_cpu_features()
    return bool(features.get("f16c", llvm.get_default_triple().startswith(("aarch64", "arm64"))))


def _library(text: str, *names: str) -> Any:
    """The machine code of a text with these functions; it is freed with the last reference."""
    if sys.byteorder != "little":
        raise CannotCompile("this processor is not little-endian")
    if not _may_execute_new_code():
        raise CannotCompile("this process may not make memory executable")
    machine = target_machine()
    builder = llvm.JITLibraryBuilder().add_current_process()  # has memcpy
    builder.add_object_img(machine.emit_object(optimized(text, machine)))
    for name in names:
        builder.export_symbol(name)
    return builder.link(_compiler(), f"kernels-{next(_numbers)}")


@cache
def _compiler() -> Any:
    """LLVM's compiler at run time: one has all libraries of the process."""
    return llvm.create_lljit_compiler(target_machine())


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


def proved(found: Loop, function: Function, source: DType, target: DType) -> Loop:
    """Return the kernel if it gives NumPy's bits, else raise :class:`CannotCompile`."""
    operands = np.arange(256, dtype=np.uint8) if source.is_sub_byte else patterns(source)
    count = operands.size * 8 // source.width
    expected, result = (np.empty(target.nbytes(count), np.uint8) for _ in range(2))
    loop(function, source, target).run(operands, expected, count)
    found.run(operands, result, count)
    if not np.array_equal(result, expected):
        types = source.name if source is target else f"{source.name} to {target.name}"
        raise CannotCompile(f"{types} {function.rounding} differs from NumPy's")
    return found


def proved_stage(
    found: Stage, function: Function, source: DType, scale: DType, target: DType
) -> Stage:
    """Return the kernel if it gives NumPy's bits, else raise :class:`CannotCompile`."""
    for call, payload in quantizations(function, source, scale, target):
        made = call.output
        expected, result = (np.empty(made.byte_length, np.uint8) for _ in range(2))
        for stage, into in ((None, expected), (found, result)):
            Linear(call, payload, stage).run(payload, into, made.element_count)
        if not np.array_equal(result, expected):
            types = f"{source.name} to {target.name}"
            raise CannotCompile(f"{types} by {scale.name} differs from NumPy's")
    return found


def _loop(library: Any, name: str, target: DType, together: int = 1) -> Loop:
    """The loop of a function that counts groups of so many elements."""
    function = _LOOP(library[name])
    return Loop(partial(_run, function, library, target.is_sub_byte, together), SPLIT_BYTES)


def _run(
    function: Any,
    _owner: Any,
    has_pairs: bool,
    together: int,
    source: Bytes,
    target: Bytes,
    count: int,
) -> None:
    """Compute without the GIL; ``_owner`` keeps the machine code alive."""
    if not target.size:
        return
    # Takes a third of the time of ``target.ctypes.data``, but works for writable memory only.
    to = ctypes.addressof(ctypes.c_char.from_buffer(target.data))
    groups = -(-count // together)
    function(to if source is target else source.ctypes.data, to, groups)
    if has_pairs and count & 1:
        target[-1] &= 0x0F


def _run_stage(
    one: Any, each: Any, _owner: Any, elements: Numbers, tile: Tile, out: Numbers
) -> None:
    """Make the results of a tile without the GIL; ``_owner`` keeps the machine code alive."""
    scale, point = tile.scale(np.float32), tile.shift()
    rows, columns = scale.shape
    parameters = scale.ctypes.data, point.ctypes.data
    places = elements.ctypes.data, out.ctypes.data
    if columns == 1:
        one(*places, rows, elements.size // rows, *parameters)
    else:
        each(*places, elements.size // columns, columns, *parameters)


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
