"""Named deviations of rounding: the ways in which real runtimes round wrong.

A deviation turns a right kernel into a wrong one. Deviations compose: a runtime may add a half,
lose the sign of -0.0, and quiet NaNs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from . import faulty_kernels as faulty
from .deviation import NO_REPORT, Deviation
from .faulty_kernels import Change, Kernel, exact
from .reference import FLOATS, INTEGER_WIDTHS

#: A ``formula`` replaces the kernel, a ``path`` changes its operand and its format, ``zeros`` and
#: ``nans`` change these among its results.
Aspect = Literal["formula", "path", "zeros", "nans"]
#: Whether a deviation can apply: (dtype, rounding) -> bool.
Fits = Callable[[str, str], bool]

_SATURATING = "conversions of ARM, of CUDA, and of Rust"


def _floats(dtype: str, _: str) -> bool:
    return dtype in FLOATS


def _with_infinity(dtype: str, _: str) -> bool:
    return dtype in FLOATS and FLOATS[dtype].has_infinity


@dataclass(frozen=True, slots=True)
class RoundingDeviation(Deviation):
    """One wrong way to round; its ``aspect`` is one of :data:`Aspect`."""

    change: Change = field(repr=False, compare=False)
    #: Whether the deviation can apply to a dtype and a direction.
    fits: Fits = field(default=_floats, repr=False, compare=False)
    #: The dtype that the kernel computes in; None is the tensor's own.
    computes_in: str | None = None
    #: The direction that the kernel rounds in, if that is the whole fault.
    rounds: str | None = None

    def around(self, kernel: Kernel) -> Kernel:
        """The kernel with this fault."""
        return lambda bits, dtype, rounding: self.change(bits, dtype, rounding, kernel)


def _direction(name: str, rounding: str, source: str) -> RoundingDeviation:
    return RoundingDeviation(
        name,
        "formula",
        f"always rounds {rounding}",
        source,
        faulty.direction(rounding),
        lambda dtype, asked: dtype in FLOATS and asked != rounding,
        rounds=rounding,
    )


def _path(narrow: str, source: str, *, clamped: bool = False) -> RoundingDeviation:
    return RoundingDeviation(
        f"through {narrow}" + (" clamped" if clamped else ""),
        "path",
        f"converts to the type, {'clamped to its range, ' if clamped else ''}rounds, converts back",
        source,
        faulty.narrowed(narrow, clamped=clamped),
        lambda dtype, _: dtype in FLOATS and faulty.loses_by(dtype, narrow),
        computes_in=narrow,
    )


def _integer_path(width: int, narrow: str, source: str) -> RoundingDeviation:
    return RoundingDeviation(
        f"integers through {narrow}",
        "path",
        f"rounds the low {width} bits, as a signed integer, in {narrow}",
        source,
        faulty.integers_through(width, narrow),
        lambda dtype, _: INTEGER_WIDTHS.get(dtype, 0) >= width,
        computes_in=narrow,
    )


FORMULAS = (
    _direction(
        "half away from zero",
        "ties_to_away",
        "gh:apache/tvm#18590, gh:llvm/torch-mlir#1811, gh:sonos/tract#2672",
    ),
    _direction("half to even", "ties_to_even", NO_REPORT),
    _direction(
        "truncation",
        "toward_zero",
        "gh:microsoft/onnxruntime#18576 (QuantizeLinear), gh:ARM-software/ComputeLibrary#834",
    ),
    _direction("floor", "toward_negative", NO_REPORT),
    _direction("ceil", "toward_positive", NO_REPORT),
    *(
        RoundingDeviation(name, "formula", about, source, faulty.direction(faulty.TIES[name]))
        for name, about, source in (
            (
                "half toward +infinity",
                "rounds ties up, as JavaScript's Math.round",
                "gh:tensorflow/tfjs#7373, gh:tenstorrent/tt-metal#56525",
            ),
            ("half toward -infinity", "rounds ties down", NO_REPORT),
            ("half toward zero", "rounds ties toward zero", "gh:microsoft/qdk#2321"),
            ("half to odd", "rounds ties to the odd integer", NO_REPORT),
        )
    ),
    *(
        RoundingDeviation(name, "formula", about, source, faulty.formula(name), fits)
        for name, about, source, fits in (
            (
                "trunc(x + copysign(0.5, x))",
                "adds a half in the tensor's own format, which rounds the sum; "
                "x >= 0 ? floor(x + 0.5) : ceil(x - 0.5) differs only for -0.0",
                "OpenVINO's CPU plugin (half_away_from_zero), ggml's Vulkan shader unary.comp",
                _floats,
            ),
            (
                "floor(x + 0.5)",
                "adds a half in the tensor's own format, which rounds the sum",
                "gh:KhronosGroup/SPIRV-Cross#1530, gh:WebKit/WebKit#63337, gh:odin-lang/Odin#2675",
                _floats,
            ),
            (
                "trunc(x + 0.5)",
                "adds a half, rounds the sum, and truncates: negatives with a fraction come out "
                "too large",
                NO_REPORT,
                _floats,
            ),
            (
                "trunc(x + 0.5) in a wider type",
                "adds a half exactly, as in double, and truncates",
                NO_REPORT,
                lambda dtype, _: dtype in FLOATS and dtype != "float64",
            ),
            (
                "magic number",
                "adds and subtracts 1.5 * 2^p, p fraction bits (12582912 in float32): large "
                "numbers lose their last bits, and zeros their sign",
                NO_REPORT,
                _floats,
            ),
            (
                "magic number of x's sign",
                "adds and subtracts 2^p with the sign of x (8388608 in float32)",
                NO_REPORT,
                _floats,
            ),
        )
    ),
    RoundingDeviation(
        "no rounding",
        "formula",
        "returns every element as it is",
        NO_REPORT,
        lambda bits, *_: bits,
    ),
)
PATHS = (
    RoundingDeviation(
        "flush subnormals",
        "path",
        "reads subnormals as zeros of their sign",
        "JAX on the CPU (gh:jax-ml/jax#38995), LiteRT by XNNPACK: ceil and floor",
        lambda bits, dtype, rounding, kernel: kernel(
            faulty.flushed(bits, FLOATS[dtype]), dtype, rounding
        ),
    ),
    _path("float32", NO_REPORT),
    _path("float32", "OpenVINO's CPU plugin, float64", clamped=True),
    _path("float16", NO_REPORT),
    _path("float16", NO_REPORT, clamped=True),
    RoundingDeviation(
        "through TF32",
        "path",
        "rounds to the 10 fraction bits of TF32 first",
        NO_REPORT,
        lambda bits, dtype, rounding, kernel: kernel(faulty.as_tf32(bits), dtype, rounding),
        lambda dtype, _: dtype == "float32",
    ),
    _path("bfloat16", "gh:flashinfer-ai/flashinfer#5128, of a cast"),
    *(
        RoundingDeviation(
            "rounded to halves first" + (", 2x overflows" if overflows else ""),
            "path",
            f"rint(rint(2x) / 2): rounds twice{told}",
            NO_REPORT,
            faulty.halves_first(overflows=overflows),
            lambda dtype, asked: dtype in FLOATS and not asked.startswith("toward_"),
        )
        for overflows, told in ((False, ""), (True, "; large numbers become infinity"))
    ),
    _integer_path(32, "float32", "OpenVINO's CPU plugin: 32 and 64 bits, with sign and without"),
    _integer_path(64, "float64", "np.rint of int64, converted back"),
)
ZEROS = (
    RoundingDeviation(
        "zero's sign lost",
        "zeros",
        "every zero becomes +0.0",
        "gh:gpuweb/gpuweb#1381 (WGSL allows it), gh:moonbitlang/core#3912",
        faulty.zeros_lost(lambda bits, _: np.ones(bits.shape, np.bool_)),
    ),
    RoundingDeviation(
        "zero's sign lost by -0.0 alone",
        "zeros",
        "-0.0 becomes +0.0; negatives that round to zero keep their sign",
        "OpenVINO's CPU plugin, ggml's Vulkan shader: the sign is that of x >= 0",
        faulty.zeros_lost(lambda bits, negative_zero: bits == negative_zero),
    ),
    RoundingDeviation(
        "zero's sign lost by all but -0.0",
        "zeros",
        "negatives that round to zero become +0.0; -0.0 is kept",
        "LiteRT's own kernel of ROUND, by floor and difference (reference/round.h)",
        faulty.zeros_lost(lambda bits, negative_zero: bits != negative_zero),
    ),
)
#: They stand in place of a change of zeros: integers have no -0.0.
INTEGERS = tuple(
    RoundingDeviation(
        f"through int{width}{' saturated' if saturates else ''}",
        "zeros",
        "converts the result to the type and back: -0.0 becomes +0.0, numbers out of range "
        f"become the {'nearest' if saturates else 'least'} integer",
        _SATURATING if saturates else f"x86's conversions, NumPy's astype(int{width}) there",
        faulty.through_integers(width, saturates=saturates),
        _with_infinity if width == 32 and not saturates else faulty.exceeds_int32,
    )
    for saturates in (False, True)
    for width in (32, 64)
)
QUIETED = RoundingDeviation(
    "NaN quieted",
    "nans",
    "sets the quiet bit of signalling NaNs; sign and payload stay",
    "NumPy, ONNX's reference evaluator, OpenVINO, PyTorch, JAX",
    faulty.nans_become(faulty.quieted),
    _with_infinity,
)
PAYLOAD_LOST = RoundingDeviation(
    "payload lost",
    "nans",
    "every NaN becomes quiet, without payload; its sign stays",
    "ONNX Runtime's float16, ml_dtypes' bfloat16",
    faulty.nans_become(faulty.payload_lost),
)
PAYLOAD_CUT = RoundingDeviation(
    "payload cut to float32's",
    "nans",
    "quiets NaNs, and keeps only the payload bits that float32 has",
    "OpenVINO's CPU plugin, float64",
    faulty.nans_become(faulty.cut_to("float32")),
    lambda dtype, _: dtype == "float64",
)
SIGN_LOST = RoundingDeviation(
    "NaN's sign lost",
    "nans",
    "clears the sign of NaNs",
    "OpenVINO's CPU plugin (half_away_from_zero)",
    faulty.nans_become(faulty.sign_lost),
)
CANONICAL = tuple(
    RoundingDeviation(
        f"NaN canonical ({pattern})",
        "nans",
        "every NaN becomes one pattern",
        source,
        faulty.canonical(negative=negative, ones=ones),
    )
    for negative, ones, pattern, source in (
        (False, False, "quiet, no payload", "the default NaN of RISC-V and ARM"),
        (True, False, "negative, quiet, no payload", "the default NaN of x86"),
        (False, True, "all ones but the sign", "CUDA's conversions; JAX's float8_e5m2"),
        (True, True, "all ones", "PyTorch's bfloat16 on CPUs"),
    )
)
NUMBERS = tuple(
    RoundingDeviation(
        f"NaN as {name}",
        "nans",
        "every NaN becomes this number",
        source,
        faulty.nans_as(value),
        fits,
    )
    for name, value, source, fits in (
        ("-2^31", -(2.0**31), "x86's conversions to int32", _with_infinity),
        ("-2^63", -(2.0**63), "x86's conversions to int64", faulty.exceeds_int32),
        ("0", 0.0, _SATURATING, _floats),
    )
)
NANS = (QUIETED, PAYLOAD_LOST, PAYLOAD_CUT, *CANONICAL, SIGN_LOST, *NUMBERS)

#: All deviations of rounding, formulas first.
DEVIATIONS: tuple[RoundingDeviation, ...] = (*FORMULAS, *PATHS, *ZEROS, *INTEGERS, *NANS)
#: Deviations that occur together; each is around those before it.
Combination = tuple[RoundingDeviation, ...]


def kernel_of(deviations: Iterable[RoundingDeviation], kernel: Kernel = exact) -> Kernel:
    """A right kernel with these faults, the first innermost."""
    for deviation in deviations:
        kernel = deviation.around(kernel)
    return kernel


def combinations(dtype: str, rounding: str) -> Iterator[Combination]:
    """None, and every sensible combination of a formula, a change of zeros, and a path."""
    for path in _fitting(PATHS, dtype, rounding):
        inside = path[0].computes_in or dtype if path else dtype
        for formula in _fitting(FORMULAS, inside, rounding):
            # Integers are tried without another detour alone.
            for zeros in _fitting(ZEROS if path else (*ZEROS, *INTEGERS), inside, rounding):
                yield (*formula, *zeros, *path)


def nan_combinations(dtype: str, rounding: str) -> Iterator[Combination]:
    """None, and every sensible combination of changes of NaNs."""
    yield from _fitting(NANS, dtype, rounding)
    for deviation in (QUIETED, PAYLOAD_CUT):
        if deviation.fits(dtype, rounding):
            yield (deviation, SIGN_LOST)


def _fitting(deviations: Combination, dtype: str, rounding: str) -> list[Combination]:
    """The empty combination, and each single deviation that fits."""
    return [(), *((one,) for one in deviations if one.fits(dtype, rounding))]
