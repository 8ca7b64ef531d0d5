"""``numpy`` and ``cupy``: libraries with NumPy's functions."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify

from ..conversions.conversion import Cast
from ..reference import FLOATS
from .forms import Values
from .runtime import FUNCTIONS, Adapter, PlainCasts, first_line, version

OPERATORS = {**FUNCTIONS, "ties_to_even": "rint"}


class ArrayLibrary(Adapter):
    """A library with NumPy's functions: ``rint``, ``trunc``, ``ceil``, ``floor``."""

    operators = OPERATORS

    def __init__(self, library: ModuleType, dtypes: tuple[str, ...], *, concurrent: bool) -> None:
        self.name = f"{library.__name__} {version(library)}"
        self.dtypes = dtypes
        self.concurrent = concurrent
        self._library = library

    def _rounds(self, dtype: str, rounding: str) -> Callable[[Values], Values]:
        function = getattr(self._library, self._operator(dtype, rounding))

        def rounded(x: Values) -> Values:
            result = function(self._library.asarray(x))  # an array of the library's kind
            found: Values = result if isinstance(result, np.ndarray) else result.get()
            return found

        return rounded


class NumPy(ArrayLibrary, PlainCasts):
    """NumPy, with the types of ml_dtypes."""

    def __init__(self, _: str, __: float) -> None:
        super().__init__(np, tuple(FLOATS), concurrent=True)

    @property
    def converts_by(self) -> str:
        """NumPy and ml_dtypes, with versions."""
        import ml_dtypes

        return f"{self.name}, ml_dtypes {version(ml_dtypes)}"

    def _casts(self, how: Cast) -> Callable[[Values], Values]:
        target = BY_NAME[how.target].numpy
        return lambda x: x.astype(target)


def open_cupy(_: str, __: float) -> ArrayLibrary:
    """CuPy on the current device; raises :class:`CannotVerify` if there is none."""
    import cupy

    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise CannotVerify(f"cupy has no device here: {first_line(error)}") from None
    return ArrayLibrary(cupy, ("float16", "float32", "float64"), concurrent=False)
