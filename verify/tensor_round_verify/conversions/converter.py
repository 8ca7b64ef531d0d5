"""The interface of a converter: a runtime whose casts or quantizations can be verified."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME

from ..errors import CannotVerify, NotTaken
from ..reference import Bits, bits_type
from ..runtimes.runtime import values
from .conversion import Cast, Quantization
from .patterns import Trial

#: Functions that return the results for the operands of a cast, or for one tensor.
CastBits = Callable[[Bits], Bits]
QuantizeBits = Callable[[Trial], Bits]


class Converter:
    """The conversions of one runtime; raises :class:`NotTaken` for those that it lacks."""

    name = ""

    def cast(self, how: Cast) -> CastBits:
        """The function that does this cast."""
        raise NotTaken("it has no cast here")

    def quantize(self, how: Quantization) -> QuantizeBits:
        """The function that does this quantization, with each tensor's scales and zero points."""
        raise NotTaken("it has no quantize_linear here")


def plain(how: Cast) -> None:
    """Raise :class:`NotTaken` for a cast that saturates, or rounds other than ties to even."""
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
    """The operands as an array; if there are several channels, each is a row."""
    x = values(trial.bits, source)
    return x if trial.scales.size == 1 else x.reshape(trial.scales.size, -1)
