"""``numpy`` and ``cupy``: libraries with NumPy's functions."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify

from ..conversions.conversion import Cast
from ..reference import FLOATS
from .forms import Arrays, Values
from .runtime import Adapter, NotTaken, RoundBits, first_line, plain, probed, version

FUNCTIONS = {
    "ties_to_even": "rint",
    "toward_zero": "trunc",
    "toward_positive": "ceil",
    "toward_negative": "floor",
}


class ArrayLibrary(Adapter):
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
        return probed(self._by_arrays(self._rounds(rounding), dtype), dtype)

    def arrays(self, kernel: RoundBits, dtype: str, rounding: str) -> Arrays:
        """The function, of arrays of any form."""
        return self._arrays_by(self._rounds(rounding), dtype)

    def _rounds(self, rounding: str) -> Callable[[Values], Values]:
        function = getattr(self._library, FUNCTIONS[rounding])

        def rounded(x: Values) -> Values:
            result = function(self._library.asarray(x))  # an array of the library's kind
            found: Values = result if isinstance(result, np.ndarray) else result.get()
            return found

        return rounded


class NumPy(ArrayLibrary):
    """NumPy, with the types of ml_dtypes."""

    def __init__(self, _: str) -> None:
        super().__init__(np, tuple(FLOATS), concurrent=True)

    @property
    def converts_by(self) -> str:
        """NumPy and ml_dtypes, with versions."""
        import ml_dtypes

        return f"{self.name}, ml_dtypes {version(ml_dtypes)}"

    def cast(self, how: Cast) -> RoundBits:
        """Cast by ``astype``."""
        plain(how)
        target = BY_NAME[how.target].numpy
        return self._by_arrays(lambda x: x.astype(target), how.source, how.target)


def open_cupy(_: str) -> ArrayLibrary:
    """CuPy on the current device; raises :class:`CannotVerify` if there is none."""
    import cupy

    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise CannotVerify(f"cupy has no device here: {first_line(error)}") from None
    return ArrayLibrary(cupy, ("float16", "float32", "float64"), concurrent=False)
