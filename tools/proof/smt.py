"""Scripts in SMT-LIB 2.6: terms with sorts, and every operation of every translator, told once.

A term is a name. Each operation defines a new one, so that a script grows linearly with its
program, and a sceptic reads it from top to bottom. Sorts are checked: operands of different
sorts, and operations that are not in the tables, raise :class:`Refused`.

Floats are SMT-LIB's: all NaNs are one value. What pattern a machine gives to a NaN that it
computes is left open: :meth:`Script.bits` declares an arbitrary pattern of the value.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import NamedTuple


class Refused(Exception):
    """A text has something whose meaning is not told here. It is never skipped."""


class Sort(NamedTuple):
    """``kind`` is ``bool``, ``bits`` or ``float``."""

    kind: str
    width: int = 0

    def __str__(self) -> str:
        if self.kind == "bits":
            return f"(_ BitVec {self.width})"
        return f"(_ FloatingPoint {exponent(self)})" if self.kind == "float" else "Bool"


BOOL = Sort("bool")

#: Exponent and significand bits, the hidden one included, of the formats that all solvers have.
FORMATS: dict[int, tuple[int, int]] = {16: (5, 11), 32: (8, 24), 64: (11, 53)}


def exponent(sort: Sort) -> str:
    """Exponent and significand bits of a float's sort, as an index of SMT-LIB."""
    if sort.width not in FORMATS:
        raise Refused(f"floats of {sort.width} bits")
    return "{} {}".format(*FORMATS[sort.width])


class Term(NamedTuple):
    """A name or constant of SMT-LIB; ``literal`` is the value of a constant one."""

    text: str
    sort: Sort
    literal: int | None = None


_SAME, _TRUTH = "same", "truth"
_ARITHMETIC = dict.fromkeys(("add", "sub", "mul", "and", "or", "xor", "not", "neg"), _SAME)
_ORDER = ("lt", "le", "gt", "ge")
_DIRECTIONS = (
    "NearestTiesToEven",
    "NearestTiesToAway",
    "TowardZero",
    "TowardPositive",
    "TowardNegative",
)
#: By kind of operands and name: the symbol, and whether the result has their sort or is a truth.
#: Floats round to nearest, ties to even. "eq" of floats is IEEE 754's: zeros are equal, NaNs not.
#: Shifts by the width or more give 0, or copies of the sign; translators of languages in which
#: they are undefined demand that they do not occur.
OPERATIONS: dict[str, dict[str, tuple[str, str]]] = {
    "bool": {
        **{name: (name, _TRUTH) for name in ("and", "or", "xor", "not")},
        "eq": ("=", _TRUTH),
    },
    "bits": {
        **{name: (f"bv{name}", result) for name, result in _ARITHMETIC.items()},
        **{"shl": ("bvshl", _SAME), "lshr": ("bvlshr", _SAME), "ashr": ("bvashr", _SAME)},
        **{f"{s}{order}": (f"bv{s}{order}", _TRUTH) for s in "us" for order in _ORDER},
        "eq": ("=", _TRUTH),
        "ne": ("distinct", _TRUTH),
    },
    "float": {
        **{name: (f"fp.{name} RNE", _SAME) for name in ("add", "sub", "mul", "fma")},
        **{name: (f"fp.{name}", _SAME) for name in ("neg", "abs")},
        **{"eq": ("fp.eq", _TRUTH), "lt": ("fp.lt", _TRUTH), "gt": ("fp.gt", _TRUTH)},
        **{"le": ("fp.leq", _TRUTH), "ge": ("fp.geq", _TRUTH)},
        **{"is_nan": ("fp.isNaN", _TRUTH), "is_subnormal": ("fp.isSubnormal", _TRUTH)},
        "is_infinite": ("fp.isInfinite", _TRUTH),
        "is_negative": ("fp.isNegative", _TRUTH),
        # Of one value: zeros differ, NaNs do not.
        "same": ("=", _TRUTH),
        **{f"round{way}": (f"fp.roundToIntegral round{way}", _SAME) for way in _DIRECTIONS},
    },
}


