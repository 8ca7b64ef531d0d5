"""``numpy`` and ``cupy``: libraries with NumPy's functions."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import CannotVerify, NotTaken
from ..reference import FLOATS, Bits
from .runtime import RoundBits, failures_of, first_line, patterns, probed, values, version

FUNCTIONS = {
    "ties_to_even": "rint",
    "toward_zero": "trunc",
    "toward_positive": "ceil",
    "toward_negative": "floor",
}


class ArrayLibrary:
    """A library with NumPy's functions: ``rint``, ``trunc``, ``ceil``, ``floor``."""

    roundings = tuple(FUNCTIONS)

    def __init__(self, library: ModuleType, dtypes: tuple[str, ...], *, concurrent: bool) -> None:
        self.name = f"{library.__name__} {version(library)}"
        self.dtypes = dtypes
        self.concurrent = concurrent
        self._library = library

    def kernel(self, dtype: str, rounding: str) -> RoundBits:
        """Raises :class:`NotTaken` for integers, and for ties_to_away."""
        if dtype not in self.dtypes or rounding not in FUNCTIONS:
            raise NotTaken(f"it has no function for {dtype} {rounding}")
        function = getattr(self._library, FUNCTIONS[rounding])

        def kernel(bits: Bits) -> Bits:
            with failures_of(self.name, dtype), np.errstate(all="ignore"):
                result = self._host(function(self._library.asarray(values(bits, dtype))))
            return patterns(result, bits, dtype, self.name)

        return probed(kernel, dtype)

    def close(self) -> None:
        """Do nothing."""

    def _host(self, result: Any) -> npt.NDArray[Any]:  # an array of the library's kind
        return result if isinstance(result, np.ndarray) else result.get()


def open_numpy(_: str) -> ArrayLibrary:
    """NumPy, with the types of ml_dtypes."""
    return ArrayLibrary(np, tuple(FLOATS), concurrent=True)


def open_cupy(_: str) -> ArrayLibrary:
    """CuPy on the current device; raises :class:`CannotVerify` if there is none."""
    import cupy

    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise CannotVerify(f"cupy has no device here: {first_line(error)}") from None
    return ArrayLibrary(cupy, ("float16", "float32", "float64"), concurrent=False)
