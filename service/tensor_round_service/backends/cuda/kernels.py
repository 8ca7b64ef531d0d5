"""The GPU kernels: C code for every dtype and rounding.

The same code runs on a GPU and, through a C++ compiler, on a CPU, where the tests run it on every
pattern. It calls no rounding function. It adds and subtracts ``magic``, a constant so large that
a float of its size has no fraction bits. This rounds to the nearest integer, ties to even. The
other directions are at most one step away from it. IEEE 754 additions give the same result on all
machines, provided that no float32 is subnormal: CuPy always compiles with ``-ftz=true``, with
which even ``ceilf`` of the least float32 is 0. So operands are lifted first, by adding ``lift`` to
their exponents. Zero then becomes ``sliver``, a tiny number, for which the directed roundings
allow.

Each thread loads and stores 16 bytes, for every type.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensor_round.contract.dtypes import BY_NAME, ROUNDABLE, DType
from tensor_round.contract.rounding import Rounding

#: Bytes that a thread loads, rounds and stores at once: the widest memory access of a GPU.
CARRIER_BYTES = 16


@dataclass(frozen=True, slots=True)
class KernelSource:
    """The arguments of CuPy's ``ElementwiseKernel``; the arrays are ``raw``."""

    name: str
    inputs: str
    outputs: str
    operation: str
    preamble: str = ""


#: The sign of the operand for each rounding (0 to round the magnitude), and the correction of
#: ``t``, the integer nearest to the operand.
_STEPS: dict[Rounding, tuple[str, str]] = {
    Rounding.TIES_TO_EVEN: ("0", ""),
    Rounding.TIES_TO_AWAY: ("0", "t += f - t == half ? unit : 0;"),
    Rounding.TOWARD_ZERO: ("0", "t -= t > f ? unit : 0;"),
    Rounding.TOWARD_POSITIVE: ("(x & sign) << to_top", "t += t + sliver < f ? unit : 0;"),
    Rounding.TOWARD_NEGATIVE: ("(x & sign) << to_top", "t -= t - sliver > f ? unit : 0;"),
}

#: Rounds one element; returns the magnitude of the result.
_ROUNDED = """
__device__ __forceinline__ word rounded(const word x) {{
  const word m = x & (sign - 1), s = {sign};
  const real f = as_real(s | ((m << shift) + lift));
  real t = (f + {magic}) - {magic};
  {step}
  return {result};
}}
__device__ __forceinline__ word lanes(const word w) {{ return {lanes}; }}
"""

#: A constant in the middle of its binade works for operands of either sign, but for half of the
#: range only, which is enough for 16-bit types. Otherwise it takes the sign of the operand.
_MAGIC: dict[int, str] = {
    2: "1.5f * magic",
    4: "as_real(s | as_word(magic))",
    8: "as_real(s | as_word(magic))",
}

_LANES: dict[int, str] = {
    2: "w & 0x80008000 | rounded(w & 0xffff) | rounded(w >> 16) << 16",
    4: "w & sign | rounded(w)",
    8: "w & sign | rounded(w)",
}

_LOWERED = "as_word(t * lower) >> shift & (sign - 1)"
#: From ``integral`` on all patterns are integers, infinities and NaNs. They are kept, so it does
#: not matter that lifting may overflow.
_LOWERED_OR_KEPT = f"m < integral ? {_LOWERED} : m"

#: A carrier has 16 elements of an 8-bit type, so these need fewer instructions. float32 has more
#: bits than they need, so an offset before rounding replaces the correction after it. ``sliver``
#: is smaller than the fraction of any value.
_OFFSETS: dict[Rounding, tuple[str, str]] = {
    Rounding.TIES_TO_EVEN: ("", "0"),
    Rounding.TIES_TO_AWAY: (" + sliver", "0"),
    Rounding.TOWARD_ZERO: (" - (half - sliver)", "0"),
    Rounding.TOWARD_POSITIVE: (" + as_real(s ^ as_word(half - sliver))", "(signs)"),
    Rounding.TOWARD_NEGATIVE: (" - as_real(s ^ as_word(half - sliver))", "(signs)"),
}

