"""Compile every kernel for every supported GPU architecture, without a GPU.

    python tools/compile_kernels.py [--all]

The source is what CuPy would compile at the first launch, header by header and option by
option; NVRTC needs neither device nor driver for it. Of quantization there are some kernels, or
all with ``--all``, which takes minutes. Exit status 1 if a kernel does not compile, or does not
move its elements 16 bytes at a time, or quantizes by other than IEEE 754's operations.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import cycle, permutations, product
from typing import Any

import cupy
from cupy._core import _carray, _kernel, _scalar, core
from cupy.cuda import nvrtc

from tensor_round.contract.dtypes import BY_NAME, DTYPES
from tensor_round.contract.functions import (
    Convert,
    Dequantize,
    FakeQuantize,
    Linear,
    Quantize,
    ReducePrecision,
)
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cpu.quantization import has_linear_text
from tensor_round_service.backends.cuda.conversions import conversion_kernel
from tensor_round_service.backends.cuda.kernels import (
    ROUND_KERNELS,
    STRIDED_COPY_KERNELS,
    KernelSource,
)
from tensor_round_service.backends.cuda.quantization import linear_kernel
from tensor_round_service.backends.devices import DeviceMissing
from tensor_round_service.backends.select import open_cupy

#: T4; A100; H100 and H200; B200: the first of each generation.
ARCHITECTURES = (75, 80, 90, 100)

#: Conversions have one text: these types have each of its branches, and every width.
CONVERTED = ("float64", "float32", "float8_e8m0fnu", "float4_e2m1fn", "int64")

#: The functions of quantization, by what makes texts differ.
LINEAR: tuple[Linear, ...] = (
    Quantize(),
    Quantize(saturates=False),
    *(Quantize(precision=BY_NAME[name]) for name in ("float16", "float32")),
    Dequantize(),
    *(FakeQuantize(through=BY_NAME[name]) for name in ("int8", "uint16", "int4")),
)

#: CuPy's own numbers for kinds of arguments.
_ARRAY, _INDEXER, _SCALAR = 1, 2, 3

#: What CuPy adds to its options by itself, beside ``-ftz=true``, which cannot be undone.
_OPTIONS = ("--device-as-default-execution-space",)


def source(kernel: KernelSource) -> str:
    """The CUDA source as CuPy makes it for arrays of one byte or number and 32-bit indices."""
    made = cupy.ElementwiseKernel(
        kernel.inputs, kernel.outputs, kernel.operation, kernel.name, preamble=kernel.preamble
    )
    arguments = tuple(map(_argument, made.params))
    code: str = _kernel._get_elementwise_kernel_code(
        arguments, _kernel._TypeMap(()), made.params, made.operation, made.name, made.preamble
    )
    headers: list[str] = core._cupy_header_list
    return "".join(f"#include <{name}>\n" for name in headers) + code


def _argument(parameter: Any) -> Any:
    """What CuPy knows of an argument when it generates code: raw arrays have one element."""
    if parameter.name == "_ind":
        return _kernel._ArgInfo(_INDEXER, _carray.Indexer, None, 1, True, True)
    if parameter.raw:
        return _kernel._ArgInfo(_ARRAY, cupy.ndarray, parameter.dtype, 1, True, True)
    return _kernel._ArgInfo(_SCALAR, _scalar.CScalar, parameter.dtype, 0, True, True)


def compiled(code: str, architecture: int, *, flush: bool = True) -> tuple[bytes, str]:
    """Machine code, and the assembly that it was made of. Raises what NVRTC says.

    ``flush`` is False to keep subnormals, which CuPy never does.
    """
    flags = (f"-ftz={str(flush).lower()}", *_OPTIONS, f"-arch=sm_{architecture}")
    options = (*core.assemble_cupy_compiler_options(()), *flags)
    program = nvrtc.createProgram(code, "kernel.cu", (), ())
    try:
        nvrtc.compileProgram(program, options)
        return nvrtc.getCUBIN(program), nvrtc.getPTX(program).decode()
    except nvrtc.NVRTCError as error:
        raise RuntimeError(f"{error}\n{nvrtc.getProgramLog(program)}") from error
    finally:
        nvrtc.destroyProgram(program)


@dataclass(frozen=True)
class Outcome:
    """One kernel on one architecture."""

    name: str
    architecture: int
    nbytes: int
    fault: str | None


def attempt(job: tuple[KernelSource, int]) -> Outcome:
    """Compile a kernel; where it rounds, see how it reads and writes."""
    kernel, architecture = job
    code = source(kernel)
    try:
        binary, assembly = compiled(code, architecture)
        fault = None
        if kernel in ROUND_KERNELS.values():
            fault = narrow(assembly)
        elif "scales" in kernel.inputs:
            fault = inexact(assembly)
    except RuntimeError as error:
        return Outcome(kernel.name, architecture, 0, str(error))
    return Outcome(kernel.name, architecture, len(binary), fault)


def narrow(assembly: str) -> str | None:
    """Why this is no kernel that moves 16 bytes at a time."""
    for move in ("ld", "st"):
        if not re.search(rf"{move}\.global\.(v4\.\w32|v2\.\w64)", assembly):
            return f"no {move}.global of 16 bytes at a time"
    return None


#: Operations on floats that no option of CuPy's changes; an integer is never subnormal.
EXACT = {"div.rn.f32", "mul.rn.f32", "mul.rn.f64", "cvt.rn.f32.s32", "cvt.rn.f64.s32", "abs.f64"}
_OPERATION = re.compile(
    r"^\s*(?:@!?%\w+\s+)?((?!ld|st|mov|selp)[a-z]\w*\.[\w.]*f(?:32|64)[\w.]*)", re.M
)


def inexact(assembly: str) -> str | None:
    """What operations on floats there are that may be flushed, approximate or fused."""
    found = {*_OPERATION.findall(assembly)}
    if others := sorted(found - EXACT):
        return f"{', '.join(others)} on floats"
    return None if found & {"div.rn.f32", "mul.rn.f32", "mul.rn.f64"} else "no quotient or product"


def quantizations(*, every: bool) -> Iterator[KernelSource]:
    """The kernels of functions and types that have one, or one in so many."""
    types = product(LINEAR, *[DTYPES] * 3)
    found = dict.fromkeys(linear_kernel(*of) for of in types if has_linear_text(*of))
    yield from list(found)[:: 1 if every else 27]


def conversions() -> Iterator[KernelSource]:
    """A kernel for each pair of some types, in one direction after the other."""
    roundings = cycle(Rounding)
    for source, target in permutations(map(BY_NAME.__getitem__, CONVERTED), 2):
        yield conversion_kernel(Convert(next(roundings)), source, target)
    single = BY_NAME["float32"]
    yield conversion_kernel(ReducePrecision(Rounding.TIES_TO_EVEN, 5, 10), single, single)


def main() -> int:
    """Compile, and print a line a kernel."""
    began = time.perf_counter()
    kernels = [*ROUND_KERNELS.values(), *STRIDED_COPY_KERNELS.values(), *conversions()]
    kernels += quantizations(every="--all" in sys.argv[1:])
    with ProcessPoolExecutor() as workers:
        outcomes = list(workers.map(attempt, product(kernels, ARCHITECTURES), chunksize=8))
    sizes = {(outcome.name, outcome.architecture): outcome.nbytes for outcome in outcomes}
    print(f"{'bytes of machine code for':<64}", *(f"sm_{a:<4}" for a in ARCHITECTURES))
    for kernel in kernels:
        print(f"{kernel.name:<64}", *(f"{sizes[kernel.name, a]:<7}" for a in ARCHITECTURES))
    faults = [outcome for outcome in outcomes if outcome.fault]
    for outcome in faults:
        print(f"{outcome.name} for sm_{outcome.architecture}: {outcome.fault}", file=sys.stderr)
    print(
        f"kernels: {len(kernels)} for {len(ARCHITECTURES)} architectures by NVRTC "
        f"{'.'.join(map(str, nvrtc.getVersion()))}, {len(faults)} faults, "
        f"{time.perf_counter() - began:.0f} s"
    )
    try:
        print("here:", ", ".join(device.name for device in open_cupy(None, None)))
    except DeviceMissing as missing:
        print(f"here: {missing}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
