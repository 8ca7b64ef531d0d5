"""What is to be proved of a conversion: IEEE 754's rounding, by comparisons alone.

Nothing is rounded here. The magnitudes of a type are numbered as its patterns number them. An
operand rounds to number ``k`` if it reaches ``k``, and does not reach ``k + 1``. What reaches ``k``
is the whole rule of a direction: what lies on ``k`` or beyond, or beyond ``k - 1``, or beyond the
middle of the two. The middle is number ``2 k - 1`` of the type with one more bit of fraction.
Nothing here is the product's but the row of a dtype.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensor_round.contract.dtypes import DType
from tensor_round.contract.functions import Convert, ReducePrecision
from tensor_round.contract.rounding import Rounding

from .smt import Script, Sort, Term, bits, truth

#: Bits of a significand: the middle of two 64-bit integers has 65. Bits of an exponent, and its
#: bias.
SIGNIFICAND, EXPONENT, BIAS = 66, 13, 1 << 12
#: Bits of a key: a magnitude as an exponent above a significand, whose leading bit is at the top.
#: Keys are ordered as what they stand for. That of zero is 0.
KEY = EXPONENT + SIGNIFICAND


def is_converted(
    script: Script, function: Convert, source: DType, target: DType, x: Term, y: Term
) -> Term:
    """That ``y`` is the pattern ``x`` converted to another type."""
    operand = Operand(script, source, x)
    if target.is_float:
        return _is_float(script, function, target, operand, y)
    if source.is_float:
        return _is_integer(script, function, target, operand, y)
    value = operand.integer()
    if function.saturates:
        low, high = (bits(end, SIGNIFICAND) for end in _range(target))
        value = script.select(script.apply("slt", value, low), low, value)
        value = script.select(script.apply("sgt", value, high), high, value)
    return script.apply("eq", y, script.extract(value, 0, target.width))


class Operand:
    """What a pattern means: its sign, whether it is a number, and the key of its magnitude."""

    def __init__(self, script: Script, dtype: DType, x: Term) -> None:
        self.script, self.dtype, self.x = script, dtype, x
        sign = script.apply("and", x, bits(dtype.sign_bit, dtype.width))
        self.negative = script.apply("ne", sign, bits(0, dtype.width))
        self.is_nan = self.is_infinite = truth(False)
        if dtype.is_float:
            magnitude = script.apply("xor", x, sign)
            self._tell_specials(magnitude)
            self.key = Magnitudes.of(dtype).key(script, magnitude)
        else:
            value = self.integer()
            magnitude = script.select(self.negative, script.apply("neg", value), value)
            self.key = _key(script, magnitude, bits(0, EXPONENT))
        self.is_zero = script.apply("eq", self.key, bits(0, KEY))

    def integer(self) -> Term:
        """The value of an integer, in a word that has the ends of every type."""
        return self.script.resize(self.x, SIGNIFICAND, signed=self.dtype.is_signed)

    def _tell_specials(self, magnitude: Term) -> None:
        script, dtype = self.script, self.dtype
        if dtype.specials == "ieee":
            infinity = bits(dtype.exponent_mask, dtype.width)
            self.is_infinite = script.apply("eq", magnitude, infinity)
            self.is_nan = script.apply("ugt", magnitude, infinity)
        elif dtype.nan is not None:
            pattern = self.x if dtype.specials == "negative_zero" else magnitude
            self.is_nan = script.apply("eq", pattern, bits(dtype.nan, dtype.width))

    def is_away(self, rounding: str) -> Term:
        """Whether a directed rounding goes away from zero here."""
        if rounding == "toward_zero":
            return truth(False)
        is_negative = rounding == "toward_negative"
        return self.negative if is_negative else self.script.apply("not", self.negative)


@dataclass(frozen=True)
class Magnitudes:
    """The magnitudes of a type in order, continued beyond its largest; number 0 is zero.

    ``fraction`` is None for integers. Without zero, as in a type of powers of two alone, number 0
    is the least of them.
    """

    fraction: int | None
    bias: int
    has_zero: bool = True

    @classmethod
    def of(cls, dtype: DType) -> Magnitudes:
        if not dtype.is_float:
            return cls(None, 0)
        return cls(dtype.mantissa_bits, dtype.exponent_bias, dtype.is_signed)

    def key(self, script: Script, number: Term, *, halves: bool = False) -> Term:
        """The key of a number; ``halves`` counts halves of the step from each one to the next."""
        if self.fraction is None:
            significand = script.resize(number, SIGNIFICAND, signed=False)
            return _key(script, significand, bits(-halves, EXPONENT))
        width, fraction = number.sort.width, self.fraction + halves
        least = bits(int(self.has_zero), EXPONENT)
        above = script.apply("lshr", number, bits(fraction, width))
        field = script.resize(above, EXPONENT, signed=False)
        stored = script.apply("and", number, bits((1 << fraction) - 1, width))
        significand = script.resize(stored, SIGNIFICAND, signed=False)
        is_normal = script.apply("uge", field, least)
        with_hidden = script.apply("or", significand, bits(1 << fraction, SIGNIFICAND))
        exponent = script.select(is_normal, field, least)
        return _key(
            script,
            script.select(is_normal, with_hidden, significand),
            script.apply("sub", exponent, bits(self.bias + fraction, EXPONENT)),
        )

    def reaches(self, script: Script, rounding: str, operand: Operand, k: Term) -> Term:
        """Whether an operand's magnitude rounds to number ``k`` or to one beyond it."""
        width = k.sort.width
        is_first = script.apply("eq", k, bits(0, width))
        if rounding.startswith("ties"):
            below = script.apply("sub", script.apply("add", k, k), bits(1, width))
            # Nothing is nearer to what is below the least of powers of two.
            middle = script.select(is_first, bits(0, KEY), self.key(script, below, halves=True))
            takes_ties = truth(True)
            if rounding == "ties_to_even" and self.has_zero:
                takes_ties = script.apply("eq", script.extract(k, 0, 1), bits(0, 1))
            reached = script.select(
                takes_ties,
                script.apply("uge", operand.key, middle),
                script.apply("ugt", operand.key, middle),
            )
        else:
            below = self.key(script, script.apply("sub", k, bits(1, width)))
            previous = script.select(is_first, bits(0, KEY), below)
            reached = script.select(
                operand.is_away(rounding),
                script.apply("ugt", operand.key, previous),
                script.apply("uge", operand.key, self.key(script, k)),
            )
        return script.select(is_first, truth(True), reached) if self.has_zero else reached

    def is_rounded(self, script: Script, rounding: str, operand: Operand, k: Term) -> Term:
        """Whether an operand's magnitude rounds to number ``k``."""
        following = script.apply("add", k, bits(1, k.sort.width))
        exceeded = self.reaches(script, rounding, operand, following)
        reached = self.reaches(script, rounding, operand, k)
        return script.apply("and", reached, script.apply("not", exceeded))


