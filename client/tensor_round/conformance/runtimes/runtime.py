"""What verifying needs of a runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ...dtypes import BY_NAME
from ..errors import CannotVerify, NotTaken
from ..reference import Bits, bits_type

#: Rounds patterns of one type in one direction.
RoundBits = Callable[[Bits], Bits]


@runtime_checkable
class Runtime(Protocol):
    """Something that rounds."""

    @property
    def name(self) -> str:
        """What it is called, with its version and device."""

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The types to verify where none is named; it may lack some of them."""

    @property
    def roundings(self) -> tuple[str, ...]:
        """The directions to verify where none is named."""

    @property
    def concurrent(self) -> bool:
        """Whether several threads may round at the same time."""

    def kernel(self, dtype: str, rounding: str) -> RoundBits:
        """What rounds one type in one direction.

        Raises :class:`NotTaken` where there is none; what it returns raises
        :class:`CannotVerify` where it fails.
        """

    def close(self) -> None:
        """Let go of what the runtime holds."""


def values(bits: Bits, dtype: str) -> npt.NDArray[Any]:
    """A fresh array of the type, of these patterns."""
    return bits.copy().view(BY_NAME[dtype].numpy)


def patterns(result: object, bits: Bits, dtype: str, who: str) -> Bits:
    """The patterns of a result; raises :class:`CannotVerify` if it is not like its operand."""
    own = BY_NAME[dtype].numpy
    if not isinstance(result, np.ndarray):
        raise CannotVerify(f"{who} returned {_kind(result)} for a NumPy array of {dtype}")
    if result.dtype != own or result.shape != bits.shape:
        returned = f"{result.dtype} of shape {result.shape}"
        raise CannotVerify(f"{who} returned {returned} for {dtype} of shape {bits.shape}")
    return np.ascontiguousarray(result).view(bits.dtype)


def probed(kernel: RoundBits, dtype: str) -> RoundBits:
    """The kernel, if it takes an element; else :class:`NotTaken`, in the runtime's words."""
    try:
        kernel(np.zeros(1, bits_type(dtype)))
    except CannotVerify as error:
        raise NotTaken(error.reason) from error
    return kernel


def failed(name: str, dtype: str, reason: str) -> CannotVerify:
    """What to raise for an error of the runtime's own."""
    return CannotVerify(f"{name} failed on {dtype}: {reason}", reason)


def first_line(error: BaseException) -> str:
    """The kind of an error and the first line of what it says."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextmanager
def failures_of(
    name: str, dtype: str, told: Callable[[Exception], str] = first_line
) -> Iterator[None]:
    """Raise :class:`CannotVerify` for whatever a runtime raises while it rounds.

    A runtime's errors are of any class, and few packages publish theirs. ``told`` is what
    one says.
    """
    try:
        yield
    except Exception as error:  # whichever it is, it is no verdict on the runtime's rounding
        raise failed(name, dtype, told(error)) from error


def version(module: ModuleType) -> str:
    """What a module says of its version."""
    return str(getattr(module, "__version__", "of unknown version"))


def _kind(result: object) -> str:
    return "None" if result is None else f"a {type(result).__name__}"
