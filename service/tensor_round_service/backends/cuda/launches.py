"""The kernel of each function of elements, and how it is launched."""

from __future__ import annotations

from dataclasses import dataclass

from tensor_round.contract.dtypes import DType
from tensor_round.contract.functions import Function, RoundToIntegral

from .conversions import conversion_kernel, elements
from .kernels import ROUND_KERNELS, KernelSource, run_size


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel, its second argument, and the number of its threads."""

    kernel: KernelSource
    length: int
    threads: int


def launch_of(function: Function, source: DType, target: DType, count: int) -> Launch:
    """The launch that applies a function to ``count`` elements."""
    if isinstance(function, RoundToIntegral):
        nbytes = source.nbytes(count)
        return Launch(ROUND_KERNELS[source, function.rounding], nbytes, run_size(nbytes))
    threads = -(-count // elements(source, target))
    return Launch(conversion_kernel(function, source, target), count, threads)
