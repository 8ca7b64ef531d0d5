"""``torch[:DEVICE]``: PyTorch's elementwise functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify

from ..conversions.conversion import Cast, Quantization
from ..conversions.patterns import Trial
from ..reference import FLOATS, INTEGER_WIDTHS
from .forms import Values
from .runtime import Adapter, NotSupported, QuantizeBits, RoundBits, first_line, plain, version

FUNCTIONS = {
    "ties_to_even": "round",
    "toward_zero": "trunc",
    "toward_positive": "ceil",
    "toward_negative": "floor",
}


class Torch(Adapter):
    """PyTorch on one device, as ``torch.device`` names it."""

    dtypes = (*FLOATS, *INTEGER_WIDTHS)
    operators = FUNCTIONS
    roundings = tuple(FUNCTIONS)
    concurrent = True

    def __init__(self, device: str, _: float) -> None:
        import torch

        self._device = device or "cpu"
        try:
            torch.zeros(1, device=self._device)
        except (AssertionError, RuntimeError) as error:  # the first: built without CUDA
            raise CannotVerify(f"torch has no device {device}: {first_line(error)}") from error
        self.name = f"torch {version(torch)}, {self._device}"

    # PyTorch's tensors and functions, which this package has no annotations of.
    def _rounds(self, dtype: str, rounding: str) -> Callable[[Values], Values]:
        import torch

        return self._shared(getattr(torch, self._operator(dtype, rounding)), dtype, dtype)

    def cast(self, how: Cast) -> RoundBits:
        """Cast by ``to``."""
        import torch

        plain(how)
        target = getattr(torch, how.target)
        return self._casting(self._shared(lambda x: x.to(target), how.source, how.target), how)

    def _shared(
        self, function: Callable[[Any], Any], source: str, target: str
    ) -> Callable[[Values], Values]:
        """A function of PyTorch's tensors, of arrays whose memory they share."""
        import torch

        own, wanted = getattr(torch, source), BY_NAME[target].numpy
        # NumPy and PyTorch share signed integers of every width, and their bits.
        integers = getattr(torch, f"int{8 * wanted.itemsize}")

        def run(x: Values) -> Values:
            shared = x if min(x.strides) >= 0 else x.copy()  # PyTorch has no negative strides
            given = torch.from_numpy(shared.view(f"<i{x.itemsize}")).view(own)
            found: Values = function(given.to(self._device)).cpu().view(integers).numpy()
            return found.view(wanted)

        return run

    def quantize(self, how: Quantization) -> QuantizeBits:
        """Quantize float32 to int8 or uint8, per tensor or per channel."""
        import torch

        kinds = {"int8": torch.qint8, "uint8": torch.quint8}
        if how.source != "float32" or how.target not in kinds:
            raise NotSupported(f"it does not quantize {how.source} to {how.target}")
        kind = kinds[how.target]

        if how.blocked:
            raise NotSupported("it has no blocks here")

        def quantize(trial: Trial) -> Any:
            operands, scale, _ = how.arrays(trial)
            x, scales = torch.from_numpy(operands), scale.astype(np.float64)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # these functions are deprecated since 2.13
                if how.per_axis:
                    points, by = torch.from_numpy(trial.zero_points), torch.from_numpy(scales)
                    q = torch.quantize_per_channel(x, by, points, trial.axis, kind)
                else:
                    point = int(trial.zero_points[0])
                    q = torch.quantize_per_tensor(x, float(scales), point, kind)
                return q.int_repr().numpy()

        return self._by_trials(quantize, how)