def _key(script: Script, significand: Term, exponent: Term) -> Term:
    is_zero = script.apply("eq", significand, bits(0, SIGNIFICAND))
    exponent = script.apply("add", exponent, bits(BIAS + SIGNIFICAND - 1, EXPONENT))
    for step in (64, 32, 16, 8, 4, 2, 1):
        top = script.extract(significand, SIGNIFICAND - step, step)
        is_clear = script.apply("eq", top, bits(0, step))
        moved = script.apply("shl", significand, bits(step, SIGNIFICAND))
        lower = script.apply("sub", exponent, bits(step, EXPONENT))
        significand = script.select(is_clear, moved, significand)
        exponent = script.select(is_clear, lower, exponent)
    return script.select(is_zero, bits(0, KEY), script.join(exponent, significand))


def _numbered(script: Script, pattern: Term) -> Term:
    """A number of a pattern, in a word that has its double and its neighbours."""
    return script.resize(pattern, pattern.sort.width + 2, signed=False)


def _range(dtype: DType) -> tuple[int, int]:
    least = -dtype.sign_bit
    return least, least + (1 << dtype.width) - 1


class _Patterns:
    """The results of a float type with the operand's sign; FNUZ types have one zero, one NaN."""

    def __init__(self, script: Script, dtype: DType, operand: Operand) -> None:
        self.script, self.dtype = script, dtype
        none, sign = bits(0, dtype.width), bits(dtype.sign_bit, dtype.width)
        self.sign = script.select(operand.negative, sign, none)
        one_zero = dtype.specials == "negative_zero"
        self.zero = none if one_zero else self.sign
        self.largest = self.of(bits(dtype.largest, dtype.width))
        self.nan = self.largest
        if dtype.nan is not None:
            self.nan = sign if one_zero else self.of(bits(dtype.nan, dtype.width))
        self.infinity = self.nan
        if dtype.has_infinity:
            self.infinity = self.of(bits(dtype.exponent_mask, dtype.width))

    def of(self, magnitude: Term) -> Term:
        return self.script.apply("or", magnitude, self.sign)


