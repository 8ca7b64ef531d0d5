"""What verifying needs of something that converts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ...dtypes import BY_NAME
from ..errors import CannotVerify, NotTaken
from ..reference import Bits, bits_type
from ..runtimes.runtime import values
from .conversion import Cast, Quantization
from .patterns import Trial

#: Of operands of one cast, or of a tensor.
CastBits = Callable[[Bits], Bits]
QuantizeBits = Callable[[Trial], Bits]


class Converter:
    """Something that converts; what it has not is :class:`NotTaken`."""

    name = ""

    def cast(self, how: Cast) -> CastBits:
        """What casts."""
        raise NotTaken("it has no cast here")

    def quantize(self, how: Quantization) -> QuantizeBits:
        """What quantizes, by the scales and zero points of a tensor."""
        raise NotTaken("it has no quantize_linear here")


def plain(how: Cast) -> None:
    """Raise :class:`NotTaken` for a cast that is not to nearest even, without saturation."""
    if how.rounding != "ties_to_even" or how.saturate:
        asked = "saturate" if how.saturate else f"round {how.rounding}"
        raise NotTaken(f"its casts cannot be asked to {asked}")


def results(found: Any, target: str, count: int, who: str) -> Bits:
    """The patterns of an array of results; raises :class:`CannotVerify` for anything else."""
    if not isinstance(found, np.ndarray):
        raise CannotVerify(f"{who} returned {type(found).__name__}, not a NumPy array")
    own = BY_NAME[target].numpy
    if found.dtype != own or found.size != count:
        returned = f"{found.size} of {found.dtype}"
        raise CannotVerify(f"{who} returned {returned} for {count} to {target}")
    return np.ascontiguousarray(found).reshape(-1).view(bits_type(target))


def tensor(trial: Trial, source: str) -> npt.NDArray[Any]:
    """The operands, one row a channel where there are several."""
    x = values(trial.bits, source)
    return x if trial.scales.size == 1 else x.reshape(trial.scales.size, -1)
