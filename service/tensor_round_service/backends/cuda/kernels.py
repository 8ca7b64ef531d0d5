"""The kernels: one for every dtype and direction, each an expression in plain C.

The same text runs on a GPU and, through a C++ compiler, on a CPU, where the tests try it
on every pattern. It calls no rounding function. Adding a constant at whose size a float
has no bits below the integer, and taking it off again, rounds to the nearest integer,
ties to even; every other direction is at most one step from there. These are IEEE 754
additions, the same on any machine, as long as no float32 is subnormal: CuPy compiles with
``-ftz=true``, after all other options, so that even ``ceilf`` of the least float32 is 0
there. Hence operands are lifted first: their exponents are raised, to where nothing is
subnormal. A zero becomes a sliver then, and the directions that care allow for it.

Elements that lie in a run are moved 16 bytes a thread, whatever their type.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensor_round.dtypes import DTYPES, DType
from tensor_round.rounding import Rounding

#: Bytes that a thread loads, rounds and stores at once: the widest access a GPU has.
CARRIER_BYTES = 16


@dataclass(frozen=True, slots=True)
class KernelSource:
    """What an ``ElementwiseKernel`` is made of; its arrays are ``raw``, its size is given."""

    name: str
    inputs: str
    outputs: str
    operation: str
    preamble: str = ""


#: The operand's sign in each direction (none where a magnitude does), and what is left to do
#: about ``t``, the integer nearest to it.
_STEPS: dict[Rounding, tuple[str, str]] = {
    Rounding.TIES_TO_EVEN: ("0", ""),
    Rounding.TIES_TO_AWAY: ("0", "t += f - t == half ? unit : 0;"),
    Rounding.TOWARD_ZERO: ("0", "t -= t > f ? unit : 0;"),
    Rounding.TOWARD_POSITIVE: ("(x & sign) << to_top", "t += t + sliver < f ? unit : 0;"),
    Rounding.TOWARD_NEGATIVE: ("(x & sign) << to_top", "t -= t - sliver > f ? unit : 0;"),
}

#: The result's magnitude.
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

#: Halfway up its binade a constant of either sign's operands keeps its last place, but loses
#: half its range, which only types with few bits can spare; else it takes the operand's sign.
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
#: From ``integral`` on there are only integers, infinities and NaNs: they stay as they are,
#: and where lifting makes nonsense of them that does not matter.
_LOWERED_OR_KEPT = f"m < integral ? {_LOWERED} : m"

#: The 8-bit types, 16 to a carrier, have few instructions to spare, and bits in plenty: here
#: an offset before the one rounding does what a step behind it would. The sliver is less than
#: any value has behind its point.
_OFFSETS: dict[Rounding, tuple[str, str]] = {
    Rounding.TIES_TO_EVEN: ("", "0"),
    Rounding.TIES_TO_AWAY: (" + sliver", "0"),
    Rounding.TOWARD_ZERO: (" - (half - sliver)", "0"),
    Rounding.TOWARD_POSITIVE: (" + as_real(s ^ as_word(half - sliver))", "(signs)"),
    Rounding.TOWARD_NEGATIVE: (" - as_real(s ^ as_word(half - sliver))", "(signs)"),
}

#: Four magnitudes in a word. Infinities and NaNs count as the numbers that their exponents
#: would be, which are integers.
_LANES_SMALL = """
__device__ __forceinline__ word nearest(const word m, const word s) {{
  const real f = as_real((m << shift) + lift){0};
  return as_word((f + 1.5f * magic) * lower - 1.5f * magic * lower);
}}
__device__ __forceinline__ word lanes(const word w) {{
  const word m = w & 0x7f7f7f7f, s = w & 0x80808080;
  return s | nearest(__byte_perm(m, 0, 0x4440), s << 24) >> shift
           | nearest(__byte_perm(m, 0, 0x4441), s << 16 & sign << 24) >> (shift - 8)
           | nearest(__byte_perm(m, 0, 0x4442), s << 8 & sign << 24) >> (shift - 16)
           | nearest(__byte_perm(m, 0, 0x4443), s & sign << 24) << (24 - shift);
}}
"""

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
    """Where the dtype's bits lie in the work float's, and what 1 is there."""
    width, fraction = 8 * dtype.itemsize, dtype.mantissa_bits
    work_width, work_bias, work_fraction = (64, 1023, 52) if width == 64 else (32, 127, 23)
    bias = (1 << (width - fraction - 2)) - 1
    lift = 64 if work_width == 32 else 0
    unit = bias - work_bias + lift
    return f"""
