"""Conversions of floats for which processors have an instruction, as LLVM assembly.

It widens exactly, or rounds to nearest, ties to even, as the processor is set wherever Python runs.
LLVM leaves the sign and the payload of a NaN open, so they are those of the operand and of the
target's type.
"""

from __future__ import annotations

from tensor_round.contract.dtypes import BY_NAME, DType
from tensor_round.contract.functions import Convert
from tensor_round.contract.rounding import Rounding

from .conversion_rule import nan_magnitude
from .llvm_loops import LANES

_HALF, _SINGLE, _DOUBLE = (BY_NAME[f"float{width}"] for width in (16, 32, 64))
#: LLVM's names of the types.
_FLOATS = {_HALF: "half", _SINGLE: "float", _DOUBLE: "double"}

#: From ``%x``, the operands' patterns, to ``%result``.
_CONVERTED = """
  %number = bitcast {operands} %x to {operand_floats}
  %converted = {instruction} {operand_floats} %number to {result_floats}
  %bits = bitcast {result_floats} %converted to {results}
  %is_nan = fcmp uno {operand_floats} %number, zeroinitializer
{upper}
  %sign = and {results} %upper, splat (i{width_out} {sign})
  %nan = or {results} %sign, splat (i{width_out} {nan})
  %result = select <{lanes} x i1> %is_nan, {results} %nan, {results} %bits"""

#: The operands' upper bits in the results' type.
_UPPER = {
    "fpext": """
  %widened = zext {operands} %x to {results}
  %upper = shl {results} %widened, splat (i{width_out} {difference})""",
    "fptrunc": """
  %lowered = lshr {operands} %x, splat (i{width_in} {difference})
  %upper = trunc {operands} %lowered to {results}""",
}


def has_instruction(function: Convert, source: DType, target: DType, has_halves: bool) -> bool:
    """Whether a processor converts so; ``has_halves``: between float16 and float32, too."""
    types = {source, target}
    if types != {_SINGLE, _DOUBLE} and not (has_halves and types == {_HALF, _SINGLE}):
        return False
    is_exact = source.width < target.width
    return not function.saturates and (is_exact or function.rounding is Rounding.TIES_TO_EVEN)


def converted(source: DType, target: DType) -> str:
    """The text from ``%x`` to ``%result``."""
    instruction = "fpext" if source.width < target.width else "fptrunc"
    return _CONVERTED.replace("{upper}", _UPPER[instruction]).format(
        lanes=LANES,
        operands=f"<{LANES} x i{source.width}>",
        operand_floats=f"<{LANES} x {_FLOATS[source]}>",
        results=f"<{LANES} x i{target.width}>",
        result_floats=f"<{LANES} x {_FLOATS[target]}>",
        instruction=instruction,
        difference=abs(source.width - target.width),
        width_in=source.width,
        width_out=target.width,
        sign=target.sign_bit,
        nan=nan_magnitude(target),
    )
