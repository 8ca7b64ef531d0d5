"""Kernels for the vector units of CPUs, as LLVM assembly: one function a dtype and rounding.

float32, float64 and bfloat16, which is the upper half of a float32, are rounded by the rounding
instructions of the processor. NaNs are recognized by their bits and kept.

float16 and the 8-bit types have no such instructions. The magnitude, which is the pattern without
its sign, is shifted until its exponent field is that of a float32. This float32 is the value
times a power of two, ``unit``. From ``grid`` on, 2^23 units, float32 values are one unit apart.
So adding ``grid`` rounds to an integer, ties to even, and subtracting it leaves that integer. The
other directions are at most one unit away from it. Infinities and NaNs become integers, which
stay unchanged.

The type of 4 bits has two numbers with a fraction. They are found by their bits, two elements in a
byte at once.

A vector has the size of a cache line. LLVM uses several registers if they are shorter.
"""

from __future__ import annotations

import struct
from typing import Any

from tensor_round.contract.dtypes import BY_NAME, DType
from tensor_round.contract.rounding import Rounding

#: Runs from this size on are split among threads. One thread is as fast as the caches, but not as
#: fast as memory.
SPLIT_BYTES = 16 << 20
#: Bytes of a vector.
LINE_BYTES = 64
#: Asks for memory a page ahead.
PREFETCH = """
  %later = getelementptr i8, ptr %from, i64 4096
  call void @llvm.prefetch.p0(ptr %later, i32 0, i32 3, i32 1)"""

#: Rounds ``count`` elements at ``source`` into ``target``, which is the same memory or separate.
#: The elements after the last whole line are copied to the stack and rounded there.
_LOOP = """
define internal void @{name}.line(ptr %from, ptr %to) alwaysinline {{
  %pattern = load {elements}, ptr %from, align 1
  %x = {widen} {elements} %pattern to {words}
{body}
  %narrow = {narrow} {words} %result to {elements}
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
{prefetch}
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

#: The processor's rounding to an integral value.
INSTRUCTIONS: dict[Rounding, str] = {
    Rounding.TIES_TO_EVEN: "llvm.rint",
    Rounding.TIES_TO_AWAY: "llvm.round",
    Rounding.TOWARD_ZERO: "llvm.trunc",
    Rounding.TOWARD_POSITIVE: "llvm.ceil",
    Rounding.TOWARD_NEGATIVE: "llvm.floor",
}

_BY_INSTRUCTION = """
  %magnitude = and {words} %x, {magnitude}
  %is_nan = icmp ugt {words} %magnitude, {exponent_mask}
  %raised = shl {words} %x, {shift}
  %value = bitcast {words} %raised to {floats}
  %integer = call {floats} @{instruction}.v{lanes}f{wide}({floats} %value)
  %bits = bitcast {floats} %integer to {words}
  %lowered = lshr {words} %bits, {shift}
  %result = select {choices} %is_nan, {words} %x, {words} %lowered"""

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
{signed}"""

_SIGNED = """
  %result = or {words} %lowered, %sign"""
#: Without a -0, a number that has become zero loses its sign; the NaN is the sign alone.
_SIGNED_WITHOUT_NEGATIVE_ZERO = """
  %is_left = icmp ne {words} %lowered, zeroinitializer
  %is_sign = icmp eq {words} %alone, zeroinitializer
  %is_kept = or {choices} %is_left, %is_sign
  %kept = select {choices} %is_kept, {words} %sign, {words} zeroinitializer
  %result = or {words} %lowered, %kept"""

#: 0.5 and 1.5 have an odd pattern and no highest bit of the exponent; their neighbours are the
#: integers.
_IN_PAIRS = """
  %odd = and {words} %x, splat (i{wide} 17)
  %high = lshr {words} %x, splat (i{wide} 2)
  %low = xor {words} %high, splat (i{wide} -1)
  %halves = and {words} %odd, %low
  %down = xor {words} %x, %halves
{up}
  %step = shl {words} %up, splat (i{wide} 1)
  %result = add {words} %down, %step"""
#: Those of ``halves`` that are rounded away from zero.
_UP: dict[Rounding, str] = {
    Rounding.TIES_TO_EVEN: """
  %second = lshr {words} %x, splat (i{wide} 1)
  %up = and {words} %halves, %second""",
    Rounding.TIES_TO_AWAY: """
  %up = bitcast {words} %halves to {words}""",
    Rounding.TOWARD_ZERO: """
  %up = bitcast {words} zeroinitializer to {words}""",
    Rounding.TOWARD_POSITIVE: """
  %negative = lshr {words} %x, splat (i{wide} 3)
  %positive = xor {words} %negative, splat (i{wide} -1)
  %up = and {words} %halves, %positive""",
    Rounding.TOWARD_NEGATIVE: """
  %negative = lshr {words} %x, splat (i{wide} 3)
  %up = and {words} %halves, %negative""",
}

