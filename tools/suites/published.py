"""Published test suites of rounding: their operands, and when they take a result for right."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME
from tensor_round_verify.patterns import edges
from tensor_round_verify.reference import WIDTHS, Bits, Flags, all_patterns, rounded

Numbers = npt.NDArray[np.float64]
#: Whether a suite takes results for right: (dtype, operands, results, right results) -> flags.
Agrees = Callable[[str, Numbers, Numbers, Numbers], Flags]


@dataclass(frozen=True, slots=True)
class Suite:
    """The cases of one operator.

    ``operands`` are those of each dtype, with patterns as hexadecimal text. Types of ``draws`` have
    drawn ones: any number at all. Another dtype of ``specified`` has no case.
    """

    name: str
    operator: str
    rounding: str
    specified: tuple[str, ...]
    agrees: Agrees = field(repr=False)
    operands: Mapping[str, tuple[float | str, ...]] = field(default_factory=dict)
    draws: tuple[str, ...] = ()

    def bits(self, dtype: str) -> Bits:
        """The patterns of its operands; empty if it has no case of the dtype."""
        if dtype in self.draws:
            return hard(dtype)
        given = self.operands.get(dtype, ())
        own = BY_NAME[dtype].numpy
        found = [
            int(x, 16)
            if isinstance(x, str)
            else int(np.array(x).astype(own).view(f"<u{own.itemsize}"))
            for x in given
        ]
        return np.array(found, f"<u{own.itemsize}")

    def right(self, dtype: str, bits: Bits) -> Bits:
        """The right results, as patterns."""
        return rounded(bits, dtype, self.rounding)

    def __str__(self) -> str:
        return f"{self.name}, {self.operator}"


def hard(dtype: str) -> Bits:
    """Patterns on which every named rule is wrong somewhere."""
    return all_patterns(dtype) if WIDTHS[dtype] <= 16 else edges(dtype)


def numbers(bits: Bits, dtype: str) -> Numbers:
    """The values of patterns; float64 holds them all."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        found: Numbers = bits.view(BY_NAME[dtype].numpy).astype(np.float64)
    return found


#: The largest tie that is drawn, and the largest number.
_DRAWN = {"float32": (1e4 + 0.5, 3.4028234663852886e38), "float64": (1e16, 1.7976931348623157e308)}


def _equal(_: str, __: Numbers, got: Numbers, want: Numbers) -> Flags:
    """Equal numbers: 0.0 and -0.0 are equal."""
    return (got == want) | (np.isnan(got) & np.isnan(want))


def _close(dtype: str, _: Numbers, got: Numbers, want: Numbers) -> Flags:
    """numpy.testing.assert_allclose with atol=1e-7 and rtol=1e-3, for bfloat16 two ULPs."""
    rtol = 2**-6 if dtype == "bfloat16" else 1e-3
    return np.isclose(got, want, rtol=rtol, atol=1e-7, equal_nan=True)


def _almost(dtype: str, x: Numbers, got: Numbers, want: Numbers) -> Flags:
    """Equal numbers, and numbers of one sign that are 0.0001 apart at most."""
    with np.errstate(invalid="ignore"):
        near = np.abs(got - want) <= 1e-4
    return _equal(dtype, x, got, want) | (near & (np.signbit(got) == np.signbit(want)))


def _array_api(*, ties: bool) -> Agrees:
    """Special cases are exact, zeros with their sign; other floats are within 25 % or 1.

    Halves are a special case of ``round`` alone.
    """

    def agrees(dtype: str, x: Numbers, got: Numbers, want: Numbers) -> Flags:
        of_ties, largest = _DRAWN[dtype]
        with np.errstate(invalid="ignore", over="ignore"):
            integral = x == np.trunc(x)
            halves = (np.abs(x - np.trunc(x)) == 0.5) & (np.abs(x) <= of_ties)
            scale = np.maximum(np.abs(got), np.abs(want))
            loose = np.abs(got - want) <= np.maximum(0.25 * scale, 1)
        # Infinity is taken for close to any number whose exponential would overflow.
        loose = np.where(np.isinf(got), np.abs(want) > math.log(largest), loose)
        special = ~np.isfinite(x) | integral | (halves & ties)
        signed = (x != 0) | (np.signbit(got) == np.signbit(want))
        return np.where(special, _equal(dtype, x, got, want) & signed, loose)

    return agrees


def _wpt(operator: str, rounding: str, *operands: tuple[float, ...]) -> Suite:
    return Suite(
        "WebNN (WPT)",
        operator,
        rounding,
        ("float16", "float32"),
        _equal,
        dict(zip(("float32", "float16"), operands, strict=True)),
    )


