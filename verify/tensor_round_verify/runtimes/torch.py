"""``torch[:DEVICE]``: PyTorch's elementwise functions."""

from __future__ import annotations

from ..errors import CannotVerify, NotTaken
from ..reference import FLOATS, INTEGER_WIDTHS, Bits
from .runtime import RoundBits, failures_of, first_line, probed, version

FUNCTIONS = {
    "ties_to_even": "round",
    "toward_zero": "trunc",
    "toward_positive": "ceil",
    "toward_negative": "floor",
}


class Torch:
    """PyTorch on one device, as ``torch.device`` names it."""

    dtypes = (*FLOATS, *INTEGER_WIDTHS)
    roundings = tuple(FUNCTIONS)
    concurrent = True

    def __init__(self, device: str) -> None:
        import torch

        self._device = device or "cpu"
        try:
            torch.zeros(1, device=self._device)
        except (AssertionError, RuntimeError) as error:  # the first: built without CUDA
            raise CannotVerify(f"torch has no device {device}: {first_line(error)}") from error
        self.name = f"torch {version(torch)}, {self._device}"

    def kernel(self, dtype: str, rounding: str) -> RoundBits:
        """The function; raises :class:`NotTaken` if it is not implemented for the dtype."""
        import torch

        if rounding not in FUNCTIONS:
            raise NotTaken(f"it has no function for {rounding}")
        function = getattr(torch, FUNCTIONS[rounding])
        own = getattr(torch, dtype)

        def kernel(bits: Bits) -> Bits:
            # NumPy and PyTorch share signed integers of every width, and their bits.
            signed = torch.from_numpy(bits.view(f"<i{bits.dtype.itemsize}").copy())
            with failures_of(self.name, dtype):
                result = function(signed.view(own).to(self._device))
            rounded: Bits = result.cpu().view(signed.dtype).numpy().view(bits.dtype)
            return rounded

        return probed(kernel, dtype)

    def close(self) -> None:
        """Do nothing."""
