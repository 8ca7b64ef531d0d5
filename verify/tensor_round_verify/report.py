"""The results of verification: as values, text, JSON and JUnit XML."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from enum import IntFlag
from itertools import groupby
from typing import Any, TypeVar
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np
import numpy.typing as npt

from tensor_round.contract.differences.classes import PatternClass
from tensor_round.contract.differences.document import Value
from tensor_round.contract.dtypes import BY_NAME

from .checks.nans import NanBits
from .conversions.blocks.formats import FORMATS
from .conversions.classes import ConversionClass
from .explain import Explanation
from .reference import FLOAT_FORMATS, Bits, is_nan

#: A dtype and a direction.
Pair = tuple[str, str]
#: A sentence for each dtype and direction with a fault, or with a difference from a baseline.
Complaints = Mapping[Pair, str]
#: A class of patterns, or of a conversion's operands.
Kind = PatternClass | ConversionClass
Row = TypeVar("Row")
#: From the place of an operand to its index in a tensor.
IndexOf = Callable[[int], tuple[int, ...]]


#: What no specification says, by the rule.
RULES = {
    "saturate": "what is out of range becomes the nearest end",
    "wrap": "what is out of range keeps its low bits",
    "x86": "what is out of range becomes what x86's instructions make of it",
    "arm": "what is out of range becomes what ARM's instructions make of it",
    "nan": "negative numbers become NaN",
}


class Effect(IntFlag):
    """The ways in which wrong results differ from the right ones, as flags."""

    OFF_BY_ONE = 1
    SIGN_LOST = 2
    QUIETED = 4
    ANOTHER_NAN = 8
    OTHER = 16

    def __str__(self) -> str:
        """The difference in words; empty if results differ in several ways."""
        return _WORDS.get(self, "")


_WORDS = {
    Effect.OFF_BY_ONE: "off by one",
    Effect.SIGN_LOST: "sign lost",
    Effect.QUIETED: "quieted",
    Effect.ANOTHER_NAN: "another NaN",
}


def effects(got: Bits, want: Bits, dtype: str) -> npt.NDArray[np.uint8]:
    """The :class:`Effect` of each wrong result."""
    if dtype not in FLOAT_FORMATS:
        one = want.dtype.type(1)
        by_one = (got - want == one) | (want - got == one)
        return np.where(by_one, Effect.OFF_BY_ONE, Effect.OTHER).astype(np.uint8)
    fmt = FLOAT_FORMATS[dtype]
    number = want.dtype.type
    nan = is_nan(dtype, want)
    with np.errstate(all="ignore"):
        distance = _values(got, dtype) - _values(want, dtype)
    return np.select(
        [
            nan & (got == want | number(1 << (fmt.fraction_bits - 1))),
            nan & is_nan(dtype, got),
            (want == fmt.sign_bit) & (got == 0),
            np.abs(distance) == 1,
        ],
        [Effect.QUIETED, Effect.ANOTHER_NAN, Effect.SIGN_LOST, Effect.OFF_BY_ONE],
        Effect.OTHER,
    ).astype(np.uint8)


def _values(bits: Bits, dtype: str) -> npt.NDArray[np.float64]:
    return bits.view(BY_NAME[dtype].numpy).astype(np.float64)


def _value(dtype: str, bits: int, *, of_scale: bool = False) -> Value:
    """The value of a pattern of a dtype, of an element of a block format, or of its scale."""
    if dtype in FORMATS:
        fmt = FORMATS[dtype]
        return fmt.scale_value(bits) if of_scale else fmt.element_value(bits)
    return Value.of(dtype, bits)


def _both(dtype: str, bits: int, value: Value) -> str:
    """A number in decimal, if that is not exact in hexadecimal too, and its bits."""
    number = math.nan
    if dtype in FLOAT_FORMATS:
        row = BY_NAME[dtype]
        with np.errstate(invalid="ignore"):  # ml_dtypes converts a signalling NaN
            number = float(np.array([bits], row.bits).view(row.numpy)[0])
    if not math.isfinite(number) or Decimal(value.value) == Decimal(number):
        return f"{value.value} ({value.bits})"
    return f"{value.value} = {re.sub('[.]?0*(?=p)', '', number.hex())} ({value.bits})"


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
    #: Of a tensor: where the operand is.
    index: tuple[int, ...] | None = None
    #: Whether the results are scales of a block format.
    of_scale: bool = False
    #: How the result differs, and how far the operand is from 1, in patterns.
    effect: Effect | None = None
    distance: int = 0

    def _values(self) -> dict[str, Value]:
        to = self.to or self.dtype
        return {
            "x": _value(self.dtype, self.x),
            "got": _value(to, self.got, of_scale=self.of_scale),
            "want": _value(to, self.want, of_scale=self.of_scale),
        }

    def __str__(self) -> str:
        to, values = self.to or self.dtype, self._values()
        x = _both(self.dtype, self.x, values["x"])
        got, want = _both(to, self.got, values["got"]), _both(to, self.want, values["want"])
        where = "" if self.index is None else f"{list(self.index)}: "
        return f"{where}x {x}{self.given and ' '}{self.given}: got {got}, want {want}"

    def as_data(self) -> dict[str, Any]:
        """Each pattern as its value in decimal and its bits in hexadecimal."""
        data: dict[str, Any] = {name: asdict(value) for name, value in self._values().items()}
        if self.index is not None:
            data = {"index": list(self.index), **data}
        return {**data, "given": self.given} if self.given else data


@dataclass(frozen=True, slots=True)
class ClassCount:
    """The wrong results for one class of patterns, the first of them as examples."""

    pattern_class: Kind
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
        return f"{self.wrong:,} of {self.tried:,} {name}{effect}"


@dataclass(frozen=True, slots=True)
class CallFault:
    """What results depend on beside their operand, and the first wrong one, if there is one."""

    cause: str
    example: Example | None = None

    def as_data(self) -> dict[str, Any]:
        """The fault as JSON values."""
        return {"cause": self.cause, "example": self.example and self.example.as_data()}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one dtype and direction: ``wrong`` of ``tried`` patterns, by class.

    ``digest`` is the SHA-256 of every wrongly rounded operand with its result, in the order of the
    patterns. Runs with equal digests have the same faults. ``nans`` are NaNs that came back with
    other bits, where these are reported and not judged. ``calls`` are results that depend on
    the array or the call. ``refused`` are forms of arrays that the runtime refuses.
    """

    dtype: str
    rounding: str
    tried: int
    wrong: int
    classes: tuple[ClassCount, ...]
    explanation: Explanation
    digest: str
    nans: NanBits | None = None
    calls: tuple[CallFault, ...] = ()
    refused: tuple[str, ...] = ()
    #: Of blocks: what became of those with a NaN or infinity, which no rule tells.
    specials: tuple[str, ...] = ()
    #: By which rule results are judged for which there are several.
    rule: str = ""
    #: Verdicts of this name share a line of the report, if they have one explanation.
    alike: str = ""
    #: Whether the same call gives other results each time: then nothing is counted.
    unsteady: bool = False

    @property
    def right(self) -> bool:
        """Whether nothing is wrong, with a pattern or a call."""
        return not (self.wrong or self.calls)

    @property
    def examples(self) -> list[Example]:
        """Wrong results, the nearest to 1 first; one for each effect if they are explained."""
        every = [example for count in self.classes for example in count.first]
        every.sort(key=lambda example: example.distance)
        first = {example.effect: example for example in reversed(every)}
        return [e for e in every if not self.explanation.complete or first[e.effect] is e]

    @property
    def causes(self) -> tuple[str, ...]:
        """The causes of the faults of calls."""
        return tuple(fault.cause for fault in self.calls)

    @property
    def pair(self) -> Pair:
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
        """The counts, the classes, the explanation, and the faults of calls in words."""
        causes = "; ".join(self.causes)
        head = f"{self.wrong:,} of {self.tried:,} wrong"
        if self.unsteady:
            return causes
        if self.wrong:
            which = ", ".join(count.sentence(self.dtype) for count in self.classes)
            told = f"{head}: {which}; {self.explanation}"
            return f"{told}; {causes}" if causes else told
        if causes:
            return f"every pattern is right, but {causes}"
        nans = self.nans.sentence if self.nans else ""
        return f"every number is right; {nans}" if nans else head

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
            "deviations": [one.name for one in self.explanation.deviations],
            "nans": self.nans and self.nans.as_data(),
            "rule": self.rule or None,
            "calls": [fault.as_data() for fault in self.calls],
            "refused": list(self.refused),
            "specials": list(self.specials),
            "sentence": str(self),
            "sha256": self.digest,
        }


