"""``torch[:DEVICE]``: PyTorch's elementwise functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify

from ..conversions.conversion import Cast, FakeQuantization, Linear
from ..conversions.patterns import Trial
from ..conversions.reference import ends
from ..reference import FLOATS, INTEGER_WIDTHS
from .forms import Values
from .runtime import (
    FUNCTIONS,
    NotSupported,
    PlainCasts,
    QuantizeBits,
    check_types,
    first_line,
    version,
)

#: Its types of quantized tensors.
KINDS = {"int8": "qint8", "uint8": "quint8"}


# PyTorch's tensors and functions have annotations that this package cannot see.
class Torch(PlainCasts):
    """PyTorch on one device, as ``torch.device`` names it."""

    dtypes = (*FLOATS, *INTEGER_WIDTHS)
    operators = FUNCTIONS
    linear_operators = ("quantize_linear", "fake_quantize")
    concurrent = True

    def __init__(self, device: str, _: float) -> None:
        self._device = device or "cpu"
        try:
            torch.zeros(1, device=self._device)
        except (AssertionError, RuntimeError) as error:  # the first: built without CUDA
            raise CannotVerify(f"torch has no device {device}: {first_line(error)}") from error
        self.name = f"torch {version(torch)}, {self._device}"

    def _rounds(self, dtype: str, rounding: str) -> Callable[[Values], Values]:
        return self._running(getattr(torch, self._operator(dtype, rounding)), dtype)

    def _casts(self, how: Cast) -> Callable[[Values], Values]:
        check_types(torch, how.source, how.target)
        target = getattr(torch, how.target)
        return self._running(lambda x: x.to(target), how.target)

    def _running(self, function: Callable[[Any], Any], target: str) -> Callable[[Values], Values]:
        """A function of PyTorch's tensors, of arrays whose memory they share."""
        own = BY_NAME[target].numpy
        return lambda x: of_torch(function(for_torch(x).to(self._device)).cpu(), own)

    def _linear(self, how: Linear) -> QuantizeBits:
        """Quantize float32 to int8 or uint8, per tensor or per channel."""
        if isinstance(how, FakeQuantization):
            return self._faking(how)
        if how.source != "float32" or how.target not in KINDS or how.mixed:
            raise NotSupported(f"it does not quantize {how.source} to {how.target}")
        if how.blocked:
            raise NotSupported("it has no blocks here")
        kind = getattr(torch, KINDS[how.target])

        def quantize(trial: Trial) -> Any:
            x, scale, point = how.arrays(trial)
            axis, scales, given = (
                trial.axis % max(1, x.ndim),
                scale.astype(np.float64),
                for_torch(x),
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # these functions are deprecated since 2.13
                if how.per_axis:
                    by = torch.from_numpy(scales), torch.from_numpy(trial.zero_points)
                    q = torch.quantize_per_channel(given, *by, axis, kind)
                else:
                    q = torch.quantize_per_tensor(given, float(scales), int(point), kind)
                return q.int_repr().numpy()

        return self._by_trials(quantize, how)

    def _faking(self, how: FakeQuantization) -> QuantizeBits:
        """Fake-quantize to the ends of an integer type, per tensor or per channel."""
        if how.codes not in INTEGER_WIDTHS or how.blocked or how.mixed:
            raise NotSupported(f"it does not quantize through {how.codes} in this way")
        between, own = ends(how.codes), BY_NAME[how.target].numpy

        def fake(trial: Trial) -> Any:
            x, scale, point = how.arrays(trial)
            given = for_torch(x)
            if how.per_axis:
                scales = torch.from_numpy(scale.astype(np.float32))
                points = torch.from_numpy(trial.zero_points.astype(np.int32))
                axis = trial.axis % max(1, x.ndim)
                by = scales, points, axis
                return of_torch(torch.fake_quantize_per_channel_affine(given, *by, *between), own)
            by_one = float(scale), int(point)
            return of_torch(torch.fake_quantize_per_tensor_affine(given, *by_one, *between), own)

        return self._by_trials(fake, how)


def for_torch(x: Values) -> Any:
    """A tensor that shares the array's memory, if PyTorch has strides like its own."""
    # NumPy and PyTorch share signed integers of every width, and their bits.
    shared = (x if min(x.strides, default=0) >= 0 else x.copy()).view(f"<i{x.itemsize}")
    return torch.from_numpy(shared).view(getattr(torch, x.dtype.name))


def of_torch(found: Any, own: Any) -> Values:
    """The array of this NumPy type that shares a tensor's memory."""
    numbers: Values = found.view(getattr(torch, f"int{8 * own.itemsize}")).numpy().view(own)
    return numbers