@dataclass
class Script:
    """Declarations, definitions and assumptions, in order.

    ``demands`` are truths that the program itself must keep, such as that no shift is longer than
    a word. They are proved with the result.
    """

    lines: list[str] = field(default_factory=lambda: ["(set-logic QF_BVFP)"])
    demands: list[Term] = field(default_factory=list)
    _other_form: dict[str, Term] = field(default_factory=dict)
    _count: int = 0

    def _name(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"

    def define(self, sort: Sort, text: str) -> Term:
        """A name for a term of SMT-LIB."""
        term = Term(self._name("t"), sort)
        self.lines.append(f"(define-fun {term.text} () {sort} {text})")
        return term

    def declare(self, sort: Sort, name: str | None = None) -> Term:
        """An unknown."""
        term = Term(name or self._name("v"), sort)
        self.lines.append(f"(declare-const {term.text} {sort})")
        return term

    def require(self, truth: Term) -> None:
        """Assume a truth from here on."""
        self.lines.append(f"(assert {truth.text})")

    def apply(self, name: str, *operands: Term, flush: bool = False) -> Term:
        """An operation of :data:`OPERATIONS`; ``flush`` has subnormals become zeros (-ftz)."""
        sort = operands[0].sort
        if any(operand.sort != sort for operand in operands):
            raise Refused(f"{name} of {', '.join(str(operand.sort) for operand in operands)}")
        if name not in OPERATIONS[sort.kind]:
            raise Refused(f"{name} of {sort}")
        symbol, result = OPERATIONS[sort.kind][name]
        if flush:
            operands = tuple(self._flushed(operand) for operand in operands)
        text = f"({symbol} {' '.join(operand.text for operand in operands)})"
        made = self.define(sort if result == _SAME else BOOL, text)
        return self._flushed(made) if flush and made.sort == sort else made

    def _flushed(self, value: Term) -> Term:
        zero = self.select(
            self.apply("is_negative", value),
            Term(f"(_ -zero {exponent(value.sort)})", value.sort),
            Term(f"(_ +zero {exponent(value.sort)})", value.sort),
        )
        return self.select(self.apply("is_subnormal", value), zero, value)

    def select(self, choice: Term, yes: Term, no: Term) -> Term:
        """``yes`` where ``choice`` holds, else ``no``."""
        if choice.sort != BOOL or yes.sort != no.sort:
            raise Refused(f"a choice by {choice.sort} of {yes.sort} and {no.sort}")
        return self.define(yes.sort, f"(ite {choice.text} {yes.text} {no.text})")

    def extract(self, value: Term, low: int, width: int) -> Term:
        """``width`` bits from bit ``low`` on."""
        text = f"((_ extract {low + width - 1} {low}) {value.text})"
        return self.define(Sort("bits", width), text)

    def join(self, *parts: Term) -> Term:
        """Bit-vectors side by side, the uppermost first."""
        sort = Sort("bits", sum(part.sort.width for part in parts))
        return self.define(sort, f"(concat {' '.join(part.text for part in parts)})")

    def resize(self, value: Term, width: int, *, signed: bool) -> Term:
        """A bit-vector or truth cut or extended to ``width`` bits."""
        if value.sort == BOOL:
            ones = (1 << width) - 1 if signed else 1
            return self.select(value, bits(ones, width), bits(0, width))
        more = width - value.sort.width
        if more == 0:
            return value
        if value.literal is not None and not signed:
            return bits(value.literal, width)
        if more < 0:
            return self.extract(value, 0, width)
        extend = "sign_extend" if signed else "zero_extend"
        return self.define(Sort("bits", width), f"((_ {extend} {more}) {value.text})")

    def bits(self, value: Term) -> Term:
        """The pattern of a float: of a NaN any pattern, the same each time it is asked for."""
        if value.sort.kind == "bits":
            return value
        if value.sort.kind != "float":
            raise Refused(f"the pattern of {value.sort}")
        if value.text not in self._other_form:
            pattern = self.declare(Sort("bits", value.sort.width))
            self._other_form[value.text] = pattern
            self._other_form[pattern.text] = value
            text = f"(= ((_ to_fp {exponent(value.sort)}) {pattern.text}) {value.text})"
            self.require(Term(text, BOOL))
        return self._other_form[value.text]

    def number(self, pattern: Term) -> Term:
        """The float of a pattern."""
        if pattern.sort.kind == "float":
            return pattern
        if pattern.sort.kind != "bits":
            raise Refused(f"the float of {pattern.sort}")
        if pattern.text not in self._other_form:
            sort = Sort("float", pattern.sort.width)
            value = self.define(sort, f"((_ to_fp {exponent(sort)}) {pattern.text})")
            self._other_form[pattern.text] = value
        return self._other_form[pattern.text]

    def real(self, value: float, width: int) -> Term:
        """A constant float. One that the format does not have is refused."""
        code = {16: "e", 32: "f", 64: "d"}[width]
        packed = struct.pack(f">{code}", value)
        if struct.unpack(f">{code}", packed)[0] != value:
            raise Refused(f"{value.hex()} as a float of {width} bits")
        return self.number(bits(int.from_bytes(packed, "big"), width))

    def converted(self, value: Term, width: int, *, signed: bool = True) -> Term:
        """A float or integer rounded to a float of ``width`` bits."""
        if value.sort == Sort("float", width):
            return value
        sort = Sort("float", width)
        convert = "to_fp" if signed or value.sort.kind == "float" else "to_fp_unsigned"
        return self.define(sort, f"((_ {convert} {exponent(sort)}) RNE {value.text})")

    def is_within(self, value: Term, width: int, *, signed: bool) -> Term:
        """Whether a float is within the range of an integer, when it is truncated; no NaN is."""
        low, above = (-(1 << width - 1), 1 << width - 1) if signed else (0, 1 << width)
        limits = (self.real(float(end), value.sort.width) for end in (low, above))
        relations = zip(("ge", "lt"), limits, strict=True)
        return self.all(*(self.apply(name, value, limit) for name, limit in relations))

    def saturated(self, value: Term, width: int, *, signed: bool) -> Term:
        """A float truncated to an integer: beyond the range the nearest end, of NaN 0."""
        low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
        name = "fp.to_sbv" if signed else "fp.to_ubv"
        made = self.define(Sort("bits", width), f"((_ {name} {width}) RTZ {value.text})")
        # The least is a power of two or 0, and so is what follows the largest.
        floor, above = (self.real(float(end), value.sort.width) for end in (low, high + 1))
        made = self.select(self.apply("lt", value, floor), bits(low, width), made)
        made = self.select(self.apply("ge", value, above), bits(high, width), made)
        return self.select(self.apply("is_nan", value), bits(0, width), made)

    def permuted(self, low: Term, high: Term, selector: Term) -> Term:
        """Four of the eight bytes of two words, by the digits of a constant (PTX's prmt)."""
        if selector.literal is None:
            raise Refused("a permutation of bytes that is not constant")
        digits = [selector.literal >> 4 * place & 15 for place in range(4)]
        if max(digits) > 7 or selector.literal >> 16:
            raise Refused("a permutation that copies signs")
        both = self.join(high, low)
        return self.join(*(self.extract(both, 8 * digit, 8) for digit in reversed(digits)))

    def leading_zeros(self, value: Term) -> Term:
        """How many bits of a bit-vector are zero above its highest one, as one of its width."""
        width = value.sort.width
        count = bits(width, width)
        for place in range(width):
            is_set = self.apply("eq", self.extract(value, place, 1), bits(1, 1))
            count = self.select(is_set, bits(width - 1 - place, width), count)
        return count

    def all(self, *truths: Term) -> Term:
        """Whether all of them hold."""
        return self.define(BOOL, f"(and true {' '.join(truth.text for truth in truths)})")


def bits(value: int, width: int) -> Term:
    """A constant bit-vector."""
    value %= 1 << width
    return Term(f"(_ bv{value} {width})", Sort("bits", width), value)


def truth(value: bool) -> Term:
    """A constant truth."""
    return Term(str(value).lower(), BOOL, int(value))
