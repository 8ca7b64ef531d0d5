"""What is to be proved of a result: IEEE 754's roundToIntegral, as SMT-LIB defines it.

The definition is SMT-LIB's theory of floats, which is IEEE 754's. A format that solvers lack is
embedded exactly into one that they have. Nothing here is the product's but the row of a dtype.
"""

from __future__ import annotations

from tensor_round.contract.dtypes import DType

from .smt import FORMATS, OPERATIONS, Refused, Script, Term, bits, truth


def is_rounded(script: Script, dtype: DType, rounding: str, x: Term, y: Term) -> Term:
    """That ``y`` is ``x`` rounded, element by element: words may have several."""
    lanes = [
        [script.extract(word, low, dtype.width) for word in (x, y)]
        for low in range(0, x.sort.width, dtype.width)
    ]
    return script.all(*(_is_rounded(script, dtype, rounding, *lane) for lane in lanes))


def _is_rounded(script: Script, dtype: DType, rounding: str, x: Term, y: Term) -> Term:
    operand, result = value(script, dtype, x), value(script, dtype, y)
    right = script.apply(direction(rounding), operand)
    if dtype.specials == "negative_zero":
        # There is no -0: adding +0 to it makes +0, and changes no other number.
        right = script.apply("add", right, script.real(0.0, right.sort.width))
    # SMT-LIB's "=" tells the zeros apart. It holds of any two NaNs, so those are compared as bits.
    rounded = script.apply("same", result, right)
    return script.select(is_nan(script, dtype, x), script.apply("eq", x, y), rounded)


def direction(rounding: str) -> str:
    """SMT-LIB's name of a rounding: ``ties_to_even`` is roundNearestTiesToEven."""
    words = "".join(map(str.capitalize, rounding.split("_")))
    name = f"roundNearest{words}" if words.startswith("Ties") else f"round{words}"
    if name not in OPERATIONS["float"]:
        raise Refused(f"{rounding} is no rounding direction of IEEE 754")
    return name


def is_nan(script: Script, dtype: DType, x: Term) -> Term:
    """Whether a pattern is a NaN: above infinity, or what else the type has for it."""
    if dtype.specials == "none":
        return truth(False)
    if dtype.specials == "negative_zero":
        return script.apply("eq", x, bits(dtype.sign_bit, dtype.width))
    magnitude = script.apply("and", x, bits(dtype.sign_bit - 1, dtype.width))
    last = dtype.exponent_mask if dtype.has_infinity else dtype.sign_bit - 2
    return script.apply("ugt", magnitude, bits(last, dtype.width))


def value(script: Script, dtype: DType, x: Term) -> Term:
    """The value of a pattern that is no NaN, as a float of a format that solvers have.

    With the same exponent bits, a format is the upper part of a wider one. With fewer, its pattern
    stands in the wider format for the value divided by a power of two, the difference of the
    biases: also a subnormal, and an infinity, which then is a number that is an integer.
    """
    width, (exponent_bits, significand) = next(
        (width, (e, s))
        for width, (e, s) in FORMATS.items()
        # Where the wider format has NaNs, these types have numbers.
        if e >= dtype.exponent_bits + (not dtype.has_infinity) and s > dtype.mantissa_bits
    )
    missing, low = exponent_bits - dtype.exponent_bits, significand - 1 - dtype.mantissa_bits
    parts = (
        script.extract(x, dtype.width - 1, 1),
        *((bits(0, missing),) if missing else ()),
        script.extract(x, 0, dtype.width - 1),
        *((bits(0, low),) if low else ()),
    )
    number = script.number(script.join(*parts))
    if not missing:
        return number
    bias = (1 << (exponent_bits - 1)) - 1
    scale = bits((2 * bias - dtype.exponent_bias) << (significand - 1), width)
    return script.apply("mul", number, script.number(scale))  # exact
