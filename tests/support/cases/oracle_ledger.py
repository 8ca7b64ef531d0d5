"""The product's answers beside a foreign runtime's, and a ledger of where they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from support.cases.backend_calls import run_flat
from tensor_round_service.backends import Backend
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import Bits, Flags, bits_type, is_nan

RANDOM_PATTERNS = 1 << 20
CHUNK = 1 << 20


@dataclass(slots=True)
class Entry:
    """One comparison: how many patterns, and for how many the oracle's bits are not ours."""

    oracle: str
    dtype: str
    rounding: str
    tried: int = 0
    nans: int = 0
    nans_differ: int = 0
    others_differ: int = 0

    def row(self) -> str:
        """The entry as a row of a Markdown table."""
        return (
            f"| {self.oracle} | {self.dtype} | {self.rounding} | {self.tried:,} "
            f"| {self.nans_differ:,} of {self.nans:,} | {self.others_differ:,} |"
        )


HEADING = (
    "| oracle | dtype | rounding | patterns | NaNs with other bits | other differences |",
    "|---|---|---|--:|--:|--:|",
)


@dataclass
class Ledger:
    """Compares oracles with a backend, and keeps count."""

    backend: Backend
    every_float32: bool
    entries: list[Entry] = field(default_factory=list)

    def compare(
        self,
        oracle: str,
        dtype: str,
        rounding: str,
        ask: Callable[[Bits], Bits],
        *,
        keeps_nans: bool = False,
        wrong: Callable[[Bits], Flags] | None = None,
    ) -> None:
        """Assert that what the oracle answers, pattern for pattern, is what the product answers.

        ``keeps_nans``: so it is for NaNs too; else a NaN may come back as any NaN.
        ``wrong``: the patterns where the oracle is known to be at fault; it must
        differ at each of them and nowhere else.
        """
        entry = Entry(oracle, dtype, rounding)
        self.entries.append(entry)
        for patterns in self._questions(dtype):
            answers = ask(patterns)
            assert answers.dtype == bits_type(dtype)
            ours = run_flat(self.backend, dtype, rounding, patterns)
            nans = is_nan(dtype, patterns)
            differs = answers != ours
            entry.tried += patterns.size
            entry.nans += int(np.count_nonzero(nans))
            entry.nans_differ += int(np.count_nonzero(differs & nans))
            entry.others_differ += int(np.count_nonzero(differs & ~nans))
            assert is_nan(dtype, answers)[nans].all(), "a NaN came back as a number"
            unexpected = differs & ~nans
            if wrong is not None:
                unexpected ^= wrong(patterns) & ~nans
            if keeps_nans:
                unexpected |= differs & nans
            told = [
                f"{patterns[i]:#x}: {answers[i]:#x}, we {ours[i]:#x}"
                for i in np.flatnonzero(unexpected)[:5]
            ]
            assert not told, f"differs where it should not, or agrees where it should not: {told}"

    def _questions(self, dtype: str) -> Iterator[Bits]:
        """Everything of 8 and 16 bits; edges and random patterns of the wider types."""
        if dtype == "float32" and self.every_float32:
            for start in range(0, 1 << 32, CHUNK):
                yield np.arange(start, start + CHUNK, dtype=bits_type(dtype))
        else:
            yield samples(dtype, RANDOM_PATTERNS)
