"""The GPU kernels of conversions: one text, and the constants of two formats.

An operand is a sign and a significand, whose leading bit is moved to the top of a word, with the
exponent of that bit. ``drop`` bits of it are beyond the last place of the result. They are
compared with a threshold that the direction gives. This is integer arithmetic alone, so no option
of a compiler changes a result. Operands whose leading bit may stay where it is, because they are
subnormal in the result too, are not normalized: ``up`` is a constant for them.

A thread loads the elements of 16 bytes of the wider type, and stores whole bytes: two elements of 4
bits each. The thread after the last whole carrier does the rest, byte by byte. What it stores it
never loads again, so the result may take the operands' place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from tensor_round.contract.dtypes import DType
from tensor_round.contract.functions import Convert, Function, ReducePrecision
from tensor_round.contract.rounding import Rounding

from .kernels import CARRIER_BYTES, PATTERNS, KernelSource

#: The result is one more than ``kept`` if what was dropped exceeds this. ``half`` is half of the
#: last place, and the greatest word is never exceeded.
_THRESHOLDS: dict[Rounding, str] = {
    Rounding.TIES_TO_EVEN: "half - (kept & 1)",
    Rounding.TIES_TO_AWAY: "half - 1",
    Rounding.TOWARD_ZERO: "most",
    Rounding.TOWARD_POSITIVE: "negative ? most : 0",
    Rounding.TOWARD_NEGATIVE: "negative ? 0 : most",
}
#: Whether a number beyond the largest becomes the largest: of positive and of negative operands.
_STOPS: dict[Rounding, tuple[bool, bool]] = {
    Rounding.TIES_TO_EVEN: (False, False),
    Rounding.TIES_TO_AWAY: (False, False),
    Rounding.TOWARD_ZERO: (True, True),
    Rounding.TOWARD_POSITIVE: (False, True),
    Rounding.TOWARD_NEGATIVE: (True, False),
}

#: ``left`` and ``right`` shift by any number of bits from 0 on.
_WORDS = """
constexpr int bits = {bits};
constexpr word most = {most:#x};
constexpr word half = {half:#x};
__device__ __forceinline__ int leading_zeros(const word w) {{ return {clz}(w); }}
__device__ __forceinline__ word right(const word w, const int by) {{
  return by < bits ? w >> (by & bits - 1) : 0;
}}
__device__ __forceinline__ word left(const word w, const int by) {{
  return by < bits ? w << (by & bits - 1) : 0;
}}
"""
_WORD = {32: ("unsigned int", "__clz"), 64: ("unsigned long long", "__clzll")}

#: ``field`` is at least ``least``: a subnormal has the exponent of the least normal number, and no
#: hidden bit.
_FROM_FLOAT = """
  const word m = x & {magnitude:#x};
  const bool negative = (x & {sign:#x}) != 0, infinite = m == {infinity:#x};
  const int stored = m >> {fraction}, field = stored < {least} ? {least} : stored;
  const word hidden = stored < {least} ? 0 : {hidden:#x}, s = m & {hidden:#x} - 1 | hidden;
  const int up = {up};
  const word top = s << up;
  const int exponent = field {excess} - up;
"""
_FROM_INTEGER = """
  const bool negative = (x & {sign:#x}) != 0, infinite = false;
  const word s = negative ? 0 - x & {ones:#x} : x;
  const int up = {up};
  const word top = s << up;
  const int exponent = bits - 1 - up;
"""
#: ``under`` counts the places by which the operand is below the least normal number. All that
#: drops one bit more than a word has is less than half.
_TO_FLOAT = """
  const int place = exponent + {bias}, field_of_result = place < {least} ? {least} : place;
  const int under = field_of_result - place;
  const int drop = bits - 1 - {fraction} + (under > {fraction} + 2 ? {fraction} + 2 : under);
  const word base = field_of_result - 1;
"""
_TO_INTEGER = """
  const bool beyond = exponent >= bits;
  const int drop = beyond ? 0 : exponent + 2 < 0 ? bits + 1 : bits - 1 - exponent;
"""
_ROUNDED = """
  const word kept = right(top, drop), rest = {rest};
  word y = kept + (rest > ({threshold}) ? 1 : 0){base};
"""
#: The last bit of a float's word is clear, so that it can make room.
_REST = {True: "left(top >> 1, bits + 1 - drop)", False: "left(top, bits - drop)"}
_CONVERTED = """
__device__ __forceinline__ word converted(const word x) {{
{operand}{rounded}  return {result};
}}
"""
#: Of a type to itself; NaNs keep their bits.
_SAME = """
typedef unsigned int word;
__device__ __forceinline__ word converted(const word x) { return x; }
"""
#: Rounds the fraction at its place in the pattern, so that a carry walks into the exponent.
_REDUCED = """
__device__ __forceinline__ word converted(const word x) {{
  const word m = x & {magnitude:#x}, s = x & {sign:#x};
  const bool negative = s != 0;
  const word kept = right(m, {drop}), rest = left(m, bits - {drop});
  word y = left(kept + (rest > ({threshold}) ? 1 : 0), {drop});
  y = y > {largest:#x} ? {infinite:#x} : y < {least:#x} ? 0 : y;
  return {is_nan} ? x : y | {sign_of_result};
}}
"""

#: A part is what a register holds of a carrier: an element, or several.
_RUN = """
{setup}struct alignas({source_bytes}) Operands {{ {source_part} parts[{source_parts}]; }};
struct alignas({target_bytes}) Results {{ {target_part} parts[{target_parts}]; }};
const long long whole = count / {n};
if (i < whole{fits}) {{
  const Operands operands = ((const Operands*)&x[0])[i];
  Results results = {{}};
  #pragma unroll
  for (int k = 0; k < {n}; ++k)
    results.parts[k / {target_each}] |= {apply}(
      operands.parts[k / {source_each}] >> k % {source_each} * {source_width} & {source_ones:#x}
    ) << k % {target_each} * {target_width};
  ((Results*)&y[0])[i] = results;
}} else {{
  for (long long k = {begin}; k < {end}; k += {target_pack}) {{
    {target_pattern} results = 0;
    for (long long j = k; j < count & j < k + {target_pack}; ++j) {{
      const {source_pattern} operands = ((const {source_pattern}*)&x[0])[j / {source_pack}];
      results |= {apply_alone}(
        operands >> j % {source_pack} * {source_width} & {source_ones:#x}
      ) << j % {target_pack} * {target_width};
    }}
    (({target_pattern}*)&y[0])[k / {target_pack}] = results;
  }}
}}
"""


def distinct(function: Convert, source: DType, target: DType) -> Convert:
    """The function without what means nothing for these types."""
    if target.is_float:
        return function
    rounding = function.rounding if source.is_float else Rounding.TOWARD_ZERO
    return Convert(rounding, saturates=function.saturates and not source.is_float)


@cache
def conversion_kernel(function: Function, source: DType, target: DType) -> KernelSource:
    """A kernel that applies a conversion to ``count`` elements at ``x``, into ``y``.

    Both are aligned to 16 bytes. They may be identical if the types have one width, and otherwise
    share no byte.
    """
    name, bits, body = _TEXTS[type(function)](function, source, target)
    return KernelSource(
        name=f"tensor_round_{name}",
        inputs="raw uint8 x, int64 count",
        outputs="raw uint8 y",
        preamble=f"namespace tensor_round {{\n{_with_words(bits, body)}}}\n",
        operation=run_text(source, target),
    )


def converted_text(source: DType, target: DType, *, saturates: bool = False) -> str:
    """The function ``converted`` alone, of an operand's pattern, for ties to even."""
    if source is target:
        return _SAME
    function = distinct(Convert(Rounding.TIES_TO_EVEN, saturates), source, target)
    return _with_words(*_converted(function, source, target))


def _with_words(bits: int, body: str) -> str:
    word, clz = _WORD[bits]
    words = _WORDS.format(bits=bits, most=(1 << bits) - 1, half=1 << (bits - 1), clz=clz)
    return f"typedef {word} word;{words}{body}"


def elements(source: DType, target: DType) -> int:
    """The elements of a thread: those of a carrier of the wider type."""
    return 8 * CARRIER_BYTES // max(source.width, target.width)


def _word_bits(*dtypes: DType) -> int:
    return 64 if any(dtype.width == 64 for dtype in dtypes) else 32


def _conversion(function: Convert, source: DType, target: DType) -> tuple[str, int, str]:
    """The name of a kernel, the bits of its word, and its functions."""
    function = distinct(function, source, target)
    name = f"convert_{source.name}_{target.name}_{function.rounding}"
    name += "_saturated" if function.saturates else ""
    return name, *_converted(function, source, target)


def _reduction(function: ReducePrecision, source: DType, _: DType) -> tuple[str, int, str]:
    """The same of a reduction of precision."""
    bits = f"{function.exponent_bits}_{function.mantissa_bits}"
    return f"reduce_{source.name}_{bits}_{function.rounding}", *_reduced(function, source)


def _converted(function: Convert, source: DType, target: DType) -> tuple[int, str]:
    """The bits of a word, and the functions of a conversion."""
    bits = _word_bits(source, target)
    if target.is_float:
        rounded, result = _to_float(function, source, target)
    else:
        rounded, result = _to_integer(function, source, target)
    operand = _operand(source, target, bits)
    return bits, _CONVERTED.format(operand=operand, rounded=rounded, result=result)


def _operand(source: DType, target: DType, bits: int) -> str:
    if not source.is_float:
        up = "leading_zeros(s | 1)" if target.is_float else "0"
        return _FROM_INTEGER.format(sign=source.sign_bit, ones=_ones(source), up=up)
    # The magnitudes of subnormals are right as they are, where no result of them is normal.
    is_fixed = not target.is_float or (
        target.is_signed and source.exponent_bias >= target.exponent_bias
    )
    place = bits - 1 - source.mantissa_bits
    return _FROM_FLOAT.format(
        magnitude=_magnitude(source),
        sign=source.sign_bit,
        infinity=source.exponent_mask if source.has_infinity else _ones(source) + 1,
        fraction=source.mantissa_bits,
        hidden=1 << source.mantissa_bits,
        least=_least_field(source),
        up=place if is_fixed else "leading_zeros(s | 1)",
        excess=f"{place - source.exponent_bias:+d}".replace("-", "- ").replace("+", "+ "),
    )


def _to_float(function: Convert, source: DType, target: DType) -> tuple[str, str]:
    largest, nan, least = target.largest, target.nan, _least_field(target)
    without_infinity = largest if nan is None else nan
    infinite = target.exponent_mask if target.has_infinity else without_infinity
    if function.saturates:
        infinite = largest
    positive, negative = (
        f"{largest if stops else infinite:#x}" for stops in _STOPS[function.rounding]
    )
    beyond = positive if positive == negative else f"negative ? {negative} : {positive}"
    rounding = function.rounding
    if not least and rounding is Rounding.TIES_TO_EVEN:
        rounding = Rounding.TIES_TO_AWAY  # a power of two is never even
    zero = without_infinity if not least and not function.saturates else 0
    less = 0 if rounding is Rounding.TOWARD_POSITIVE else zero
    fraction = target.mantissa_bits
    rounded = _TO_FLOAT.format(bias=target.exponent_bias, least=least, fraction=fraction)
    rounded += _ROUNDED.format(
        rest=_REST[source.is_float],
        threshold=_THRESHOLDS[rounding],
        base=f" + (base << {fraction})",
    )
    # Below the least of powers of two there is neither a number nor zero.
    under = "" if least else f"place < 0 ? {less:#x} : "
    rounded += f"""\
  y = {under}y > {largest:#x} ? {beyond} : y;
  y = s == 0 ? {zero:#x} : infinite ? {infinite:#x} : y;
  y = {_is_nan(source)} ? {without_infinity:#x} : y;
"""
    if not target.is_signed:
        return rounded, f"negative & s != 0 ? {nan:#x} : y"
    # A zero has no sign where that would be the NaN.
    sign = "y == 0 ? 0 : " if target.specials == "negative_zero" else ""
    return rounded, f"y | (negative ? {sign}{target.sign_bit:#x} : 0)"


def _to_integer(function: Convert, source: DType, target: DType) -> tuple[str, str]:
    ones, is_wrapped = _ones(target), not source.is_float and not function.saturates
    ends = (ones >> target.is_signed, target.sign_bit)
    rounded = _TO_INTEGER + _ROUNDED.format(
        rest=_REST[source.is_float],
        threshold=_THRESHOLDS[function.rounding],
        base="",
    )
    if not is_wrapped:
        rounded += f"""\
  const word end = negative ? {ends[1]:#x} : {ends[0]:#x};
  y = y > end | beyond | infinite ? end : y;
  y = {_is_nan(source)} ? 0 : y;
"""
    return rounded, f"(negative ? 0 - y : y) & {ones:#x}"


def _reduced(function: ReducePrecision, dtype: DType) -> tuple[int, str]:
    """The bits of a word, and the functions of a reduction of precision."""
    fraction, nan = dtype.mantissa_bits, dtype.nan
    largest, least = dtype.largest, 0
    if function.exponent_bits < dtype.exponent_bits:
        bias = (1 << (function.exponent_bits - 1)) - 1
        largest = min(largest, (dtype.exponent_bias + bias + 1 << fraction) - 1)
        least = dtype.exponent_bias - bias + 1 << fraction
    without_infinity = dtype.largest if nan is None else nan
    bits = _word_bits(dtype)
    return bits, _REDUCED.format(
        magnitude=_magnitude(dtype),
        sign=dtype.sign_bit,
        drop=max(fraction - function.mantissa_bits, 0),
        threshold=_THRESHOLDS[function.rounding],
        largest=largest,
        infinite=dtype.exponent_mask if dtype.has_infinity else without_infinity,
        least=least,
        is_nan=_is_nan(dtype),
        sign_of_result="(y == 0 ? 0 : s)" if dtype.specials == "negative_zero" else "s",
    )


def _ones(dtype: DType) -> int:
    return (1 << dtype.width) - 1


def _magnitude(dtype: DType) -> int:
    """The bits of exponent and fraction."""
    return _ones(dtype) ^ dtype.sign_bit


def _least_field(dtype: DType) -> int:
    """The exponent field of the least normal number: 0 in a type of powers of two alone."""
    return int(dtype.is_signed)


def _is_nan(dtype: DType) -> str:
    """Whether ``x``, whose magnitude is ``m``, is a NaN."""
    return {
        "ieee": f"m > {dtype.exponent_mask:#x}",
        "all_ones": f"m == {dtype.nan:#x}" if dtype.nan else "",
        "negative_zero": f"x == {dtype.sign_bit:#x}",
        "none": "false",
    }[dtype.specials]


@dataclass(frozen=True, slots=True)
class Run:
    """What a thread does to the patterns of its elements, as C.

    After ``setup`` it applies ``apply`` to those of a whole carrier, if ``fits`` allows it, and
    ``apply_alone`` to those of ``begin`` to ``end`` one by one.
    """

    setup: str = ""
    fits: str = ""
    apply: str = "tensor_round::converted"
    apply_alone: str = "tensor_round::converted"
    begin: str = "whole * {n}"
    end: str = "count"


def run_text(source: DType, target: DType, run: Run = Run()) -> str:
    """What a thread does, as :class:`Run` has it; ``{n}`` there are the elements of a thread."""
    n = elements(source, target)
    parts: dict[str, object] = {}
    for side, dtype in (("source", source), ("target", target)):
        nbytes = n * dtype.width // 8
        part = max(dtype.itemsize, min(nbytes, 4))
        parts |= {
            f"{side}_bytes": nbytes,
            f"{side}_part": PATTERNS[part],
            f"{side}_parts": nbytes // part,
            f"{side}_each": 8 * part // dtype.width,
            f"{side}_width": dtype.width,
            f"{side}_ones": _ones(dtype),
            f"{side}_pattern": PATTERNS[dtype.itemsize],
            f"{side}_pack": 8 * dtype.itemsize // dtype.width,
        }
    made = {name: text.format(n=n) for name, text in asdict(run).items()}
    return _RUN.format(n=n, **made, **parts)


#: The makers of kernels, by the kind of function.
_TEXTS: dict[type[Function], Callable[[Any, DType, DType], tuple[str, int, str]]] = {
    Convert: _conversion,
    ReducePrecision: _reduction,
}
