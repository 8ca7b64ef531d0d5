"""The GPU's kernels, their text as it is, compiled by a C++ compiler and run on this CPU."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tensor_round.contract.call import Call
from tensor_round_service.backends.cuda.kernels import (
    ROUND_KERNELS,
    STRIDED_COPY_KERNELS,
    KernelSource,
)
from tensor_round_service.backends.cuda.launches import launch_of
from tensor_round_service.backends.known_results import KNOWN

#: What CUDA has and C++ has not. A thread of a GPU is a turn of a loop here.
#: ``flushed`` sets what ``-ftz=true`` is on a GPU: subnormal operands and results become 0. A
#: GPU does that to float32 alone, this to float64 too, so it is not for float64's kernels.
_SHIM = """
#include <cstddef>
#include <cstring>
#define __device__
#define __forceinline__ inline
struct alignas(16) uint4 { unsigned int x, y, z, w; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };
static inline int __clz(int v) { return v ? __builtin_clz(v) : 32; }
static inline int __clzll(long long v) { return v ? __builtin_clzll(v) : 64; }
template <typename To, typename From> static inline To same_bits(const From from) {
  static_assert(sizeof(To) == sizeof(From), "one width");
  To to; std::memcpy(&to, &from, sizeof to); return to;
}
static inline unsigned int __byte_perm(unsigned int a, unsigned int b, unsigned int selector) {
  const unsigned long long bytes = (unsigned long long)b << 32 | a;
  unsigned int result = 0;
  for (int k = 0; k < 4; ++k)
    result |= (unsigned int)(bytes >> 8 * (selector >> 4 * k & 7) & 0xff) << 8 * k;
  return result;
}
static inline float __uint_as_float(unsigned int b) { return same_bits<float>(b); }
static inline unsigned int __float_as_uint(float v) { return same_bits<unsigned int>(v); }
static inline double __dmul_rn(double x, double y) { return x * y; }
static inline double __longlong_as_double(long long b) { return same_bits<double>(b); }
static inline long long __double_as_longlong(double v) { return same_bits<long long>(v); }

#if defined(__x86_64__)
#include <xmmintrin.h>
static unsigned long long get_mode() { return _mm_getcsr(); }
static void set_mode(unsigned long long mode) { _mm_setcsr((unsigned)mode); }
static const unsigned long long FLUSH = 0x8040;  // flush-to-zero, denormals-are-zero
#elif defined(__aarch64__)
static unsigned long long get_mode() {
  unsigned long long mode; asm volatile("mrs %0, fpcr" : "=r"(mode)); return mode;
}
static void set_mode(unsigned long long mode) { asm volatile("msr fpcr, %0" :: "r"(mode)); }
static const unsigned long long FLUSH = 1ull << 24;
#endif
"""

#: The arguments are those of CuPy's kernel, its size, and whether it flushes.
_FUNCTION = """
namespace in_{name} {{
{preamble}
static __attribute__((noinline)) void loop({parameters}, long long size) {{
  for (ptrdiff_t i = 0; i < size; ++i) {{ {operation} }}
}}
}}
extern "C" void {name}({parameters}, long long size, long long flushed) {{
  const unsigned long long mode = get_mode();
  if (flushed) set_mode(mode | FLUSH);
  in_{name}::loop({arguments}, size);
  set_mode(mode);
}}
"""
#: What the types of arrays' elements are in C.
_TYPES = {
    "uint8": "unsigned char",
    "int32": "int",
    "uint32": "unsigned int",
    "int64": "long long",
    "float32": "float",
}
#: PTX's operations of float32 that no option of its compiler changes, and C's.
_PTX = re.compile(
    r'asm\("(div|mul)\.rn\.f32 %0, %1, %2;" : "=f"\((\w+)\) : "f"\((\w+)\), "f"\((\w+)\)\)'
)
_MARKS = {"div": "/", "mul": "*"}

#: No option here may change what an addition gives; views of bytes as words are meant.
_OPTIONS = (
    "-O2",
    "-w",
    "-std=c++17",
    "-shared",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
)

NO_COMPILER = "needs a C++ compiler (g++, clang++, or the one that CXX names)"


def compiler() -> str | None:
    """The C++ compiler, if there is one."""
    named = os.environ.get("CXX")
    return next(filter(None, map(shutil.which, [named] if named else ["g++", "clang++"])), None)


def _text(kernel: KernelSource) -> str:
    given = [each.split() for each in f"{kernel.inputs}, {kernel.outputs}".split(", ")]
    return _FUNCTION.format(
        name=kernel.name,
        preamble=_PTX.sub(_in_c, kernel.preamble),
        operation=kernel.operation,
        parameters=", ".join(
            f"{_TYPES[kind[-1]]}* {name}" if kind[0] == "raw" else f"long long {name}"
            for *kind, name in given
        ),
        arguments=", ".join(name for *_, name in given),
    )


def _in_c(operation: re.Match[str]) -> str:
    name, result, left, right = operation.groups()
    return f"{result} = {left} {_MARKS[name]} {right}"


#: Where what was compiled stays: a service on this CPU as its device is a process of its own.
_KEPT = Path(__file__).parents[3] / "build" / "host_kernels"


def kernel_of(call: Call) -> KernelSource:
    """The kernel of a call."""
    scale = None if call.parameters is None else call.parameters.scale.dtype
    return launch_of(call.function, call.input.dtype, call.output.dtype, 1, scale).kernel


#: What all devices run: other kernels are compiled when they are wanted.
_COMMON = (
    *ROUND_KERNELS.values(),
    *STRIDED_COPY_KERNELS.values(),
    *map(kernel_of, (known.call for known in KNOWN[1:])),
)


def _compile(command: list[str], source: str, binary: Path) -> None:
    with tempfile.TemporaryDirectory(dir=_KEPT) as folder:
        text, whole = Path(folder) / "kernels.cpp", Path(folder) / "kernels.so"
        text.write_text(source)
        subprocess.run([*command, "-o", whole, text], check=True)
        whole.replace(binary)  # at once, so that none is a half


@cache
def library(kernels: tuple[KernelSource, ...] = _COMMON) -> ctypes.CDLL:
    """Kernels as C functions of their names: the same text, the same arithmetic."""
    found = compiler()
    assert found is not None, NO_COMPILER
    source = _SHIM + "".join(map(_text, kernels))
    made_of = "\n".join([found, *_OPTIONS, source])
    binary = _KEPT / f"{hashlib.sha256(made_of.encode()).hexdigest()}.so"
    _KEPT.mkdir(parents=True, exist_ok=True)
    # Of several processes that want it, one compiles.
    with open(binary.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.exists():
            _compile([found, *_OPTIONS], source, binary)
    return ctypes.CDLL(str(binary))


_TOGETHER: dict[KernelSource, tuple[KernelSource, ...]] = dict.fromkeys(_COMMON, _COMMON)


def compile_together(kernels: Iterable[KernelSource]) -> None:
    """Have these kernels in one library, which takes less time than one library each."""
    together = tuple(kernels)
    _TOGETHER.update(dict.fromkeys(together, together))


def run(kernel: KernelSource, *arguments: int, flushed: bool = False) -> None:
    """Run a kernel on host addresses and numbers; it lets the interpreter go meanwhile."""
    function = getattr(library(_TOGETHER.get(kernel, (kernel,))), kernel.name)
    function(*map(ctypes.c_longlong, (*arguments, flushed)))
