"""The interface of a runtime that can be verified, and helpers for its implementations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME

from ..errors import CannotVerify, NotTaken
from ..reference import Bits, bits_type

#: Rounds patterns of one dtype in one direction.
RoundBits = Callable[[Bits], Bits]


@runtime_checkable
class Runtime(Protocol):
    """A program that rounds tensors."""

    @property
    def name(self) -> str:
        """Its name, with version and device."""

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes that are verified by default; some may not be supported."""

    @property
    def roundings(self) -> tuple[str, ...]:
        """The directions that are verified by default."""

    @property
    def concurrent(self) -> bool:
        """Whether several threads may call its kernels at the same time."""

    def kernel(self, dtype: str, rounding: str) -> RoundBits:
        """A function that rounds one dtype in one direction.

        Raises :class:`NotTaken` if the runtime does not support them. The function raises
        :class:`CannotVerify` if it fails.
        """

    def close(self) -> None:
        """Release the runtime's resources."""


def values(bits: Bits, dtype: str) -> npt.NDArray[Any]:
    """A new array of the dtype, with these patterns."""
    return bits.copy().view(BY_NAME[dtype].numpy)


def patterns(result: object, bits: Bits, dtype: str, who: str) -> Bits:
    """The patterns of a result; raises :class:`CannotVerify` for another dtype or shape."""
    own = BY_NAME[dtype].numpy
    if not isinstance(result, np.ndarray):
        raise CannotVerify(f"{who} returned {_kind(result)} for a NumPy array of {dtype}")
    if result.dtype != own or result.shape != bits.shape:
        returned = f"{result.dtype} of shape {result.shape}"
        raise CannotVerify(f"{who} returned {returned} for {dtype} of shape {bits.shape}")
    return np.ascontiguousarray(result).view(bits.dtype)


def probed(kernel: RoundBits, dtype: str) -> RoundBits:
    """The kernel, if it rounds one element; else raises :class:`NotTaken` with its error."""
    try:
        kernel(np.zeros(1, bits_type(dtype)))
    except CannotVerify as error:
        raise NotTaken(error.reason) from error
    return kernel


def failed(name: str, dtype: str, reason: str) -> CannotVerify:
    """The error to raise for an error of the runtime."""
    return CannotVerify(f"{name} failed on {dtype}: {reason}", reason)


def first_line(error: BaseException) -> str:
    """The class of an error and the first line of its message."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextmanager
def failures_of(
    name: str, dtype: str, told: Callable[[Exception], str] = first_line
) -> Iterator[None]:
    """Raise :class:`CannotVerify` for any error of a runtime.

    Runtimes raise errors of any class, and few document them. ``told`` gives an error's text.
    """
    try:
        yield
    except Exception as error:  # of any class: it is no result of rounding
        raise failed(name, dtype, told(error)) from error


def version(module: ModuleType) -> str:
    """The version that a module states."""
    return str(getattr(module, "__version__", "of unknown version"))


def _kind(result: object) -> str:
    return "None" if result is None else f"a {type(result).__name__}"
