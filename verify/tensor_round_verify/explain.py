"""Explanation of a runtime's results by models of misbehaviour.

Models explain a runtime if they predict every result, also the right ones. Numbers and NaNs
are explained separately, since hardware treats them separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from .faulty_kernels import Kernel, exact
from .models import FORMULAS, INTEGERS, NANS, PATHS, PAYLOAD_CUT, QUIETED, SIGN_LOST, ZEROS, Model
from .reference import Bits, Flags, is_nan

Models = tuple[Model, ...]


class Named(Protocol):
    """A model, or a deviation of a conversion."""

    @property
    def name(self) -> str:
        """Its name in reports."""


#: Patterns on which models are tried first.
FEW = 1 << 10


@dataclass(frozen=True, slots=True)
class Explanation:
    """The models that explain numbers and NaNs: empty if all are right, None if no model fits."""

    numbers: tuple[Named, ...] | None
    nans: tuple[Named, ...] | None

    @property
    def complete(self) -> bool:
        """Whether every fault is explained."""
        return self.numbers is not None and self.nans is not None

    @property
    def models(self) -> tuple[Named, ...]:
        """All models of the explanation: of numbers, then of NaNs."""
        return (*(self.numbers or ()), *(self.nans or ()))

    def __str__(self) -> str:
        found = words([model.name for model in self.models])
        if self.complete:
            return f"this is {found}" if found else "nothing is wrong"
        if not found:
            return "no named model explains it"
        explained, left = ("NaNs", "numbers") if self.numbers is None else ("numbers", "NaNs")
        return f"for {explained} this is {found}; no named model explains the {left}"


@dataclass(frozen=True, slots=True)
class Hypotheses:
    """The explanations not ruled out yet, the simplest first; None while nothing is wrong."""

    dtype: str
    rounding: str
    numbers: tuple[Models, ...] | None
    nans: tuple[Models, ...] | None

    @classmethod
    def of(cls, bits: Bits, got: Bits, want: Bits, dtype: str, rounding: str) -> Hypotheses:
        """The explanations of ``got``, the results for the hardest patterns of the dtype.

        Every model predicts a fault among these patterns. So if there is none, no model explains
        a fault in later patterns.
        """
        nan = is_nan(dtype, bits)
        wrong = got != want
        start = cls(
            dtype,
            rounding,
            tuple(_numbers(dtype, rounding)) if (wrong & ~nan).any() else None,
            tuple(nan_models(dtype, rounding)) if (wrong & nan).any() else None,
        )
        # A few faults, or a few of all patterns, rule out most explanations.
        for some in (
            np.flatnonzero(wrong & ~nan),
            np.flatnonzero(wrong & nan),
            np.arange(nan.size),
        ):
            few = some[:: max(1, some.size // FEW)]
            start = start.surviving(bits[few], got[few], want[few])
        return start.surviving(bits, got, want)

    def surviving(self, bits: Bits, got: Bits, want: Bits) -> Hypotheses:
        """The explanations that also predict these results."""
        nan = is_nan(self.dtype, bits)
        return replace(
            self,
            numbers=self._surviving(self.numbers, bits, got, want, ~nan),
            nans=self._surviving(self.nans, bits, got, want, nan),
        )

    def both(self, other: Hypotheses) -> Hypotheses:
        """The explanations that neither of the two has ruled out."""
        numbers, nans = _common(self.numbers, other.numbers), _common(self.nans, other.nans)
        return replace(self, numbers=numbers, nans=nans)

    def explanation(self) -> Explanation:
        """The simplest explanation that is not ruled out."""
        return Explanation(_simplest(self.numbers), _simplest(self.nans))

    def _surviving(
        self,
        candidates: tuple[Models, ...] | None,
        bits: Bits,
        got: Bits,
        want: Bits,
        where: Flags,
    ) -> tuple[Models, ...] | None:
        if candidates is None:
            # No fault so far: no model has predicted one that is found now.
            return () if ((got != want) & where).any() else None
        if not candidates or not where.any():
            return candidates
        bits, got = bits[where], got[where]
        return tuple(
            models
            for models in candidates
            if np.array_equal(kernel_of(models)(bits, self.dtype, self.rounding), got)
        )


def kernel_of(models: Iterable[Model], kernel: Kernel = exact) -> Kernel:
    """A right kernel with the faults of these models, the first innermost."""
    for model in models:
        kernel = model.around(kernel)
    return kernel


def words(names: Sequence[str]) -> str:
    """A list in English: a, b and c; empty without names."""
    *some, last = names or [""]
    return f"{', '.join(some)} and {last}" if some else last


def _numbers(dtype: str, rounding: str) -> Iterator[Models]:
    """Every sensible combination of a formula, a change of zeros, and a path."""
    for path in fitting(PATHS, dtype, rounding):
        inside = path[0].computes_in or dtype if path else dtype
        for formula in fitting(FORMULAS, inside, rounding):
            for zeros in zeros_of(path, inside, rounding):
                if models := (*formula, *zeros, *path):
                    yield models


def zeros_of(path: Models, dtype: str, rounding: str) -> list[Models]:
    """The changes of zeros that fit; integers are tried without another detour alone."""
    return fitting(ZEROS if path else (*ZEROS, *INTEGERS), dtype, rounding)


def fitting(models: Models, dtype: str, rounding: str) -> list[Models]:
    """The empty combination, and each single model that fits."""
    return [(), *((model,) for model in models if model.fits(dtype, rounding))]


def nan_models(dtype: str, rounding: str) -> Iterator[Models]:
    """Every sensible combination of changes of NaNs."""
    yield from ((model,) for model in NANS if model.fits(dtype, rounding))
    for model in (QUIETED, PAYLOAD_CUT):
        if model.fits(dtype, rounding):
            yield (model, SIGN_LOST)


def _common(
    some: tuple[Models, ...] | None, others: tuple[Models, ...] | None
) -> tuple[Models, ...] | None:
    if some is None or others is None:
        return some if others is None else others
    return tuple(models for models in some if models in others)


def _simplest(candidates: tuple[Models, ...] | None) -> Models | None:
    if candidates is None:
        return ()
    return min(candidates, key=len, default=None)
