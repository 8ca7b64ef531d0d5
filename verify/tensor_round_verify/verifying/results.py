"""The results of verification, as values, sentences and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensor_round.contract.differences.classes import PatternClass
from tensor_round.contract.differences.document import bits_text, value_text

from ..conversions.classes import ConversionClass
from ..explain import Explanation
from .effects import Effect
from .text import report_text


@dataclass(frozen=True, slots=True)
class Example:
    """One wrong result: the patterns of operand ``x``, result ``got`` and right result ``want``."""

    dtype: str
    x: int
    got: int
    want: int
    #: Of a conversion: the type of the results, and by what the operand was quantized.
    to: str = ""
    given: str = ""

    def __str__(self) -> str:
        to = self.to or self.dtype
        x, got, want = (
            _pattern_text(self.dtype, self.x),
            _pattern_text(to, self.got),
            _pattern_text(to, self.want),
        )
        return f"x {x}{self.given and ' '}{self.given}: got {got}, want {want}"

    def as_data(self) -> dict[str, Any]:
        """Each pattern as its value in decimal and its bits in hexadecimal."""
        to = self.to or self.dtype
        rows = (("x", self.dtype, self.x), ("got", to, self.got), ("want", to, self.want))
        return {
            **{
                name: {"value": value_text(dtype, bits), "bits": bits_text(dtype, bits)}
                for name, dtype, bits in rows
            },
            **({"given": self.given} if self.given else {}),
        }


@dataclass(frozen=True, slots=True)
class ClassCount:
    """The wrong results for one class of patterns, the first of them as examples."""

    pattern_class: PatternClass | ConversionClass
    tried: int
    wrong: int
    first: tuple[Example, ...]
    effect: Effect

    def sentence(self, dtype: str) -> str:
        """The counts and the common effect in words."""
        name = self.pattern_class.plural(dtype)
        effect = f" ({self.effect})" if str(self.effect) else ""
        if name[0] in "+-":
            return f"{name}{effect}"
        if self.wrong == self.tried:
            return f"all {self.wrong:,} {name}{effect}"
        return f"{self.wrong:,} of {self.tried:,} {name}{effect}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one dtype and direction: ``wrong`` of ``tried`` patterns, by class.

    ``digest`` is the SHA-256 of every wrongly rounded operand with its result, in the order of the
    patterns. Runs with equal digests have the same faults.
    """

    dtype: str
    rounding: str
    tried: int
    wrong: int
    classes: tuple[ClassCount, ...]
    explanation: Explanation
    digest: str

    @property
    def pair(self) -> tuple[str, str]:
        """Dtype and direction."""
        return self.dtype, self.rounding

    @property
    def name(self) -> str:
        """Dtype and direction as text, such as ``float32 ties_to_even``."""
        return f"{self.dtype} {self.rounding}"

    def __str__(self) -> str:
        return f"{self.name}: {self.sentence}"

    @property
    def sentence(self) -> str:
        """The counts, the classes, and the explanation in words."""
        head = f"{self.wrong:,} of {self.tried:,} wrong"
        if not self.wrong:
            return head
        which = ", ".join(count.sentence(self.dtype) for count in self.classes)
        return f"{head}: {which}; {self.explanation}"

    def as_data(self) -> dict[str, Any]:
        """The verdict as JSON values."""
        return {
            "dtype": self.dtype,
            "rounding": self.rounding,
            "tried": self.tried,
            "wrong": self.wrong,
            "classes": {
                count.pattern_class.label: {
                    "tried": count.tried,
                    "wrong": count.wrong,
                    "effect": str(count.effect) or None,
                    "first": [example.as_data() for example in count.first],
                }
                for count in self.classes
            },
            "explained": self.explanation.complete,
            "models": [model.name for model in self.explanation.models],
            "sentence": str(self),
            "sha256": self.digest,
        }


@dataclass(frozen=True, slots=True)
class Lacking:
    """A dtype and direction that the runtime does not support, and the reason."""

    dtype: str
    rounding: str
    why: str

    @property
    def pair(self) -> tuple[str, str]:
        """Dtype and direction."""
        return self.dtype, self.rounding

    def __str__(self) -> str:
        return f"{self.dtype} {self.rounding}: not taken: {self.why}"


@dataclass(frozen=True, slots=True)
class Report:
    """The verdicts on a runtime's dtypes and directions, and those that it does not support."""

    runtime: str
    verdicts: tuple[Verdict, ...]
    lacking: tuple[Lacking, ...] = ()
    operator: str = "round"

    @property
    def right(self) -> bool:
        """Whether every result is right to the bit."""
        return not any(verdict.wrong for verdict in self.verdicts)

    def __str__(self) -> str:
        return report_text(self)

    def as_data(self) -> dict[str, Any]:
        """The report as JSON values, which are also the form of a baseline."""
        return {
            "runtime": self.runtime,
            "operator": self.operator,
            "right": self.right,
            "verdicts": [verdict.as_data() for verdict in self.verdicts],
            "lacking": [
                {"dtype": row.dtype, "rounding": row.rounding, "why": row.why}
                for row in self.lacking
            ],
        }


def _pattern_text(dtype: str, bits: int) -> str:
    return f"{value_text(dtype, bits)} ({bits_text(dtype, bits)})"
