"""Conversions for the vector units of CPUs, as LLVM assembly: one text, with constants of types.

An operand becomes the magnitude of a ``work`` float, float32 or float64, that has its value
exactly; the type of 64-bit integers has more bits, so those are rounded to odd first. To integers,
the work float is rounded by the processor's instruction; to floats, by :mod:`.llvm_narrowing`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from tensor_round.contract.dtypes import DType
from tensor_round.contract.functions import Convert, Function
from tensor_round.contract.rounding import Rounding

from .conversion_rule import beyond_largest, ends, least_exponent, nan_magnitude
from .conversions import FLOAT32, FLOAT64
from .llvm_instructions import converted, has_instruction
from .llvm_kernels import INSTRUCTIONS, PREFETCH
from .llvm_loops import CONVERT, LANES
from .llvm_narrowing import STOPS, narrowed

# Operands: ``%x``, the pattern, and from floats ``%magnitude``, ``%negative``, ``%nan``, ``%inf``.

_LOAD = """
  %x = load {operands}, ptr %from, align 1"""

_LOAD_PAIRS = """
  %bytes = load {pairs}, ptr %from, align 1
  %low = and {pairs} %bytes, splat (i8 15)
  %high = lshr {pairs} %bytes, splat (i8 4)
  %nibbles = shufflevector {pairs} %low, {pairs} %high, <{lanes} x i32> <{interleaved}>
  %raised_nibbles = shl {operands} %nibbles, splat (i8 4)
  %x = {shift_right} {operands} %raised_nibbles, splat (i8 4)"""

_SPLIT = """
  %word = {zext} {operands} %x to {words}
  %magnitude = and {words} %word, {magnitude_mask}
  %sign = and {words} %word, {source_sign}
  %negative = icmp ne {words} %sign, zeroinitializer
  %positive = xor {choices} %negative, splat (i1 true)"""

#: By what the last patterns of the operands' type mean.
_SPECIALS = {
    "ieee": """
  %nan = icmp ugt {words} %magnitude, {source_exponents}
  %inf = icmp eq {words} %magnitude, {source_exponents}""",
    "all_ones": """
  %nan = icmp eq {words} %magnitude, {source_nan}
  %inf = bitcast {choices} zeroinitializer to {choices}""",
    "negative_zero": """
  %nan = icmp eq {words} %word, {source_nan}
  %inf = bitcast {choices} zeroinitializer to {choices}""",
    "none": """
  %nan = bitcast {choices} zeroinitializer to {choices}
  %inf = bitcast {choices} zeroinitializer to {choices}""",
}

# From the magnitude to ``%wide``, the work float's.

_SAME = """
  %wide = bitcast {words} %magnitude to {words}"""

#: The upper bits of a work float.
_UPPER = """
  %word = {zext} {operands} %x to {words}
  %raised = shl {words} %word, {raise}
  %value = bitcast {words} %raised to {floats}"""

_EXTEND = """
  %single_bits = trunc {words} %magnitude to <{lanes} x i32>
  %single = bitcast <{lanes} x i32> %single_bits to <{lanes} x float>
  %double = fpext <{lanes} x float> %single to {floats}
  %wide = bitcast {floats} %double to {words}"""

#: With the work float's exponent bits, or without numbers below the least normal one.
_RAISE = """
  %raised = shl {words} %magnitude, {raise}
  %finite = add {words} %raised, {rebias}
  %wide = select {choices} %inf, {words} {work_exponents}, {words} %finite"""

#: A number below the least normal one is its pattern, an integer, times the least number.
_RAISE_OR_SCALE = """
  %raised = shl {words} %magnitude, {raise}
  %normal = add {words} %raised, {rebias}
  %integer = uitofp {words} %magnitude to {floats}
  %scaled = fmul {floats} %integer, {least}
  %small = bitcast {floats} %scaled to {words}
  %is_small = icmp ult {words} %magnitude, {source_one}
  %finite = select {choices} %is_small, {words} %small, {words} %normal
  %wide = select {choices} %inf, {words} {work_exponents}, {words} %finite"""

#: From 2^53 on, integers of 64 bits lose 11 bits, rounded to odd: then float64 has them.
_TO_ODD = """
  %lost = and {operands} %x, splat (i64 2047)
  %carried = add {operands} %lost, splat (i64 2047)
  %sticky = or {operands} %carried, %x
  %kept = and {operands} %sticky, splat (i64 -2048)
  %offset = add {operands} %x, splat (i64 {offset})
  %is_exact = icmp ult {operands} %offset, splat (i64 {limit})
  %odd = select {choices} %is_exact, {operands} %x, {operands} %kept"""

_FROM_INTEGER = """
  %number = {itofp} {operands} {integer} to {floats}
  %word = bitcast {floats} %number to {words}
  %wide = and {words} %word, {work_magnitude}
  %sign = and {words} %word, {work_sign}
  %negative = icmp ne {words} %sign, zeroinitializer
  %positive = xor {choices} %negative, splat (i1 true)
  %nan = bitcast {choices} zeroinitializer to {choices}
  %inf = bitcast {choices} zeroinitializer to {choices}"""

# From the work float to ``%result``, the pattern of the target, an integer.

_VALUE = """
  %as_nan = select {choices} %nan, {words} {work_nan}, {words} %wide
  %signs = select {choices} %negative, {words} {work_sign}, {words} zeroinitializer
  %signed_bits = or {words} %as_nan, %signs
  %value = bitcast {words} %signed_bits to {floats}"""

#: What has no integer becomes 0 before it is one, since the processor's result would be undefined.
_TO_INTEGER = (
    _VALUE
    + """
  %integral = call {floats} @{instruction}.v{lanes}f{wide}({floats} %value)
  %is_high = fcmp oge {floats} %integral, {above}
  %is_low = fcmp olt {floats} %integral, {lowest}
  %is_out = or {choices} %is_high, %is_low
  %has_none = or {choices} %is_out, %nan
  %within = select {choices} %has_none, {floats} zeroinitializer, {floats} %integral
  %integers = {fptoi} {floats} %within to {integers}
  %at_least = select {choices} %is_low, {integers} {low}, {integers} %integers
  %bounded = select {choices} %is_high, {integers} {high}, {integers} %at_least
  %result = {trunc_integers} {integers} %bounded to {results}"""
)

_INTEGER_TO_INTEGER = """
{bounded}
  %result = {resize} {operands} %bounded to {results}"""

_AS_IT_IS = """
  %bounded = bitcast {operands} %x to {operands}"""

_CLAMP = """
  %is_low = icmp {lt} {operands} %x, {low}
  %raised = select {choices} %is_low, {operands} {low}, {operands} %x
  %is_high = icmp {gt} {operands} %raised, {high}
  %bounded = select {choices} %is_high, {operands} {high}, {operands} %raised"""

_STORE = """
  store {results} %result, ptr %to, align 1"""

_STORE_PAIRS = """
  %halves = and {results} %result, splat (i8 15)
  %twos = bitcast {results} %halves to <{half_lanes} x i16>
  %highs = lshr <{half_lanes} x i16> %twos, splat (i16 4)
  %both = or <{half_lanes} x i16> %twos, %highs
  %packed = trunc <{half_lanes} x i16> %both to {out_pairs}
  store {out_pairs} %packed, ptr %to, align 1"""


_WIDENED = """
define internal {floats} @widened(ptr %from) alwaysinline {{
{body}
  ret {floats} %value
}}
"""
_NARROWED = """
define internal void @narrowed({floats} %number, ptr %to) alwaysinline {{
  %nan = fcmp uno {floats} %number, zeroinitializer
  %has_sign = xor {choices} %nan, splat (i1 true)
  %word = bitcast {floats} %number to {words}
  %wide = and {words} %word, {work_magnitude}
  %inf = icmp eq {words} %wide, {work_exponents}
  %less = icmp ne {words} %word, %wide
  %negative = and {choices} %less, %has_sign
{body}
  ret void
}}
"""


def is_supported(function: Function, source: DType, target: DType) -> bool:
    """Whether there is a text for a function and its types."""
    if not isinstance(function, Convert):
        return False
    # Without a float that has all 64-bit integers, only the processor's own rounding is left.
    is_wide = not source.is_float and source.width == 64 and target is FLOAT64
    return not is_wide or _is_rounded_at_once(function, source, target)


def _is_rounded_at_once(function: Convert, source: DType, target: DType) -> bool:
    """Whether the processor's conversion of integers gives the result."""
    to_nearest = function.rounding is Rounding.TIES_TO_EVEN
    return not source.is_float and to_nearest and target in (FLOAT32, FLOAT64)


