"""``python:module:function``: a function from NumPy array to NumPy array."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify
from tensor_round.contract.quoting import shown

from ..conversions.blocks.quantization import (
    BlockDequantization,
    BlockHow,
    BlockQuantization,
    Blocks,
)
from ..conversions.conversion import (
    Cast,
    Dequantization,
    FakeQuantization,
    Linear,
    Quantization,
)
from ..conversions.patterns import Trial
from ..conversions.reference import ends
from ..deadlines import NotDone
from ..reference import FLOATS, INTEGER_WIDTHS, ROUNDINGS, Bits
from .forms import Values
from .runtime import (
    Adapter,
    DequantizeBlocks,
    NotSupported,
    QuantizeBits,
    QuantizeBlocks,
    RoundBits,
    T,
    TimedOut,
    first_line,
)

#: A function of arrays; see :class:`PythonFunction`.
Function = Callable[..., npt.NDArray[Any]]


class PythonFunction(Adapter):
    """A function ``(x)`` that rounds, ``(x, dtype)`` that casts, or one that quantizes.

    The last is ``(x, scale, zero_point)`` or, if it is symmetric, ``(x, scale)``; the zero point
    has the type of the codes. For blocks it is ``(x, format, scale)`` and
    ``(scales, codes, format, dtype)``. A function may have further parameters: ``rounding``,
    ``saturate``, ``axis``, ``block_size``, ``precision``, the ``output_dtype`` of numbers, and the
    ends ``quant_min`` and ``quant_max`` of an integer type. Without them it must round ties to even
    and saturate types of 8 bits, and is not verified per axis or in blocks.
    """

    dtypes = tuple(FLOATS)
    concurrent = False
    probed = False
    linear_operators = ("quantize_linear", "dequantize_linear", "fake_quantize")

    def __init__(self, function: Function, timeout: float, name: str | None = None) -> None:
        if not callable(function):
            raise CannotVerify(f"runtime must be a name or a function, got {shown(function)}")
        self.name = name or f"python:{function.__module__}:{_name(function)}"
        self._function = function
        self._timeout = timeout
        self._parameters = _parameters(function)
        self.roundings = ROUNDINGS if "rounding" in self._parameters else ROUNDINGS[:1]

    def _rounds(self, dtype: str, rounding: str) -> Callable[..., object]:
        more = self._named(rounding=rounding)
        return lambda x, **out: self._called(dtype, x, **more, **out)

    def kernel(self, dtype: str, rounding: str) -> RoundBits:
        """The function; with a parameter ``out`` also into an array."""
        kernel, rounds = super().kernel(dtype, rounding), self._rounds(dtype, rounding)
        if "out" not in self._parameters:
            return kernel
        arrays = replace(kernel.arrays, into=lambda x, out: rounds(x, out=out))
        return replace(kernel, arrays=arrays)

    def _in_turn(self, call: Callable[[], T]) -> T:
        """What a call returns: the function itself has a thread."""
        return call()

    def cast(self, how: Cast) -> RoundBits:
        """The function, with rounding and saturation if it has these parameters."""
        more = self._named(rounding=how.rounding, saturate=how.saturate)
        if "rounding" not in more and how.rounding != how.usual:
            raise NotSupported("it has no parameter rounding")
        if "saturate" not in more and how.saturate != how.usually_saturates:
            raise NotSupported("it has no parameter saturate")
        target = BY_NAME[how.target].numpy

        def cast(x: Values) -> object:
            return self._called(how.source, x, target, **more)

        return self._kernel(cast, how.source, how.target)

    def _linear(self, how: Linear) -> QuantizeBits:
        """The function of an array, scale and zero point, which are 1-d per axis, else 0-d.

        Without the parameter zero_point it is symmetric.
        """
        is_faking = isinstance(how, FakeQuantization)
        back = how.target if isinstance(how, Dequantization) else ""
        saturate = not isinstance(how, Quantization) or how.saturate
        needed = {
            "axis": how.per_axis,
            "block_size": how.blocked,
            "precision": how.precision,
            "output_dtype": back and how.scale,
            "saturate": not saturate,
        }
        optional = {*needed, "quant_min", "quant_max"}
        more: dict[str, object] = {"saturate": saturate}
        if is_faking and how.codes in INTEGER_WIDTHS:
            more["quant_min"], more["quant_max"] = ends(how.codes)
        elif is_faking and "quant_min" in self._parameters:
            raise NotSupported("quant_min and quant_max are those of integers")
        symmetric = len(set(self._parameters) - optional) == 2
        for name, is_needed in needed.items():
            if is_needed and name not in self._parameters:
                raise NotSupported(f"it has no parameter {name}")
        dtypes = {"precision": how.precision, "output_dtype": back}
        more |= {name: BY_NAME[dtype].numpy for name, dtype in dtypes.items() if dtype}

        def call(trial: Trial) -> object:
            x, scale, point = how.arrays(trial)
            if symmetric and trial.zero_points.any():
                raise NotSupported("it has no parameter zero_point")
            points = () if symmetric else (point,)
            named = self._named(**how.options(trial), **more)
            found = self._called(how.source, x, scale, *points, **named)
            kind = getattr(found, "dtype", point.dtype)
            if symmetric and kind != BY_NAME[how.target].numpy:
                raise NotSupported(f"it returns {kind}")
            return found

        return self._by_trials(call, how)

    def block_quantize(self, how: BlockQuantization) -> QuantizeBlocks:
        """The function ``(x, format, scale)``, which returns the codes of scales and elements."""
        more = self._scaled(how)

        def quantize(x: Values) -> Blocks:
            try:
                found = self._called(how.source, x, how.target, how.rounding, **more)
            except CannotVerify as error:
                if isinstance(error.__cause__, TypeError):  # of a ufunc, without bfloat16, say
                    raise NotSupported(error.reason) from error
                raise
            return self._blocks(found, how.format, x.shape)

        return quantize

    def block_dequantize(self, how: BlockDequantization) -> DequantizeBlocks:
        """The function ``(scales, codes, format, dtype)``, which returns numbers of the type."""
        more, own = self._scaled(how), BY_NAME[how.target].numpy

        def dequantize(blocks: Blocks) -> Bits:
            scales, codes = (part.copy() for part in blocks)
            found = self._called(how.source, scales, codes, how.source, own, **more)
            return self._converted(found, how.target, codes.size)

        return dequantize

    def _scaled(self, how: BlockHow) -> dict[str, object]:
        """The argument of the tensor's scale, if the function has a parameter for it."""
        if how.tensor_scale != 1 and "tensor_scale" not in self._parameters:
            raise NotSupported("it has no parameter tensor_scale")
        return self._named(tensor_scale=np.float32(how.tensor_scale))

    def _named(self, **asked: object) -> dict[str, object]:
        """Those of the arguments that the function has a parameter for."""
        return {name: value for name, value in asked.items() if name in self._parameters}

    def _called(self, dtype: str, *arguments: object, **more: object) -> object:
        """The function's result; raises :class:`CannotVerify` if the function raises."""

        def call() -> object:
            with np.errstate(all="ignore"):
                return self._function(*arguments, **more)

        try:
            # A function that hangs cannot be ended.
            return self.worker.within(self._timeout, call)
        except NotDone:
            raise TimedOut(f"{self.name} did not finish within {self._timeout:g} s") from None
        except NotImplementedError as error:
            raise NotSupported(first_line(error)) from error
        except (Exception, SystemExit) as error:
            raise self._failed(dtype, error) from error


def open_function(text: str, timeout: float) -> PythonFunction:
    """Import ``module:function``, also from the current folder."""
    module_name, _, path = text.partition(":")
    if not module_name or not path:
        raise CannotVerify(f"python:{text} names no function: write python:module:function")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # importing runs arbitrary code
        raise CannotVerify(f"{module_name} cannot be imported: {first_line(error)}") from error
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise CannotVerify(f"{module_name} has no function {path}")
    return PythonFunction(found, timeout, f"python:{text}")


def _parameters(function: Function) -> tuple[str, ...]:
    """The names of a function's parameters."""
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # ufuncs and other built-in functions may have none
        return ()


def _name(function: Function) -> str:
    """The function's name; for a callable object, which has none, its class's."""
    return getattr(function, "__qualname__", type(function).__qualname__)
