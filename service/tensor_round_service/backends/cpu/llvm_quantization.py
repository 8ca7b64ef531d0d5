"""Linear quantization for the vector units of CPUs, as LLVM assembly: one text for all types.

A quotient is the processor's division in float32, which LLVM keeps as it is without fast-math
flags. For scales of 16 bits it is rounded again, to their type, which :mod:`.quantization` shows to
be exact. What saturates is bounded as a float, by the ends of the type less the zero point. The sum
with 1.5 * 2^23, which rounds to the nearest integer, ties to even, has that in its last bits.

Elements lie in rows. ``one`` computes each row with a scale and a zero point of its own, ``each``
every row with one for each column. Elements of 4 bits have a byte each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tensor_round.contract.dtypes import DType
from tensor_round.contract.functions import Dequantize, FakeQuantize, Function, Quantize

from .conversion_rule import ends
from .conversions import FLOAT32, FLOAT64
from .llvm_conversions import narrowed_text, widened_text
from .llvm_kernels import PREFETCH
from .llvm_loops import EACH, EACH_REST, LANES, ONE, ONE_REST, ROWS
from .quantization import code_type, work_type

_GRID = 1.5 * 2**23

_LINE = """
define internal void @line(ptr %from, ptr %to, {floats} %scale, {integers} %point) alwaysinline {{
{body}
  ret void
}}
"""

# Quantization: from the operands to ``%sum``, the nearest integers on the grid.

_QUOTIENT = """
  %value = call {floats} @widened(ptr %from)
  %quotient = fdiv {floats} %value, %scale"""

#: A NaN's payload may be carried into the sign: it is recognized before.
_ROUNDED_QUOTIENT = """
  %quotient_bits = bitcast {floats} %quotient to {integers}
  %truncated = lshr {integers} %quotient_bits, splat (i32 {dropped})
  %odd = and {integers} %truncated, splat (i32 1)
  %carry = add {integers} %odd, splat (i32 {below_half})
  %carried = add {integers} %quotient_bits, %carry
  %kept = and {integers} %carried, splat (i32 {kept})
  %rounded = bitcast {integers} %kept to {floats}"""

_QUOTIENT_AS_IT_IS = """
  %rounded = bitcast {floats} %quotient to {floats}"""

_NEAREST = """
  %is_number = fcmp ord {floats} %quotient, zeroinitializer
  %number = select {choices} %is_number, {floats} %rounded, {floats} zeroinitializer
  %low_integer = sub {integers} splat (i32 {lowest}), %point
  %high_integer = sub {integers} splat (i32 {highest}), %point
  %low = sitofp {integers} %low_integer to {floats}
  %high = sitofp {integers} %high_integer to {floats}
  %is_above = fcmp ogt {floats} %number, %low
  %raised = select {choices} %is_above, {floats} %number, {floats} %low
  %is_below = fcmp olt {floats} %raised, %high
  %bounded = select {choices} %is_below, {floats} %raised, {floats} %high
  %sum = fadd {floats} %bounded, splat (float {grid})"""

_CODES = """
  %words = bitcast {floats} %sum to {integers}
  %shifted = add {integers} %words, %point
  %masked = and {integers} %shifted, splat (i32 {ones})
  %codes = trunc {integers} %masked to {codes}
  store {codes} %codes, ptr %to, align 1"""

_FLOAT_CODES = """
  call void @narrowed({floats} %quotient, ptr %to)"""

# Dequantization: to ``%difference``, and from there.

_LEVELS = """
  %difference = fsub {floats} %sum, splat (float {grid})"""

_FLOAT_DIFFERENCE = """
  %difference = call {floats} @widened(ptr %from)"""

_DIFFERENCE = """
  %stored = load {codes}, ptr %from, align 1
  %zero_extended = zext {codes} %stored to {integers}
  %upper = shl {integers} %zero_extended, splat (i32 {spare})
  %integer = {shift_right} {integers} %upper, splat (i32 {spare})
  %moved = sub {integers} %integer, %point
  %difference = sitofp {integers} %moved to {floats}"""

_SINGLE_PRODUCT = """
  %product = fmul {floats} %difference, %scale"""

_DOUBLE_PRODUCT = """
  %wide_difference = fpext {floats} %difference to {products}
  %wide_scale = fpext {floats} %scale to {products}
  %product = fmul {products} %wide_difference, %wide_scale"""

_PUT = """
  call void @narrowed({products} %product, ptr %to)"""


def linear_text(
    function: Function, source: DType, scale: DType, target: DType, *, prefetch: bool
) -> str:
    """The LLVM module of a supported function, with ``one`` and ``each``."""
    codes = code_type(function, source, target)
    quotients = function.quotient_type(scale) if isinstance(function, Quantize) else None
    work = work_type(function, codes, scale, target)
    bits = 8 * codes.itemsize
    lowest, highest = (0, 0) if codes.is_float else ends(codes)
    dropped = 0 if quotients is None else FLOAT32.mantissa_bits - quotients.mantissa_bits
    values = {
        "lanes": LANES,
        "lanes_log": LANES.bit_length() - 1,
        "lanes_mask": LANES - 1,
        "line_in": LANES * source.itemsize,
        "line_out": LANES * target.itemsize,
        "itemsize_in": source.itemsize,
        "itemsize_out": target.itemsize,
        "floats": f"<{LANES} x float>",
        "integers": f"<{LANES} x i32>",
        "choices": f"<{LANES} x i1>",
        "codes": f"<{LANES} x i{bits}>",
        "products": f"<{LANES} x {'double' if work is FLOAT64 else 'float'}>",
        "prefetch": PREFETCH if prefetch else "",
        "lowest": lowest,
        "highest": highest,
        "ones": (1 << codes.width) - 1,
        "spare": 32 - codes.width,
        "shift_right": "ashr" if codes.is_signed else "lshr",
        "dropped": dropped,
        "below_half": (1 << dropped >> 1) - 1,
        "kept": -(1 << dropped),
        "grid": f"0x{struct.pack('>d', _GRID).hex()}",
    }
    texts = []
    if source.is_float:
        texts.append(widened_text(source))
    if target.is_float:
        saturates = isinstance(function, Quantize) and function.saturates and target is codes
        texts.append(narrowed_text(work, target, saturates=saturates))
    body = "".join(_body(function, codes, dropped, work))
    texts.append(_LINE.replace("{body}", body).format(**values))
    for name, each, rest in (("one", "", ONE_REST), ("each", EACH, EACH_REST)):
        rows = ROWS.replace("{one}", "" if each else ONE)
        rows = rows.replace("{each}", each).replace("{rest}", rest)
        texts.append(rows.format(name=name, parameters_a_row=0 if each else 1, **values))
    return "".join(texts)


def _body(function: Function, codes: DType, dropped: int, work: DType) -> Iterator[str]:
    if isinstance(function, Dequantize):
        yield _FLOAT_DIFFERENCE if codes.is_float else _DIFFERENCE
    else:
        yield _QUOTIENT
        if codes.is_float:
            yield _FLOAT_CODES
            return
        yield _ROUNDED_QUOTIENT if dropped else _QUOTIENT_AS_IT_IS
        yield _NEAREST
        if not isinstance(function, FakeQuantize):
            yield _CODES
            return
        yield _LEVELS
    yield _DOUBLE_PRODUCT if work is FLOAT64 else _SINGLE_PRODUCT
    yield _PUT