def conversion_text(
    function: Function, source: DType, target: DType, *, prefetch: bool, has_halves: bool
) -> str:
    """The LLVM module of a supported conversion, whose function is ``convert``.

    ``has_halves``: whether the processor converts between float16 and float32.
    """
    assert isinstance(function, Convert)
    values = _values(function, source, target)
    if has_instruction(function, source, target, has_halves):
        body = _LOAD + converted(source, target) + _STORE
    else:
        body = "".join(_body(function, source, target))
    return CONVERT.format(
        prefetch=PREFETCH if prefetch else "",
        body=body.format(**values),
        **values,
    )


def widened_text(source: DType) -> str:
    """The LLVM function ``widened``: a line of floats, a byte each of those of 4 bits, in float32.

    A NaN stays one.
    """
    function = Convert(Rounding.TIES_TO_EVEN)
    if source.exponent_bits == FLOAT32.exponent_bits:
        steps = [_LOAD, _UPPER]
    else:
        steps = [_LOAD, *_widened(function, source, FLOAT32, FLOAT32), _VALUE]
    values = _values(function, source, FLOAT32)
    return _WIDENED.replace("{body}", "".join(steps)).format(**values)


def narrowed_text(work: DType, target: DType, *, saturates: bool) -> str:
    """The LLVM function ``narrowed``, the other way: rounded once, ties to even.

    A NaN becomes the quiet one without sign and payload.
    """
    function = Convert(Rounding.TIES_TO_EVEN, saturates)
    steps = (*narrowed(function, target, work), _STORE)
    values = _values(function, work, target)
    return _NARROWED.replace("{body}", "".join(steps)).format(**values)


