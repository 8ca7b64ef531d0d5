"""The kernels for a CPU's vector units: one loop a dtype and direction, in LLVM's language.

float32, float64 and bfloat16, the upper half of a float32, are rounded by the
instructions that processors have for it, and NaNs are told by their bits and kept.

float16 and the 8-bit types have no such instructions. But a magnitude, which is a
pattern without its sign, is a float32 once its exponent stands where float32's does:
its value times a power of two. ``unit`` is what 1 becomes. From the ``grid`` on, 2^23
units, float32s are a unit apart, so adding it rounds to an integer, ties to even, and
taking it off again leaves that integer; every other direction is at most a unit from
there. Infinities and NaNs are integers like others then, and stay.

Nothing branches but the loops, so LLVM makes vector code of them.
"""

from __future__ import annotations

import struct
from typing import Any

from tensor_round.dtypes import DType
from tensor_round.rounding import Rounding

#: From how many bytes on threads share a run.
SPLIT_BYTES = 4 << 20

#: Rounds ``count`` elements at ``source`` into ``target``: the same memory, or apart.
_LOOP = """
define void @{name}(ptr %source, ptr %target, i64 %count) {{
entry:
  %some = icmp ne i64 %count, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %from = getelementptr {element}, ptr %source, i64 %i
  %to = getelementptr {element}, ptr %target, i64 %i
  %pattern = load {element}, ptr %from, align 1, !llvm.access.group !0
  %x = {widen} {element} %pattern to {word}
{body}
  %narrow = {narrow} {word} %answer to {element}
  store {element} %narrow, ptr %to, align 1, !llvm.access.group !0
  %next = add nuw i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %done, !llvm.loop !1
done:
  ret void
}}
"""

#: No element bears on another, and be both pointers the same.
_INDEPENDENT = """
!0 = distinct !{}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.parallel_accesses", !0}
"""

_INSTRUCTIONS: dict[Rounding, str] = {
    Rounding.TIES_TO_EVEN: "llvm.rint",
    Rounding.TIES_TO_AWAY: "llvm.round",
    Rounding.TOWARD_ZERO: "llvm.trunc",
    Rounding.TOWARD_POSITIVE: "llvm.ceil",
    Rounding.TOWARD_NEGATIVE: "llvm.floor",
}

_BY_INSTRUCTION = """
  %magnitude = and {word} %x, {magnitude}
  %is_nan = icmp ugt {word} %magnitude, {infinity}
  %raised = shl {word} %x, {shift}
  %value = bitcast {word} %raised to {float}
  %integer = call {float} @{instruction}.f{wide}({float} %value)
  %bits = bitcast {float} %integer to {word}
  %lowered = lshr {word} %bits, {shift}
  %answer = select i1 %is_nan, {word} %x, {word} %lowered"""

_ON_A_GRID = """
  %sign = and i32 %x, {sign}
  %alone = and i32 %x, {magnitude}
  %magnitude = shl i32 %alone, {shift}
  %value = bitcast i32 %magnitude to float
  %raised = fadd float %value, {grid}
  %nearest = fsub float %raised, {grid}
  %nearest_bits = bitcast float %nearest to i32
{rest}
  %lowered = lshr i32 %rounded, {shift}
  %answer = or i32 %lowered, %sign"""

#: A step on where the nearest integer is wrong.
_MEND = """
  %beyond = fadd float %nearest, %step
  %beyond_bits = bitcast float %beyond to i32
  %rounded = select i1 %is_wrong, i32 %beyond_bits, i32 %nearest_bits"""

#: Where ``turned`` is negative magnitudes shrink, and complements are compared; else they grow.
_BY_SIGN = (
    """
  %flip = ashr i32 %turned, 31
  %this = xor i32 %nearest_bits, %flip
  %that = xor i32 %magnitude, %flip
  %is_wrong = icmp ult i32 %this, %that
  %step_bits = or i32 %turned, {unit_bits}
  %step = bitcast i32 %step_bits to float"""
    + _MEND
)

#: From the nearest integer, ties to even, to the one that is asked for.
_REST: dict[Rounding, str] = {
    Rounding.TIES_TO_EVEN: """
  %rounded = bitcast i32 %nearest_bits to i32""",
    Rounding.TIES_TO_AWAY: """
  %left = fsub float %value, %nearest
  %is_wrong = fcmp oeq float %left, {half}
  %step = bitcast i32 {unit_bits} to float"""
    + _MEND,
    Rounding.TOWARD_ZERO: """
  %is_wrong = icmp ugt i32 %nearest_bits, %magnitude
  %step = bitcast i32 {minus_unit_bits} to float"""
    + _MEND,
    Rounding.TOWARD_POSITIVE: """
  %turned = shl i32 %sign, {to_top}"""
    + _BY_SIGN,
    Rounding.TOWARD_NEGATIVE: """
  %top = shl i32 %sign, {to_top}
  %turned = xor i32 %top, {top}"""
    + _BY_SIGN,
}


def module_text(dtype: DType) -> str:
    """A module with a function for each direction, called as the direction is."""
    places = _places(dtype)
    # Where no exponent bit is missing the pattern is the upper part of the float's.
    is_upper_part = 8 * dtype.itemsize + places["shift"] == places["wide"]
    body = _BY_INSTRUCTION if is_upper_part else _ON_A_GRID
    return _INDEPENDENT + "".join(
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
    wide, fraction_bits, bias = (64, 52, 1023) if width == 64 else (32, 23, 127)
    own_bias = (1 << (width - 2 - dtype.mantissa_bits)) - 1
    unit = 2.0 ** (own_bias - bias)
    top = 1 << (wide - 1)
    return {
        "wide": wide,
        "element": f"i{width}",
        "word": f"i{wide}",
        "float": "double" if wide == 64 else "float",
        "widen": "bitcast" if width == wide else "zext",
        "narrow": "bitcast" if width == wide else "trunc",
        "sign": 1 << (width - 1),
        "magnitude": (1 << (width - 1)) - 1,
        "infinity": (2 * own_bias + 1) << dtype.mantissa_bits,
        "shift": fraction_bits - dtype.mantissa_bits,
        "to_top": wide - width,
        "top": top,
        "unit_bits": own_bias << fraction_bits,
        "minus_unit_bits": own_bias << fraction_bits | top,
        "grid": _constant(unit * 2.0**fraction_bits),
        "half": _constant(unit / 2),
    }


def _constant(value: float) -> str:
    """A constant of either float type: LLVM writes both as a float64's bits."""
    return f"0x{struct.pack('>d', value).hex()}"