#: Moves the nearest integer by one step if ``is_wrong``.
_CORRECT = """
  %step = bitcast {words} %step_bits to {floats}
  %beyond = fadd {floats} %nearest, %step
  %beyond_bits = bitcast {floats} %beyond to {words}
  %rounded = select {choices} %is_wrong, {words} %beyond_bits, {words} %nearest_bits"""

#: If ``turned`` is negative, the step makes the magnitude smaller, and complements are compared;
#: else it makes the magnitude larger.
_BY_SIGN = (
    """
  %flip = ashr {words} %turned, {last}
  %this = xor {words} %nearest_bits, %flip
  %that = xor {words} %magnitude, %flip
  %is_wrong = icmp ult {words} %this, %that
  %step_bits = or {words} %turned, {unit_bits}"""
    + _CORRECT
)

#: From the nearest integer, ties to even, to the result of each rounding.
_REST: dict[Rounding, str] = {
    Rounding.TIES_TO_EVEN: """
  %rounded = bitcast {words} %nearest_bits to {words}""",
    Rounding.TIES_TO_AWAY: """
  %left = fsub {floats} %value, %nearest
  %is_wrong = fcmp oeq {floats} %left, {half}
  %step_bits = bitcast {words} {unit_bits} to {words}"""
    + _CORRECT,
    Rounding.TOWARD_ZERO: """
  %is_wrong = icmp ugt {words} %nearest_bits, %magnitude
  %step_bits = or {words} {top}, {unit_bits}"""
    + _CORRECT,
    Rounding.TOWARD_POSITIVE: """
  %turned = shl {words} %sign, {to_top}"""
    + _BY_SIGN,
    Rounding.TOWARD_NEGATIVE: """
  %risen = shl {words} %sign, {to_top}
  %turned = xor {words} %risen, {top}"""
    + _BY_SIGN,
}


def module_text(dtype: DType, *, prefetch: bool) -> str:
    """The LLVM module of a dtype; its functions have the names of the roundings."""
    work = BY_NAME["float64" if dtype.width == 64 else "float32"]
    values = _vectors(8, 8) if dtype.is_sub_byte else _format_values(dtype, work)
    return "".join(
        _LOOP.format(
            name=rounding,
            prefetch=PREFETCH if prefetch else "",
            body=_body(dtype, work, rounding, values),
            **values,
        )
        for rounding in Rounding
    )


def _body(dtype: DType, work: DType, rounding: Rounding, values: dict[str, Any]) -> str:
    """The instructions from ``x`` to ``result``."""
    if dtype.is_sub_byte:
        return _IN_PAIRS.format(up=_UP[rounding].format(**values), **values)
    # With the exponent bits of the work type, a type is the upper part of it.
    if dtype.exponent_bits == work.exponent_bits:
        return _BY_INSTRUCTION.format(instruction=INSTRUCTIONS[rounding], **values)
    has_negative_zero = dtype.specials != "negative_zero"
    signed = _SIGNED if has_negative_zero else _SIGNED_WITHOUT_NEGATIVE_ZERO
    rest = _REST[rounding].format(**values)
    return _ON_A_GRID.format(rest=rest, signed=signed.format(**values), **values)


def _vectors(width: int, wide: int) -> dict[str, Any]:
    """The types of a line of elements, and of their words."""
    lanes = 8 * LINE_BYTES // width
    return {
        "lanes": lanes,
        "wide": wide,
        "itemsize": width // 8,
        "line": LINE_BYTES,
        "elements": f"<{lanes} x i{width}>",
        "words": f"<{lanes} x i{wide}>",
        "choices": f"<{lanes} x i1>",
        "widen": "bitcast" if width == wide else "zext",
        "narrow": "bitcast" if width == wide else "trunc",
    }


def _format_values(dtype: DType, work: DType) -> dict[str, Any]:
    """The values in the texts: types, masks, shifts and constants."""
    width, wide = dtype.width, work.width
    vectors = _vectors(width, wide)
    unit = 2.0 ** (dtype.exponent_bias - work.exponent_bias)
    real = "double" if wide == 64 else "float"
    floats = f"<{vectors['lanes']} x {real}>"
    words = {
        "sign": 1 << (width - 1),
        "magnitude": (1 << (width - 1)) - 1,
        "exponent_mask": dtype.exponent_mask,
        "shift": work.mantissa_bits - dtype.mantissa_bits,
        "to_top": wide - width,
        "top": 1 << (wide - 1),
        "last": wide - 1,
        "unit_bits": dtype.exponent_bias << work.mantissa_bits,
    }
    values = {"grid": unit * 2.0**work.mantissa_bits, "half": unit / 2}
    return {
        **vectors,
        "floats": floats,
        **{name: f"splat (i{wide} {word})" for name, word in words.items()},
        # LLVM writes float constants as the bits of a float64, also for float.
        **{
            name: f"splat ({real} 0x{struct.pack('>d', value).hex()})"
            for name, value in values.items()
        },
    }