def _is_float(script: Script, function: Convert, target: DType, operand: Operand, y: Term) -> Term:
    numbers, patterns = Magnitudes.of(target), _Patterns(script, target, operand)
    rounding, infinity = str(function.rounding), patterns.infinity
    if function.saturates:
        infinity = patterns.largest
    magnitude = script.apply("and", y, bits(~target.sign_bit, target.width))
    k = _numbered(script, magnitude)
    after = bits(target.largest + 1, k.sort.width)
    zero = script.apply("eq", magnitude, bits(0, target.width)), patterns.zero
    number = script.select(*zero, patterns.of(magnitude)) if target.is_signed else magnitude
    right = script.all(
        script.apply("ult", k, after),
        script.apply("eq", y, number),
        numbers.is_rounded(script, rounding, operand, k),
    )

    def exceptions() -> list[tuple[Term, Term]]:
        """Operands, and what they become: the last condition that holds counts."""
        beyond = infinity
        if not rounding.startswith("ties"):
            away = operand.is_away(rounding)
            beyond = script.select(away, infinity, patterns.largest)
        over = numbers.reaches(script, rounding, operand, after)
        found = [(over, beyond), (operand.is_infinite, infinity)]
        if not target.is_signed:
            # What is below the least number, and not rounded up, is as a zero is.
            nothing = bits(0, target.width) if function.saturates else patterns.nan
            least = numbers.key(script, bits(0, k.sort.width))
            if rounding != "toward_positive":
                found.append((script.apply("ult", operand.key, least), nothing))
            found += [(operand.negative, patterns.nan), (operand.is_zero, nothing)]
            ends = script.apply("and", operand.is_infinite, operand.negative)
            found += [(ends, patterns.nan)]
        return [*found, (operand.is_nan, patterns.nan)]

    for condition, result in exceptions():
        right = script.select(condition, script.apply("eq", y, result), right)
    return right


def _is_integer(
    script: Script, function: Convert, target: DType, operand: Operand, y: Term
) -> Term:
    value = script.resize(y, target.width + 2, signed=target.is_signed)
    low, high = (bits(end, value.sort.width) for end in _range(target))
    return _is_nearest(script, str(function.rounding), operand, value, low, high)


def coded_operands(script: Script, source: DType, target: DType, x: Term) -> tuple[Term, Term]:
    """A quotient and a zero point, which lies above it."""
    return script.extract(x, 0, source.width), script.extract(x, source.width, target.width)


def is_coded(script: Script, kind: DType, source: DType, target: DType, x: Term, y: Term) -> Term:
    """That ``y`` is the code of a quotient that is rounded to a type before, and a zero point.

    Less the zero point, it is the integer nearest to the quotient, or an end.
    """
    quotient, point = coded_operands(script, source, target, x)
    if kind is not source:
        rounded = script.declare(Sort("bits", kind.width))
        nearest = Convert(Rounding.TIES_TO_EVEN)
        script.require(is_converted(script, nearest, source, kind, quotient, rounded))
        quotient = rounded
    width = target.width + 3
    y, point = (script.resize(each, width, signed=target.is_signed) for each in (y, point))
    ends = (bits(end, width) for end in _range(target))
    value, low, high = (script.apply("sub", each, point) for each in (y, *ends))
    operand = Operand(script, kind, quotient)
    return _is_nearest(script, "ties_to_even", operand, value, low, high)