@dataclass(frozen=True, slots=True)
class Lacking:
    """A dtype and direction that the runtime does not support, or ``failed`` on; the reason."""

    dtype: str
    rounding: str
    why: str
    failed: bool = False

    @property
    def pair(self) -> Pair:
        """Dtype and direction."""
        return self.dtype, self.rounding

    @property
    def sentence(self) -> str:
        """What it is, and the reason."""
        return f"{'failed' if self.failed else 'not supported'}: {self.why}"

    def __str__(self) -> str:
        return f"{self.dtype} {self.rounding}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class Report:
    """The verdicts on a runtime's dtypes and directions, and those that it does not support."""

    runtime: str
    verdicts: tuple[Verdict, ...]
    lacking: tuple[Lacking, ...] = ()
    operator: str = "round"
    #: What was assumed, in sentences.
    notes: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        """Whether every result is right to the bit, and the runtime failed on no dtype.

        NaNs' bits that are only reported do not count.
        """
        failed = any(row.failed for row in self.lacking)
        return not failed and all(verdict.right for verdict in self.verdicts)

    def check(self) -> None:
        """Raise ``AssertionError`` with the whole report if anything is wrong: for tests."""
        if not self.right:
            raise AssertionError(f"wrong results\n{self}")

    def __str__(self) -> str:
        """The whole report; faults that several directions share are reported once."""
        lines = [self.runtime, "", *_table(self)]
        wrong = [verdict for verdict in self.verdicts if not verdict.right]
        for alike in _grouped(wrong, _likeness):
            examples = alike[0].examples
            examples += [fault.example for fault in alike[0].calls if fault.example]
            lines += ["", f"{_named(alike)}: {alike[0].sentence}."]
            lines += [f"  {example}" for example in examples]
        lines += _alike((v.dtype, v.nans.sentence if v.nans else "") for v in self.verdicts)
        lines += _alike((v.dtype, RULES.get(v.rule, "")) for v in self.verdicts)
        lines += _apart(dict.fromkeys(f"refused: {r}" for v in self.verdicts for r in v.refused))
        lines += _apart(dict.fromkeys(told for v in self.verdicts for told in v.specials))
        rows = _grouped(self.lacking, lambda row: row.sentence)
        lines += _apart(f"{_folded(some)}: {some[0].sentence}" for some in rows)
        return "\n".join([*lines, *_apart(self.notes)])

    def as_data(self) -> dict[str, Any]:
        """The report as JSON values, which are also the form of a baseline."""
        return {
            "runtime": self.runtime,
            "operator": self.operator,
            "right": self.right,
            "verdicts": [verdict.as_data() for verdict in self.verdicts],
            "lacking": [asdict(row) for row in self.lacking],
            "notes": list(self.notes),
        }