#: Rounds four elements in a word. Infinities and NaNs are treated as numbers with their exponent,
#: which are integers.
_LANES_SMALL = """
__device__ __forceinline__ word nearest(const word m, const word s) {{
  const real f = as_real((m << shift) + lift){0};
  return as_word((f + 1.5f * magic) * lower - 1.5f * magic * lower);
}}
__device__ __forceinline__ word lanes(const word w) {{
  const word m = w & 0x7f7f7f7f, s = w & 0x80808080;
  const word r = nearest(__byte_perm(m, 0, 0x4440), s << 24) >> shift
               | nearest(__byte_perm(m, 0, 0x4441), s << 16 & sign << 24) >> (shift - 8)
               | nearest(__byte_perm(m, 0, 0x4442), s << 8 & sign << 24) >> (shift - 16)
               | nearest(__byte_perm(m, 0, 0x4443), s & sign << 24) << (24 - shift);
  return r | {signs};
}}
"""
#: The signs of the results. Without a -0, a number that has become zero loses its sign; the NaN
#: is the sign alone, and keeps it.
_SIGNS = "s"
_SIGNS_WITHOUT_NEGATIVE_ZERO = "s & (r + 0x7f7f7f7f | ~(m + 0x7f7f7f7f))"

#: Rounds eight elements of 4 bits in a word. Their numbers with a fraction, 0.5 and 1.5, have an
#: odd pattern and no highest bit of the exponent; their neighbours are the integers.
_LANES_OF_4_BITS = """
__device__ __forceinline__ word lanes(const word w) {{
  const word halves = w & ~(w >> 2) & 0x11111111;
  return (w ^ halves) + (({up}) << 1);
}}
"""
#: Those of ``halves`` that are rounded away from zero.
_UP: dict[Rounding, str] = {
    Rounding.TIES_TO_EVEN: "halves & w >> 1",
    Rounding.TIES_TO_AWAY: "halves",
    Rounding.TOWARD_ZERO: "0",
    Rounding.TOWARD_POSITIVE: "halves & ~(w >> 3)",
    Rounding.TOWARD_NEGATIVE: "halves & w >> 3",
}

_FLOAT = """
typedef float real;
typedef unsigned int word;
__device__ __forceinline__ real as_real(const word bits) { return __uint_as_float(bits); }
__device__ __forceinline__ word as_word(const real value) { return __float_as_uint(value); }
"""
_DOUBLE = """
typedef double real;
typedef unsigned long long word;
__device__ __forceinline__ real as_real(const word bits) { return __longlong_as_double(bits); }
__device__ __forceinline__ word as_word(const real value) { return __double_as_longlong(value); }
"""


def _constants(dtype: DType) -> str:
    """The constants of a dtype; ``unit`` is the value of 1 after the shift and the lift."""
    work = BY_NAME["float64" if dtype.width == 64 else "float32"]
    bias, fraction = dtype.exponent_bias, dtype.mantissa_bits
    lift = 64 if work.width == 32 else 0
    unit = bias - work.exponent_bias + lift
    return f"""
constexpr word sign = {1 << (dtype.width - 1):#x};
constexpr word integral = {(bias + fraction) << fraction:#x};
constexpr int shift = {work.mantissa_bits - fraction};
constexpr int to_top = {work.width - dtype.width};
constexpr word lift = {lift << work.mantissa_bits:#x};
constexpr real lower = 0x1p-{lift};
constexpr real unit = 0x1p{unit};
constexpr real half = 0x1p{unit - 1};
constexpr real sliver = {f"0x1p{unit - bias}" if lift else "0"};
constexpr real magic = 0x1p{unit + work.mantissa_bits};
"""


#: The C types of an element's pattern, by itemsize.
PATTERNS: dict[int, str] = {
    1: "unsigned char",
    2: "unsigned short",
    4: "unsigned int",
    8: "unsigned long long",
}