def _body(function: Convert, source: DType, target: DType) -> Iterator[str]:
    work = _work(function, source, target)
    yield _LOAD_PAIRS if source.is_sub_byte else _LOAD
    if not (source.is_float or target.is_float):
        yield _INTEGER_TO_INTEGER.replace("{bounded}", _CLAMP if function.saturates else _AS_IT_IS)
    else:
        yield from _widened(function, source, target, work)
        if not target.is_float:
            yield _TO_INTEGER
        else:
            yield from narrowed(function, target, work)
    yield _STORE_PAIRS if target.is_sub_byte else _STORE


def _widened(function: Convert, source: DType, target: DType, work: DType) -> Iterator[str]:
    if not source.is_float:
        if source.width == 64 and not _is_rounded_at_once(function, source, target):
            yield _TO_ODD
        yield _FROM_INTEGER
        return
    yield _SPLIT + _SPECIALS[source.specials]
    if source is work:
        yield _SAME
    elif source is FLOAT32:
        yield _EXTEND
    elif source.exponent_bits == work.exponent_bits or not source.mantissa_bits:
        yield _RAISE
    else:
        yield _RAISE_OR_SCALE


def _work(function: Convert, source: DType, target: DType) -> DType:
    """The float that computes: float32 if it has all operands, and normal numbers for all."""
    if _is_rounded_at_once(function, source, target):
        return target
    needs_more = any(
        dtype.width == 64 or (dtype.is_float and not dtype.mantissa_bits)
        for dtype in (source, target)
    )
    return FLOAT64 if needs_more or (source.width == 32 and not source.is_float) else FLOAT32


