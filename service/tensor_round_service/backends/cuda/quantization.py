"""The GPU kernels of linear quantization: one text, which calls those of conversions.

CuPy always compiles with ``-ftz=true``, which flushes subnormal operands and results of float32, of
CUDA's own ``__fdiv_rn`` too. So quotients and products of float32 are instructions of PTX, which no
option changes: ``div.rn.f32`` and ``mul.rn.f32`` are IEEE 754's, subnormals included. float64 is
never flushed. Nothing is added to a product, so there is nothing to contract. All else is integer
arithmetic: :mod:`.conversions` widens operands and scales, and rounds quotients to the type of the
scale, to integers and to narrow floats. :mod:`..cpu.quantization` shows that each is rounded as
once.

A thread finds the scale and the zero point of its first element by the dimensions of the
parameters, and divides again where a block or a row ends. One scale for all has no dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tensor_round.contract.dtypes import BY_NAME, DType
from tensor_round.contract.functions import FakeQuantize, Linear, Quantize

from ..cpu.conversion_rule import ends
from ..cpu.conversions import FLOAT32
from ..cpu.quantization import code_type, work_type
from .conversions import Run, converted_text, run_text
from .kernels import KernelSource

_INT32 = BY_NAME["int32"]

_ARITHMETIC = """
__device__ __forceinline__ float number(const unsigned int bits) { return __uint_as_float(bits); }
__device__ __forceinline__ double number(const unsigned long long bits) {
  return __longlong_as_double(bits);
}
__device__ __forceinline__ unsigned int pattern(const float x) { return __float_as_uint(x); }
__device__ __forceinline__ unsigned long long pattern(const double x) {
  return __double_as_longlong(x);
}
__device__ __forceinline__ float quotient(const float x, const float y) {
  float z;
  asm("div.rn.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
__device__ __forceinline__ float product(const float x, const float y) {
  float z;
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
__device__ __forceinline__ double product(const double x, const double y) {
  return __dmul_rn(x, y);
}
__device__ __forceinline__ unsigned int quiet(const unsigned int bits) {
  return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : bits;
}
__device__ __forceinline__ unsigned long long quiet(const unsigned long long bits) {
  return (bits & 0x7fffffffffffffff) > 0x7ff0000000000000 ? 0x7ff8000000000000 : bits;
}
"""

#: The integer nearest to a quotient, as far as the zero point leaves room; a NaN counts as 0.
_LEVEL = """
__device__ __forceinline__ int level(const unsigned int quotient, const int point) {{
  const int nearest = integer::converted(rounded::converted(quotient));
  const int low = {lowest} - point, high = {highest} - point;
  return nearest < low ? low : nearest > high ? high : nearest;
}}
__device__ __forceinline__ unsigned int coded(const unsigned int quotient, const int point) {{
  return level(quotient, point) + point & {ones:#x};
}}
"""
#: ``left`` elements have the parameter at ``index``, or with ``step`` those that follow it.
_LINEAR = """
struct Linear {{
  const unsigned int* dims;
  const float* scales;
  const int* points;
  int rank;
  unsigned int element, index, left, step;
  {members}
  __device__ __forceinline__ void load() {{
    {load}
  }}
  __device__ __forceinline__ void find() {{
    unsigned int rest = element;
    index = 0;
    left = ~0u;
    step = 0;
    for (int d = 0; d < rank; ++d) {{
      const unsigned int size = dims[3 * d], block = dims[3 * d + 1];
      const unsigned int next = rest / size, at = rest - next * size, number = at / block;
      if (d == 0) {{
        const unsigned int of_row = size - at, of_block = block - (at - number * block);
        step = block == 1;
        left = step | of_row < of_block ? of_row : of_block;
      }}
      index += number * dims[3 * d + 2];
      rest = next;
    }}
    index -= step;
    if (step == 0) load();
  }}
  __device__ __forceinline__ unsigned int operator()(const unsigned int x) {{
    if (step) {{
      ++index;
      load();
    }}
    ++element;
    --left;
    return {result};
  }}
  __device__ __forceinline__ unsigned int alone(const unsigned int x) {{
    if (left == 0) find();
    return (*this)(x);
  }}
}};
"""
_INPUTS = (
    "raw uint8 x, int64 count, raw float32 scales, raw int32 points, raw uint32 dims, int32 rank, "
    "int64 first"
)
#: A carrier whose elements have parameters of two blocks or rows is computed like a tail.
_RUN = Run(
    setup="""\
tensor_round::Linear linear = {{
  &dims[0], &scales[0], &points[0], (int)rank, (unsigned int)(first + i * {n})
}};
linear.find();
""",
    fits=" & linear.left >= {n}",
    apply="linear",
    apply_alone="linear.alone",
    begin="i * {n}",
    end="(i < whole ? (i + 1) * {n} : count)",
)

_OPERAND = "number(operand::converted(x))"
_QUOTIENT = f"pattern(quotient({_OPERAND}, divisor))"


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a function's text consists of.

    ``conversions`` are those that it calls, with their types, by the names of their namespaces,
    ``members`` the C types of the parameters and what is loaded into them. ``level`` is the text of
    what becomes integers.
    """

    conversions: dict[str, tuple[DType, DType]]
    members: dict[str, tuple[str, str]]
    result: str
    level: str = ""


def _parts(function: Linear, source: DType, scale: DType, target: DType) -> _Parts:
    codes = code_type(function, source, target)
    work = work_type(function, codes, scale, target)
    conversions: dict[str, tuple[DType, DType]] = {}
    members: dict[str, tuple[str, str]] = {}
    level = ""
    if not codes.is_float:
        members["point"] = "int", "points[index]"
    if isinstance(function, Quantize):
        conversions["operand"] = source, FLOAT32
        members["divisor"] = "float", "scales[index]"
        if codes.is_float:
            conversions["result"] = FLOAT32, codes
            return _Parts(conversions, members, f"result::converted(quiet({_QUOTIENT}))")
        kind = function.quotient_type(scale) or FLOAT32
        level = level_text(kind, codes)
        if not isinstance(function, FakeQuantize):
            return _Parts(conversions, members, f"coded({_QUOTIENT}, point)", level)
        difference = f"level({_QUOTIENT}, point)"
    elif codes.is_float:
        conversions["operand"] = codes, work
        difference = _OPERAND
    else:
        spare = 32 - codes.width
        code = f"((int)(x << {spare}) >> {spare})" if codes.is_signed else "(int)x"
        difference = f"({code} - point)"
    real = "float" if work is FLOAT32 else "double"
    conversions |= {"factor_of": (FLOAT32, work), "result": (work, target)}
    members["factor"] = real, "number(factor_of::converted(pattern(scales[index])))"
    made = f"product(({real}){difference}, factor)"
    return _Parts(conversions, members, f"result::converted(quiet(pattern({made})))", level)


def level_text(kind: DType, codes: DType) -> str:
    """The functions ``level`` and ``coded`` of float32 quotients, which are rounded to a type."""
    lowest, highest = ends(codes)
    ones = (1 << codes.width) - 1
    return (
        _space("rounded", converted_text(FLOAT32, kind))
        + _space("integer", converted_text(kind, _INT32))
        + _LEVEL.format(lowest=lowest, highest=highest, ones=ones)
    )


def _space(name: str, text: str) -> str:
    return f"namespace {name} {{\n{text}}}\n"


@cache
def linear_kernel(function: Linear, source: DType, scale: DType, target: DType) -> KernelSource:
    """A kernel that applies a function to ``count`` elements at ``x``, into ``y``.

    The first is number ``first`` of the call. Both are aligned to 16 bytes. They may be identical
    if the types have one width, and otherwise share no byte. ``scales`` are numbers, ``points``
    an int32 for each, and ``dims`` has size, block and the step between the parameters of two
    blocks of each dimension, the innermost one first.
    """
    codes = code_type(function, source, target)
    parts = _parts(function, source, scale, target)
    name = [type(function).__name__.lower(), source.name, target.name]
    saturates = False
    if isinstance(function, Quantize):
        name += ["through", codes.name] if isinstance(function, FakeQuantize) else []
        name += ["by", (function.quotient_type(scale) or FLOAT32).name]
        saturates = codes.is_float and function.saturates
        name += ["saturated"] * saturates
    name += ["float64"] * (work_type(function, codes, scale, target) is not FLOAT32)
    texts = [_ARITHMETIC]
    for space, types in parts.conversions.items():
        text = converted_text(*types, saturates=saturates and space == "result")
        texts.append(_space(space, text))
    texts.append(parts.level)
    texts.append(
        _LINEAR.format(
            members=" ".join(f"{kind} {member};" for member, (kind, _) in parts.members.items()),
            load=" ".join(f"{member} = {value};" for member, (_, value) in parts.members.items()),
            result=parts.result,
        )
    )
    return KernelSource(
        name=f"tensor_round_{'_'.join(name)}",
        inputs=_INPUTS,
        outputs="raw uint8 y",
        preamble=f"namespace tensor_round {{{''.join(texts)}}}\n",
        operation=run_text(source, target, _RUN),
    )