def junit_xml(report: Report, complaints: Complaints) -> bytes:
    """A test suite of the runtime: complaints are failures; unsupported pairs are skipped."""
    reasons = {row.pair: row.why for row in report.lacking}
    examples = {
        verdict.pair: "\n".join(
            [
                *(str(example) for count in verdict.classes for example in count.first),
                *(str(fault.example) for fault in verdict.calls if fault.example),
            ]
        )
        for verdict in report.verdicts
    }
    cases = []
    for pair in (*examples, *reasons):
        name, told = " ".join(pair), examples.get(pair, "")
        if pair in complaints:
            case = Case(report.runtime, name, "failure", complaints[pair], told)
        elif pair in reasons:
            case = Case(report.runtime, name, "skipped", f"not supported: {reasons[pair]}")
        else:
            told = told and f"known errors:\n{told}"
            case = Case(report.runtime, name, told and "system-out", text=told)
        cases.append(case)
    return junit_document(report.runtime, cases)


@dataclass(frozen=True, slots=True)
class Case:
    """A case of a test suite; without a ``kind`` of element in it, it passed."""

    classname: str
    name: str
    kind: str = ""
    message: str = ""
    text: str = ""


def junit_document(name: str, cases: Sequence[Case]) -> bytes:
    """A test suite as JUnit's XML."""
    suites = Element("testsuites")
    kinds = Counter(case.kind for case in cases)
    suite = SubElement(
        suites,
        "testsuite",
        name=name,
        tests=str(len(cases)),
        failures=str(kinds["failure"]),
        errors=str(kinds["error"]),
        skipped=str(kinds["skipped"]),
    )
    for case in cases:
        element = SubElement(suite, "testcase", classname=case.classname, name=case.name)
        if case.kind:
            message = {"message": case.message} if case.message else {}
            SubElement(element, case.kind, message).text = case.text
    indent(suites)
    document: bytes = tostring(suites, "utf-8", xml_declaration=True)
    return document + b"\n"