constexpr word sign = {1 << (width - 1):#x};
constexpr word integral = {(bias + fraction) << fraction:#x};
constexpr int shift = {work_fraction - fraction};
constexpr int to_top = {work_width - width};
constexpr word lift = {lift << work_fraction:#x};
constexpr real lower = 0x1p-{lift};
constexpr real unit = 0x1p{unit};
constexpr real half = 0x1p{unit - 1};
constexpr real sliver = {f"0x1p{unit - bias}" if lift else "0"};
constexpr real magic = 0x1p{unit + work_fraction};
"""


#: Pattern type and carrier.
_WIDTHS: dict[int, tuple[str, str]] = {
    1: ("unsigned char", "uint4"),
    2: ("unsigned short", "uint4"),
    4: ("unsigned int", "uint4"),
    8: ("unsigned long long", "ulonglong2"),
}

#: A thread a carrier, and one for the elements behind the last.
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
    """Rounds the run of ``bytes`` at ``x``, whole elements, into the run at ``y``.

    Both begin at a multiple of 16 bytes and may be the same. Size: :func:`run_size`.
    """
    pattern, carrier = _WIDTHS[dtype.itemsize]
    members = "xyzw" if carrier == "uint4" else "xy"
    if dtype.itemsize == 1:
        body = _LANES_SMALL.format(*_OFFSETS[rounding])
    else:
        sign, step = _STEPS[rounding]
        body = _ROUNDED.format(
            sign=sign,
            step=step,
            magic=_MAGIC[dtype.itemsize],
            lanes=_LANES[dtype.itemsize],
            # With any exponent a float16 can be lifted: infinities and NaNs become numbers,
            # which are integers.
            result=_LOWERED if dtype.name == "float16" else _LOWERED_OR_KEPT,
        )
    return KernelSource(
        name=f"tensor_round_{dtype.name}_{rounding}",
        inputs="raw uint8 x, int64 bytes",
        outputs="raw uint8 y",
        preamble=(
            # CuPy's headers have names of their own outside, "half" for one.
            "namespace tensor_round {"
            + (_DOUBLE if dtype.itemsize == 8 else _FLOAT)
            + _constants(dtype)
            + body
            + "}  // namespace tensor_round\n"
        ),
        operation=_RUN.format(
            pattern=pattern,
            carrier=carrier,
            members=" ".join(f"c.{m} = tensor_round::lanes(c.{m});" for m in members),
            carrier_bytes=CARRIER_BYTES,
            per_carrier=CARRIER_BYTES // dtype.itemsize,
            itemsize=dtype.itemsize,
        ),
    )


#: ``dims`` has size, input stride and output stride of each dimension, the innermost first.
_SPREAD = """
long long rest = first + i, from = 0, to = 0;
for (int d = 0; d < rank; ++d) {{
  const long long size = dims[3 * d], next = rest / size, at = rest - next * size;
  from += at * dims[3 * d + 1];
  to += at * dims[3 * d + 2];
  rest = next;
}}
(({pattern}*)&y[0])[to] = ((const {pattern}*)&x[0])[from];
"""


def _spread_kernel(itemsize: int) -> KernelSource:
    """Copies elements from where the input's strides have them to where the output's do.

    Element ``first`` and those after it, as many as the size says, in C order.
    """
    return KernelSource(
        name=f"tensor_round_spread_{8 * itemsize}",
        inputs="raw uint8 x, raw int64 dims, int32 rank, int64 first",
        outputs="raw uint8 y",
        operation=_SPREAD.format(pattern=_WIDTHS[itemsize][0]),
    )


def run_size(nbytes: int) -> int:
    """Threads that a run of that many bytes takes."""
    return -(-nbytes // CARRIER_BYTES)


#: Every float dtype in every direction.
ROUND_KERNELS: dict[tuple[DType, Rounding], KernelSource] = {
    (dtype, rounding): _round_kernel(dtype, rounding)
    for dtype in DTYPES
    if dtype.is_float
    for rounding in Rounding
}
#: By itemsize; any dtype.
SPREAD_KERNELS: dict[int, KernelSource] = {size: _spread_kernel(size) for size in _WIDTHS}