#: One thread for each carrier, and one more for the elements after the last whole carrier.
_RUN = """
const long long carriers = bytes / {carrier_bytes};
if (i < carriers) {{
  {carrier} c = ((const {carrier}*)&x[0])[i];
  {members}
  (({carrier}*)&y[0])[i] = c;
}} else {{
  for (long long k = carriers * {per_carrier}; k < bytes / {itemsize}; ++k)
    (({pattern}*)&y[0])[k] = tensor_round::lanes(((const {pattern}*)&x[0])[k]);
}}
"""


def _round_kernel(dtype: DType, rounding: Rounding) -> KernelSource:
    """A kernel that rounds ``bytes`` bytes of whole elements at ``x`` into ``y``.

    Both are aligned to 16 bytes and may be identical. Its size is :func:`run_size`.
    """
    carrier, members = ("ulonglong2", "xy") if dtype.itemsize == 8 else ("uint4", "xyzw")
    if dtype.is_sub_byte:
        body = _LANES_OF_4_BITS.format(up=_UP[rounding])
    elif dtype.itemsize == 1:
        has_negative_zero = dtype.specials != "negative_zero"
        signs = _SIGNS if has_negative_zero else _SIGNS_WITHOUT_NEGATIVE_ZERO
        body = _LANES_SMALL.format(*_OFFSETS[rounding], signs=signs)
    else:
        sign, step = _STEPS[rounding]
        body = _ROUNDED.format(
            sign=sign,
            step=step,
            magic=_MAGIC[dtype.itemsize],
            lanes=_LANES[dtype.itemsize],
            # Lifting a float16 cannot overflow: infinities and NaNs become numbers, which are
            # integers.
            result=_LOWERED if dtype.name == "float16" else _LOWERED_OR_KEPT,
        )
    return KernelSource(
        name=f"tensor_round_{dtype.name}_{rounding}",
        inputs="raw uint8 x, int64 bytes",
        outputs="raw uint8 y",
        preamble=(
            # CuPy's headers define some of these names, such as "half".
            "namespace tensor_round {"
            + (_DOUBLE if dtype.itemsize == 8 else _FLOAT)
            + _constants(dtype)
            + body
            + "}  // namespace tensor_round\n"
        ),
        operation=_RUN.format(
            pattern=PATTERNS[dtype.itemsize],
            carrier=carrier,
            members=" ".join(f"c.{m} = tensor_round::lanes(c.{m});" for m in members),
            carrier_bytes=CARRIER_BYTES,
            per_carrier=CARRIER_BYTES // dtype.itemsize,
            itemsize=dtype.itemsize,
        ),
    )


#: ``dims`` has size, input stride and output stride of each dimension, the innermost one first.
_STRIDED_COPY = """
long long rest = first + i, from = 0, to = 0;
for (int d = 0; d < rank; ++d) {{
  const long long size = dims[3 * d], next = rest / size, at = rest - next * size;
  from += at * dims[3 * d + 1];
  to += at * dims[3 * d + 2];
  rest = next;
}}
(({pattern}*)&y[0])[to] = ((const {pattern}*)&x[0])[from];
"""


def _strided_copy_kernel(itemsize: int) -> KernelSource:
    """A kernel that copies elements from one strided layout to another.

    It copies as many elements as its size, from number ``first`` on in C order.
    """
    return KernelSource(
        name=f"tensor_round_copy_strided_{8 * itemsize}",
        inputs="raw uint8 x, raw int64 dims, int32 rank, int64 first",
        outputs="raw uint8 y",
        operation=_STRIDED_COPY.format(pattern=PATTERNS[itemsize]),
    )


def run_size(nbytes: int) -> int:
    """The number of threads for a run of ``nbytes`` bytes."""
    return -(-nbytes // CARRIER_BYTES)


#: The rounding kernels of every float dtype.
ROUND_KERNELS: dict[tuple[DType, Rounding], KernelSource] = {
    (dtype, rounding): _round_kernel(dtype, rounding)
    for dtype in ROUNDABLE
    if dtype.is_float
    for rounding in Rounding
}
#: The strided copy kernels, by itemsize.
STRIDED_COPY_KERNELS: dict[int, KernelSource] = {
    size: _strided_copy_kernel(size) for size in PATTERNS
}
