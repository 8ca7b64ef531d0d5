"""The kernels for a CPU's vector units: one loop a dtype and direction, in LLVM's language.

float32, float64 and bfloat16, the upper half of a float32, are rounded by the
instructions that processors have for it, and NaNs are told by their bits and kept.

float16 and the 8-bit types have no such instructions. But a magnitude, which is a
pattern without its sign, is a float32 once its exponent stands where float32's does:
its value times a power of two. ``unit`` is what 1 becomes. From the ``grid`` on, 2^23
units, float32s are a unit apart, so adding it rounds to an integer, ties to even, and
taking it off again leaves that integer; every other direction is at most a unit from
there. Infinities and NaNs are integers like others then, and stay.

A vector is a line of the cache; where registers are shorter LLVM takes several.
"""

from __future__ import annotations

import struct
from typing import Any

from tensor_round.dtypes import DType
from tensor_round.rounding import Rounding

#: From how many bytes on threads share a run: one keeps up with the caches, but not with memory.
SPLIT_BYTES = 16 << 20
#: Bytes of a vector.
LINE_BYTES = 64
#: How far ahead memory is asked for. Processors do so by themselves, but stop at a page's end.
AHEAD_BYTES = 4096

#: Rounds ``count`` elements at ``source`` into ``target``: the same memory, or apart. The last
#: of them make a line with what is on the stack.
_LOOP = """
define internal void @{name}.line(ptr %from, ptr %to) alwaysinline {{
  %pattern = load {elements}, ptr %from, align 1
  %x = {widen} {elements} %pattern to {words}
{body}
  %narrow = {narrow} {words} %answer to {elements}
  store {elements} %narrow, ptr %to, align 1
  ret void
}}

define void @{name}(ptr %source, ptr %target, i64 %count) {{
entry:
  %rest = alloca {elements}
  %bytes = mul i64 %count, {itemsize}
  %end = and i64 %bytes, -{line}
  %some = icmp ne i64 %end, 0
  br i1 %some, label %lines, label %last
lines:
  %at = phi i64 [0, %entry], [%next, %lines]
  %from = getelementptr i8, ptr %source, i64 %at
  %to = getelementptr i8, ptr %target, i64 %at
  %soon = getelementptr i8, ptr %from, i64 {ahead}
  call void @llvm.prefetch.p0(ptr %soon, i32 0, i32 3, i32 1)
  call void @{name}.line(ptr %from, ptr %to)
  %next = add i64 %at, {line}
  %more = icmp ult i64 %next, %end
  br i1 %more, label %lines, label %last
last:
  %left = sub i64 %bytes, %end
  %last_from = getelementptr i8, ptr %source, i64 %end
  %last_to = getelementptr i8, ptr %target, i64 %end
  store {elements} zeroinitializer, ptr %rest
  call void @llvm.memcpy.p0.p0.i64(ptr %rest, ptr %last_from, i64 %left, i1 false)
  call void @{name}.line(ptr %rest, ptr %rest)
  call void @llvm.memcpy.p0.p0.i64(ptr %last_to, ptr %rest, i64 %left, i1 false)
  ret void
}}
"""

_INSTRUCTIONS: dict[Rounding, str] = {
    Rounding.TIES_TO_EVEN: "llvm.rint",
    Rounding.TIES_TO_AWAY: "llvm.round",
    Rounding.TOWARD_ZERO: "llvm.trunc",
    Rounding.TOWARD_POSITIVE: "llvm.ceil",
    Rounding.TOWARD_NEGATIVE: "llvm.floor",
}

_BY_INSTRUCTION = """
  %magnitude = and {words} %x, {magnitude}
  %is_nan = icmp ugt {words} %magnitude, {infinity}
  %raised = shl {words} %x, {shift}
  %value = bitcast {words} %raised to {floats}
  %integer = call {floats} @{instruction}.v{lanes}f{wide}({floats} %value)
  %bits = bitcast {floats} %integer to {words}
  %lowered = lshr {words} %bits, {shift}
  %answer = select {choices} %is_nan, {words} %x, {words} %lowered"""

_ON_A_GRID = """
  %sign = and {words} %x, {sign}
  %alone = and {words} %x, {magnitude}
  %magnitude = shl {words} %alone, {shift}
  %value = bitcast {words} %magnitude to {floats}
  %raised = fadd {floats} %value, {grid}
  %nearest = fsub {floats} %raised, {grid}
  %nearest_bits = bitcast {floats} %nearest to {words}
{rest}
  %lowered = lshr {words} %rounded, {shift}
  %answer = or {words} %lowered, %sign"""