def _table(report: Report) -> list[str]:
    """The counts of patterns, tried and wrong, by dtype and direction."""
    roundings = list(dict.fromkeys(verdict.rounding for verdict in report.verdicts))
    head = ["dtype", "patterns tried", *(f"wrong in {name}" for name in roundings)]
    # With all five directions, too, a row fits into 80 columns.
    rows = [head] if len(roundings) < 3 else _stacked(head)
    for dtype, verdicts in groupby(report.verdicts, lambda verdict: verdict.dtype):
        found = {verdict.rounding: verdict for verdict in verdicts}
        tried = next(iter(found.values())).tried
        cells = [f"{found[r].wrong:,}" if r in found else "-" for r in roundings]
        rows.append([dtype, f"{tried:,}", *cells])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]


def _stacked(head: Sequence[str]) -> list[list[str]]:
    """A table's head in lines: the words of each cell above each other."""
    words = [re.findall(r"wrong in|ties_to_|toward_|\S+?(?=$| )", cell) for cell in head]
    lines = max(map(len, words))
    return [list(line) for line in zip(*([""] * (lines - len(w)) + w for w in words), strict=True)]


def _grouped(rows: Iterable[Row], key: Callable[[Row], object]) -> list[list[Row]]:
    """The rows in groups of equal keys, in the order in which they begin."""
    groups: dict[object, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.values())


def _likeness(verdict: Verdict) -> object:
    """The key of the verdicts that share a line of the report."""
    if verdict.alike and verdict.explanation.complete:
        return verdict.alike, str(verdict.explanation), verdict.causes
    return verdict.dtype, verdict.digest, verdict.causes


def _named(rows: Sequence[Verdict | Lacking]) -> str:
    """The dtypes of rows, and their directions."""
    dtypes, roundings = (dict.fromkeys(each) for each in zip(*(r.pair for r in rows), strict=True))
    return f"{' and '.join(dtypes)} {', '.join(roundings)}"


def _folded(rows: Sequence[Lacking]) -> str:
    """The same of the first dtype, and how many more there are."""
    own = [row for row in rows if row.dtype == rows[0].dtype]
    more = len({row.dtype for row in rows}) - 1
    return f"{_named(own)}{f' and {more} more' if more else ''}"


def _alike(told: Iterable[tuple[str, str]]) -> list[str]:
    """One line per sentence, with the dtypes it is about; empty sentences are dropped."""
    return _apart(
        f"{', '.join(dict.fromkeys(dtype for dtype, _ in alike))}: {alike[0][1]}"
        for alike in _grouped([row for row in told if row[1]], lambda row: row[1])
    )


def _apart(lines: Iterable[str]) -> list[str]:
    """The lines below an empty one, if there are any."""
    some = list(lines)
    return ["", *some] if some else []
