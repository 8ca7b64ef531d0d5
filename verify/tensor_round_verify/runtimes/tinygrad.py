"""``tinygrad[:DEVICE]``: tinygrad's rounding and casts, by the kernels that it compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tinygrad
from tinygrad import Device, Tensor, dtypes

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify

from ..conversions.conversion import Cast
from .forms import Form, Values
from .runtime import FUNCTIONS, PlainCasts, check_types, first_line, version


# tinygrad's tensors have annotations that this package cannot see.
class Tinygrad(PlainCasts):
    """Tinygrad on one device; its cache of kernels is a database of one thread."""

    dtypes = ("float16", "bfloat16", "float32", "float64")
    operators = FUNCTIONS
    concurrent = False
    forms = Form.LENGTH | Form.RANK
    # It compiles each shape.
    slow = True

    def __init__(self, device: str, _: float) -> None:
        def opened() -> str:
            name: str = device or Device.DEFAULT
            Tensor([1.0], device=name).round().realize()
            return name

        try:
            self._device = self.worker.within(None, opened)
        except Exception as error:  # of any class: compilers that are missing, devices
            why = first_line(error)
            told = "; its CPU needs clang: on Debian, apt-get install clang" if not device else ""
            raise CannotVerify(f"tinygrad has no device {device}: {why}{told}") from error
        self.name = f"tinygrad {version(tinygrad)}, {self._device}"

    def _rounds(self, dtype: str, rounding: str) -> Callable[[Values], Values]:
        function = self._operator(dtype, rounding)
        return lambda x: self._computed(lambda t: getattr(t, function)(), x, dtype, dtype)

    def _casts(self, how: Cast) -> Callable[[Values], Values]:
        check_types(dtypes, _name(how.source), _name(how.target))
        kind = getattr(dtypes, _name(how.target))
        return lambda x: self._computed(lambda t: t.cast(kind), x, how.source, how.target)

    def _computed(
        self, function: Callable[[Any], Any], x: Values, source: str, target: str
    ) -> Values:
        """The results of a function of tensors, of patterns and as patterns."""
        bits = np.asarray(x, order="C").view(f"u{x.itemsize}")
        own, wanted = getattr(dtypes, _name(source)), BY_NAME[target].numpy
        found = function(Tensor(bits, device=self._device).bitcast(own))
        raw = getattr(dtypes, f"uint{8 * wanted.itemsize}")
        numbers: Values = found.bitcast(raw).numpy().view(wanted)
        return numbers


def _name(dtype: str) -> str:
    """The name of a type in tinygrad."""
    return dtype.replace("float8_", "fp8").removesuffix("fn")