#: A step on where the nearest integer is wrong.
_MEND = """
  %step = bitcast {words} %step_bits to {floats}
  %beyond = fadd {floats} %nearest, %step
  %beyond_bits = bitcast {floats} %beyond to {words}
  %rounded = select {choices} %is_wrong, {words} %beyond_bits, {words} %nearest_bits"""

#: Where ``turned`` is negative magnitudes shrink, and complements are compared; else they grow.
_BY_SIGN = (
    """
  %flip = ashr {words} %turned, {last}
  %this = xor {words} %nearest_bits, %flip
  %that = xor {words} %magnitude, %flip
  %is_wrong = icmp ult {words} %this, %that
  %step_bits = or {words} %turned, {unit_bits}"""
    + _MEND
)

#: From the nearest integer, ties to even, to the one that is asked for.
_REST: dict[Rounding, str] = {
    Rounding.TIES_TO_EVEN: """
  %rounded = bitcast {words} %nearest_bits to {words}""",
    Rounding.TIES_TO_AWAY: """
  %left = fsub {floats} %value, %nearest
  %is_wrong = fcmp oeq {floats} %left, {half}
  %step_bits = bitcast {words} {unit_bits} to {words}"""
    + _MEND,
    Rounding.TOWARD_ZERO: """
  %is_wrong = icmp ugt {words} %nearest_bits, %magnitude
  %step_bits = or {words} {top}, {unit_bits}"""
    + _MEND,
    Rounding.TOWARD_POSITIVE: """
  %turned = shl {words} %sign, {to_top}"""
    + _BY_SIGN,
    Rounding.TOWARD_NEGATIVE: """
  %risen = shl {words} %sign, {to_top}
  %turned = xor {words} %risen, {top}"""
    + _BY_SIGN,
}


def module_text(dtype: DType) -> str:
    """A module with a function for each direction, called as the direction is."""
    places = _places(dtype)
    exponent_bits = 8 * dtype.itemsize - 1 - dtype.mantissa_bits
    # With an exponent as wide as float32's or float64's a type is the upper part of one.
    body = _BY_INSTRUCTION if exponent_bits in (8, 11) else _ON_A_GRID
    return "".join(
        _LOOP.format(
            name=rounding,
            body=body.format(
                instruction=_INSTRUCTIONS[rounding],
                rest=_REST[rounding].format(**places),
                **places,
            ),
            **places,
        )
        for rounding in Rounding
    )


def _places(dtype: DType) -> dict[str, Any]:
    """Where the dtype's bits lie, and in the float that works for it, and what 1 is there."""
    width = 8 * dtype.itemsize
    lanes = LINE_BYTES // dtype.itemsize
    wide, fraction_bits, bias = (64, 52, 1023) if width == 64 else (32, 23, 127)
    own_bias = (1 << (width - 2 - dtype.mantissa_bits)) - 1
    unit = 2.0 ** (own_bias - bias)
    floats = "double" if wide == 64 else "float"
    words = {
        "sign": 1 << (width - 1),
        "magnitude": (1 << (width - 1)) - 1,
        "infinity": (2 * own_bias + 1) << dtype.mantissa_bits,
        "shift": fraction_bits - dtype.mantissa_bits,
        "to_top": wide - width,
        "top": 1 << (wide - 1),
        "last": wide - 1,
        "unit_bits": own_bias << fraction_bits,
    }
    values = {"grid": unit * 2.0**fraction_bits, "half": unit / 2}
    return {
        "lanes": lanes,
        "wide": wide,
        "itemsize": dtype.itemsize,
        "line": LINE_BYTES,
        "ahead": AHEAD_BYTES,
        "elements": f"<{lanes} x i{width}>",
        "words": f"<{lanes} x i{wide}>",
        "floats": f"<{lanes} x {floats}>",
        "choices": f"<{lanes} x i1>",
        "widen": "bitcast" if width == wide else "zext",
        "narrow": "bitcast" if width == wide else "trunc",
        **{name: f"splat (i{wide} {word})" for name, word in words.items()},
        # LLVM writes constants of either float type as a float64's bits.
        **{
            name: f"splat ({floats} 0x{struct.pack('>d', value).hex()})"
            for name, value in values.items()
        },
    }
