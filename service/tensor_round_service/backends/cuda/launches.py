"""The kernel of each function of elements, and how it is launched."""

from __future__ import annotations

from dataclasses import dataclass

from tensor_round.contract.dtypes import DType
from tensor_round.contract.functions import Function, Linear, RoundToIntegral

from .conversions import conversion_kernel, elements
from .kernels import ROUND_KERNELS, KernelSource, run_size
from .quantization import linear_kernel


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel, its second argument, and the number of its threads."""

    kernel: KernelSource
    length: int
    threads: int


def launch_of(
    function: Function, source: DType, target: DType, count: int, scale: DType | None = None
) -> Launch:
    """The launch that applies a function to ``count`` elements; ``scale`` is the scales' type."""
    if isinstance(function, RoundToIntegral):
        nbytes = source.nbytes(count)
        return Launch(ROUND_KERNELS[source, function.rounding], nbytes, run_size(nbytes))
    threads = -(-count // elements(source, target))
    if isinstance(function, Linear):
        assert scale is not None
        return Launch(linear_kernel(function, source, scale, target), count, threads)
    return Launch(conversion_kernel(function, source, target), count, threads)