def _values(function: Convert, source: DType, target: DType) -> dict[str, Any]:
    """The values in the texts: types, operations, and constants for all lanes."""
    work = _work(function, source, target)
    wide, floats = work.width, "double" if work is FLOAT64 else "float"
    lowest, highest = (0, 0) if target.is_float else ends(target)
    if not (source.is_float or target.is_float):
        lowest, highest = max(lowest, ends(source)[0]), min(highest, ends(source)[1])
    is_beyond_nan = beyond_largest(target, function.saturates) == nan_magnitude(target)
    is_least_kept = function.saturates or function.rounding is Rounding.TOWARD_POSITIVE
    source_bits, target_bits = 8 * source.itemsize, 8 * target.itemsize
    integer_width = max(target.width, 32)
    end_bits = integer_width if source.is_float else source_bits
    odd_offset = 1 << 53 if source.is_signed else 0
    dropped = work.mantissa_bits - target.mantissa_bits
    words = {
        "one": 1,
        "magnitude_mask": (source.sign_bit or 1 << source.width) - 1,
        "source_sign": source.sign_bit,
        "source_exponents": source.exponent_mask,
        "source_nan": source.nan or 0,
        "source_one": 1 << source.mantissa_bits,
        "raise": work.mantissa_bits - source.mantissa_bits,
        "rebias": work.exponent_bias - source.exponent_bias << work.mantissa_bits,
        "work_exponents": work.exponent_mask,
        "work_sign": work.sign_bit,
        "work_magnitude": work.sign_bit - 1,
        "work_nan": nan_magnitude(work),
        "work_fraction": work.mantissa_bits,
        "work_fraction_mask": (1 << work.mantissa_bits) - 1,
        "work_one": 1 << work.mantissa_bits,
        "dropped": dropped,
        "most_shift": work.mantissa_bits + 2,
    }
    if target.is_float:
        least_field = least_exponent(target) + work.exponent_bias
        beyond, target_mask = beyond_largest(target, function.saturates), (1 << target.width) - 1
        words |= {
            "least_field": least_field,
            "least_exponents": least_field << work.mantissa_bits,
            "grid_offset": (dropped << work.mantissa_bits)
            + (-least_field << target.mantissa_bits & target_mask),
            "beyond_number": (beyond << dropped)
            + (work.exponent_bias - target.exponent_bias << work.mantissa_bits),
            "target_mask": target_mask,
            "target_fraction": target.mantissa_bits,
            "largest": target.largest,
            "beyond": beyond,
            "target_nan": nan_magnitude(target),
            "target_sign": target.sign_bit,
        }
    numbers = {"above": float(highest + 1), "lowest": float(lowest)}
    if source.is_float:
        numbers["least"] = 2.0 ** (least_exponent(source) - source.mantissa_bits)
    return {
        "lanes": LANES,
        "lanes_log": LANES.bit_length() - 1,
        "lanes_mask": LANES - 1,
        "half_lanes": LANES // 2,
        "width_in": source.width,
        "width_out": target.width,
        "wide": wide,
        "line_in": source.nbytes(LANES),
        "line_out": target.nbytes(LANES),
        "interleaved": ", ".join(
            f"i32 {lane // 2 + lane % 2 * LANES // 2}" for lane in range(LANES)
        ),
        "shift_right": "ashr" if source.is_signed and not source.is_float else "lshr",
        "operands": f"<{LANES} x i{source_bits}>",
        "results": f"<{LANES} x i{target_bits}>",
        "pairs": f"<{LANES // 2} x i8>",
        "out_pairs": f"<{LANES // 2} x i8>",
        "words": f"<{LANES} x i{wide}>",
        "integers": f"<{LANES} x i{integer_width}>",
        "floats": f"<{LANES} x {floats}>",
        "choices": f"<{LANES} x i1>",
        "zext": "bitcast" if source_bits == wide else "zext",
        "trunc": "bitcast" if target_bits == wide else "trunc",
        "trunc_integers": "bitcast" if target_bits == integer_width else "trunc",
        "resize": _resize(source_bits, target_bits, source.is_signed),
        "itofp": "sitofp" if source.is_signed else "uitofp",
        "fptoi": "fptosi" if target.is_signed or target.width < 32 else "fptoui",
        "integer": "%odd" if source.width == 64 and work is not target else "%x",
        "offset": odd_offset,
        "limit": (1 << 53) + odd_offset,
        "other_nan": "zeroinitializer" if source is work and is_beyond_nan else "%nan",
        "instruction": INSTRUCTIONS[function.rounding],
        "stops": STOPS[function.rounding],
        "lt": "slt" if source.is_signed else "ult",
        "gt": "sgt" if source.is_signed else "ugt",
        "low": f"splat (i{end_bits} {lowest})",
        "high": f"splat (i{end_bits} {highest})",
        "keeps_sign": (
            f"icmp ne <{LANES} x i{wide}> %magnitudes, zeroinitializer"
            if target.specials == "negative_zero"
            else f"bitcast <{LANES} x i1> splat (i1 true) to <{LANES} x i1>"
        ),
        "less_is_nan": f"splat (i1 {str(not is_least_kept).lower()})",
        "zero_is_nan": f"splat (i1 {str(not function.saturates).lower()})",
        **{
            name: f"splat ({floats} 0x{struct.pack('>d', number).hex()})"
            for name, number in numbers.items()
        },
        **{name: f"splat (i{wide} {word})" for name, word in words.items()},
    }


def _resize(source_bits: int, target_bits: int, is_signed: bool) -> str:
    if source_bits == target_bits:
        return "bitcast"
    if source_bits > target_bits:
        return "trunc"
    return "sext" if is_signed else "zext"