def _is_nearest(
    script: Script, rounding: str, operand: Operand, value: Term, low: Term, high: Term
) -> Term:
    """That an integer is the nearest in a direction, or an end of those there are."""
    numbers = Magnitudes(None, 0)
    k = script.select(operand.negative, script.apply("neg", value), value)
    end = script.select(operand.negative, script.apply("neg", low), high)
    following = script.apply("add", end, bits(1, k.sort.width))
    over = script.apply(
        "or", operand.is_infinite, numbers.reaches(script, rounding, operand, following)
    )
    right = script.all(
        script.apply("ule", k, end), numbers.is_rounded(script, rounding, operand, k)
    )
    right = script.select(over, script.apply("eq", k, end), right)
    is_zero = script.apply("eq", value, bits(0, value.sort.width))
    return script.select(operand.is_nan, is_zero, right)


def is_rounded_to_odd(script: Script, source: DType, target: DType, x: Term, y: Term) -> Term:
    """That ``y`` is ``x`` itself, or an odd neighbour of ``x`` if the target does not have it.

    Beyond the largest number that is the largest number. Infinities and NaNs stay what they are.
    """
    operand, made = Operand(script, source, x), Operand(script, target, y)
    k = _numbered(script, script.apply("and", y, bits(target.sign_bit - 1, target.width)))
    one, numbers = bits(1, k.sort.width), Magnitudes.of(target)
    below = numbers.key(script, script.apply("sub", k, one))
    above = numbers.key(script, script.apply("add", k, one))
    is_last = script.apply("eq", k, bits(target.largest, k.sort.width))
    is_inside = script.all(
        script.apply("eq", script.extract(k, 0, 1), bits(1, 1)),
        script.apply("ult", below, operand.key),
        script.apply("or", is_last, script.apply("ult", operand.key, above)),
    )
    is_number = script.apply("ule", k, bits(target.largest, k.sort.width))
    is_same = script.apply("eq", operand.key, made.key)
    right = script.apply("and", is_number, script.apply("or", is_same, is_inside))
    right = script.select(operand.is_infinite, made.is_infinite, right)
    right = script.select(operand.is_nan, made.is_nan, right)
    return script.apply("and", right, script.apply("eq", operand.negative, made.negative))


def is_reduced(script: Script, function: ReducePrecision, dtype: DType, x: Term, y: Term) -> Term:
    """That ``y`` is the pattern ``x`` with fewer bits of exponent and fraction."""
    operand, patterns = Operand(script, dtype, x), None
    patterns = _Patterns(script, dtype, operand)
    rounding = str(function.rounding)
    drop = max(dtype.mantissa_bits - function.mantissa_bits, 0)
    numbers = Magnitudes(dtype.mantissa_bits - drop, dtype.exponent_bias, dtype.is_signed)
    magnitude = script.apply("and", y, bits(~dtype.sign_bit, dtype.width))
    k = _numbered(script, script.apply("lshr", magnitude, bits(drop, dtype.width)))
    zero = script.apply("eq", magnitude, bits(0, dtype.width)), patterns.zero
    number = script.select(*zero, patterns.of(magnitude)) if dtype.is_signed else magnitude
    whole = bits(-1 << drop, dtype.width)
    right = script.all(
        script.apply("eq", script.apply("and", y, whole), y),
        script.apply("eq", y, number),
        numbers.is_rounded(script, rounding, operand, k),
    )
    after, least = (dtype.largest >> drop) + 1, 0
    if function.exponent_bits < dtype.exponent_bits:
        bias = (1 << function.exponent_bits - 1) - 1
        one = 1 << numbers.fraction
        after = min(after, (dtype.exponent_bias + bias + 1) * one)
        least = (dtype.exponent_bias - bias + 1) * one
    width = k.sort.width
    # Where there is no zero, the least number is nearest to it.
    nothing = patterns.zero if dtype.is_signed else bits(0, dtype.width)
    under = script.apply("not", numbers.reaches(script, rounding, operand, bits(least, width)))
    over = numbers.reaches(script, rounding, operand, bits(after, width))
    over = script.apply("or", over, operand.is_infinite)
    for condition, result in (
        (under, nothing),
        (over, patterns.infinity),
        (operand.is_nan, x),
    ):
        right = script.select(condition, script.apply("eq", y, result), right)
    return right