def _onnx(operator: str, rounding: str, *operands: float) -> Suite:
    return Suite(
        "ONNX",
        operator,
        rounding,
        ("float16", "bfloat16", "float32", "float64"),
        _close,
        {"float32": operands},
    )


def _stablehlo(operator: str, rounding: str, **operands: tuple[float | str, ...]) -> Suite:
    return Suite(
        "StableHLO",
        operator,
        rounding,
        ("float16", "bfloat16", "float32", "float64"),
        _almost,
        operands,
    )


def _drawn(operator: str, rounding: str) -> Suite:
    return Suite(
        "Array API",
        operator,
        rounding,
        ("float32", "float64"),
        _array_api(ties=operator == "round"),
        draws=("float32", "float64"),
    )


#: -infinity, -2.5, the least numbers, the zeros, 2.5, infinity and NaN.
_SPECIAL: dict[str, tuple[float | str, ...]] = {
    dtype: (-math.inf, -2.5, f"0x8{1:0{digits - 1}x}", -0.0, 0.0, "0x1", 2.5, math.inf, math.nan)
    for dtype, digits in (("bfloat16", 4), ("float16", 4), ("float32", 8), ("float64", 16))
}
_HALVES = (-2.5, 0.4, 0.5, 0.6, 2.5)
#: What ONNX's generator of cases draws, with its seed.
_NORMAL = tuple(np.random.RandomState(0).randn(60).astype(np.float32).tolist())

# fmt: off
_CEIL_32 = (
    67.38941955566406, 36.78218460083008, 99.10649108886719, -22.58710479736328, 32.70173645019531,
    17.68880844116211, 5.631034851074219, 12.965238571166992, 83.1319351196289, -29.292461395263672,
    19.84463119506836, 65.2790298461914, 26.31110954284668, 24.285673141479492, -48.39767074584961,
    -5.617412567138672, 61.53380584716797, -87.81197357177734, 69.71428680419922,
    5.0031023025512695, 84.36833953857422, -9.390542030334473, -27.856616973876953,
    -34.895931243896484,
)
_CEIL_16 = (
    67.375, 36.78125, 99.125, -22.59375, 32.6875, 17.6875, 5.6328125, 12.96875, 83.125, -29.296875,
    19.84375, 65.25, 26.3125, 24.28125, -48.40625, -5.6171875, 61.53125, -87.8125, 69.6875,
    5.00390625, 84.375, -9.390625, -27.859375, -34.90625,
)
_FLOOR_32 = (
    89.69458770751953, -79.67150115966797, -66.80949401855469, -71.88439178466797, 86.33935546875,
    6.823808670043945, 24.908447265625, 0.9734055399894714, 19.948184967041016, 0.8437766456557551,
    -24.752939224243164, 77.76482391357422, -33.644466400146484, 80.7762451171875,
    44.47844314575195, -37.65005874633789, -83.78780364990234, 65.840087890625, -39.83677673339844,
    32.5257568359375, -21.213542938232422, -80.30911254882812, 16.674850463867188,
    -72.88893127441406,
)
_FLOOR_16 = (
    89.6875, -79.6875, -66.8125, -71.875, 86.3125, 6.82421875, 24.90625, 0.9736328125, 19.953125,
    0.84375, -24.75, 77.75, -33.65625, 80.75, 44.46875, -37.65625, -83.8125, 65.8125, -39.84375,
    32.53125, -21.21875, -80.3125, 16.671875, -72.875,
)
# fmt: on
_EVEN = (1.5, -1.5, 0.5, -2.5)
_ROUND = (0.1, 0.5, 0.9, 1.2, 1.5, 1.8, 2.3, 2.5, 2.7, -1.1, -1.5, -1.9, -2.2, -2.5, -2.8)

SUITES = (
    _onnx("Round", "ties_to_even", *_ROUND),
    _onnx("Ceil", "toward_positive", -1.5, 1.2, *_NORMAL),
    _onnx("Floor", "toward_negative", -1.5, 1.2, 2.0, *_NORMAL),
    _wpt("roundEven", "ties_to_even", _EVEN, _EVEN),
    _wpt("ceil", "toward_positive", _CEIL_32, _CEIL_16),
    _wpt("floor", "toward_negative", _FLOOR_32, _FLOOR_16),
    _stablehlo("round_nearest_even", "ties_to_even", float64=_HALVES),
    _stablehlo("round_nearest_afz", "ties_to_away", float64=_HALVES),
    _stablehlo("ceil", "toward_positive", **_SPECIAL),
    _stablehlo("floor", "toward_negative", **_SPECIAL),
    _drawn("round", "ties_to_even"),
    _drawn("trunc", "toward_zero"),
    _drawn("ceil", "toward_positive"),
    _drawn("floor", "toward_negative"),
)
