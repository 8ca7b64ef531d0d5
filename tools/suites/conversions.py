"""Published suites of casts and of linear quantization, and the deviations that they let pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tensor_round.contract.dtypes import BY_NAME
from tensor_round_verify.conversions.conversion import Cast, How, Quantization
from tensor_round_verify.conversions.deviation import ConversionDeviation, deviated
from tensor_round_verify.conversions.fitting import singles
from tensor_round_verify.conversions.patterns import Operands, cast_operands, trials
from tensor_round_verify.conversions.reference import as_bits
from tensor_round_verify.reference import FLOATS, Bits, Flags, differs

from .published import Numbers, numbers
from .score import covering

#: Whether a suite takes results for right: (results, right results) -> flags.
Agrees = Callable[[Numbers, Numbers], Flags]
#: An operand with its scale and its zero point.
Triple = tuple[float, float, int]


@dataclass(frozen=True, slots=True)
class Conversion:
    """The cases of one conversion. Without operands, it is judged whatever they are."""

    name: str
    case: str
    how: How
    agrees: Agrees = field(repr=False)
    casts: tuple[float, ...] = ()
    quantizes: tuple[Triple, ...] = ()

    def operands(self) -> Operands | None:
        """Its operands, if it has them."""
        source = self.how.source
        if self.casts:
            return Operands.of_cast(as_bits(list(self.casts), source))
        if self.quantizes:
            x, scales, points = zip(*self.quantizes, strict=True)
            scale_bits = as_bits(list(scales), source)
            return Operands(as_bits(list(x), source), scale_bits, np.array(points, np.int64))
        return None


@dataclass(frozen=True, slots=True)
class ConversionScore:
    """The deviations that are wrong, those of them that pass, and what would find these.

    ``unseen`` pass by the comparison whatever the operand. ``closing`` are operands that find all
    that pass, if results are compared to the bit.
    """

    of: Conversion
    rules: tuple[ConversionDeviation, ...]
    passed: tuple[ConversionDeviation, ...]
    unseen: tuple[ConversionDeviation, ...]
    closing: Operands


def hard(how: How) -> Operands:
    """Operands for which every deviation of the conversion is wrong somewhere."""
    if isinstance(how, Cast):
        return Operands.of_cast(cast_operands(how.source, how.target))
    own = trials(how.source, how.codes, how.scale_type, per_axis=False)
    return Operands.joined([trial.operands() for trial in own])


def score(of: Conversion) -> ConversionScore:
    """Judge every deviation by the suite's own comparison."""
    how, every = of.how, hard(of.how)
    given = of.operands() or every
    want, right = how.results(every), how.results(given)
    single = [one for (one,) in singles(how)]
    results = [(one, deviated(how, [one]).results(every)) for one in single]
    wrong = [(one, got) for one, got in results if differs(got, want, how.target).any()]
    passed = [
        (one, got)
        for one, got in wrong
        if of.agrees(*_values(how.target, deviated(how, [one]).results(given), right)).all()
    ]
    unseen, shows = [], []
    for one, got in passed:
        seen = ~of.agrees(*_values(how.target, got, want))
        if not seen.any():
            unseen.append(one)
            seen = differs(got, want, how.target)
        shows.append(seen)
    order = np.argsort(np.abs(np.nan_to_num(numbers(every.bits, how.source))), kind="stable")
    chosen = order[covering([seen[order] for seen in shows])]
    return ConversionScore(
        of,
        tuple(one for one, _ in wrong),
        tuple(one for one, _ in passed),
        tuple(unseen),
        every.at(chosen),
    )


def _values(target: str, got: Bits, want: Bits) -> tuple[Numbers, Numbers]:
    if target in FLOATS:
        return numbers(got, target), numbers(want, target)
    own = BY_NAME[target].numpy
    return got.view(own).astype(np.float64), want.view(own).astype(np.float64)


def _close(rtol: float) -> Agrees:
    return lambda got, want: np.isclose(got, want, rtol=rtol, atol=1e-7, equal_nan=True)


def _same(got: Numbers, want: Numbers) -> Flags:
    """JavaScript's Object.is."""
    same: Flags = (got == want) & (np.signbit(got) == np.signbit(want))
    return same | (np.isnan(got) & np.isnan(want))


def _one_ulp(got: Numbers, want: Numbers) -> Flags:
    """One float16 away at most; a zero is equal to the other."""
    kind = BY_NAME["float16"].numpy
    with np.errstate(over="ignore"):
        low, high = (
            np.nextafter(want.astype(kind), kind.type(end)) for end in (-math.inf, math.inf)
        )
    near: Flags = (low <= got) & (got <= high)
    return near | (np.isnan(got) & np.isnan(want))


def _one_apart(got: Numbers, want: Numbers) -> Flags:
    near: Flags = np.abs(got - want) <= 1
    return near


# fmt: off
_ONNX_CAST = (
    0.4789254665374756, 0.48033666610717773, 0.4996848702430725, 0.8191054463386536,
    0.4703124761581421, 0.8164680004119873, 0.21087194979190826, 0.7229037880897522, math.nan,
    math.inf, math.inf, -math.inf,
)
_WEBNN_CAST = (
    1.0003, -1.0003, 1.0007, -1.0007, 1.00048828125, -1.00048828125, 1.00146484375, -1.00146484375,
    2049, -2049, 2051, -2051, 2**-24, -(2**-24), 2**-25, -(2**-25), 3 * 2**-25, -3 * 2**-25,
    5 * 2**-25, -5 * 2**-25, 1023 * 2**-24, -1023 * 2**-24, 2047 * 2**-25, -2047 * 2**-25, 0.0,
    -0.0, 65504, -65504, 65519, -65519, 65520, -65520, 65536, -65536, math.inf, -math.inf, math.nan,
)
_WEBNN_SIMPLE = (
    102.1578369140625, 43.60371780395508, 52.84621810913086, 99.9583511352539, 6.729493141174316,
    92.66157531738281, 10.377813339233398, 106.65289306640625, 7.126272678375244, 91.51563262939453,
    50.87134552001953, 83.38890075683594, 72.9759750366211, 31.015382766723633, 79.94034576416016,
    41.844703674316406, 35.727149963378906, 2.614182949066162, 96.05252838134766, 86.76212310791016,
    27.49382972717285, 23.836687088012695, 70.77123260498047, 83.8347396850586,
)
_WEBNN_STORAGE = (
    0.0, -0.0, 2**-26, -(2**-26), 2**-25, -(2**-25), 3 * 2**-25, -3 * 2**-25, 5 * 2**-25,
    -5 * 2**-25, 1.00048828125, -1.00048828125,
)
_AXIS = (
    ((-162, 10, -100, 232, -20, -50), 2.0, 84),
    ((-76, 0, 0, 252, 32, -44), 4.0, 24),
    ((245, -485, -960, -270, -375, -470), 5.0, 196),
)
_NEAR_2 = (3.0, -3.0, 2.9, -2.9, 3.1, -3.1)
_LONG = {
    "uint16": ((0.0, -128.0, *_NEAR_2, 65536.0, -65534.0, 70000.0, -70000.0), 32767),
    "int16": (
        (0.0, -514.0, *_NEAR_2, 65022.0, -66046.0, 65023.0, -66047.0, 65024.0, -66048.0, 70000.0,
         -70000.0),
        256,
    ),
}
# fmt: on


def _cast(source: str, target: str) -> Cast:
    return Cast(source, target, "ties_to_even", saturate=False)


CONVERSIONS = (
    *(
        Conversion("ONNX", f"test_cast_{names}", _cast(source, target), _close(rtol), _ONNX_CAST)
        for names, source, target, rtol in (
            ("FLOAT_to_FLOAT16", "float32", "float16", 1e-3),
            ("DOUBLE_to_FLOAT16", "float64", "float16", 1e-3),
            ("FLOAT_to_BFLOAT16", "float32", "bfloat16", 2**-6),
        )
    ),
    *(
        Conversion("WebNN (WPT)", case, _cast("float32", "float16"), agrees, operands)
        for case, agrees, operands in (
            ("cast", _one_ulp, _WEBNN_SIMPLE),
            ("cast-storage", _same, _WEBNN_STORAGE),
            ("cast_rounding", _same, _WEBNN_CAST),
        )
    ),
    Conversion(
        name="ONNX",
        case="test_quantizelinear",
        how=Quantization("float32", "uint8"),
        agrees=_close(1e-3),
        quantizes=tuple((x, 2.0, 128) for x in (0.0, 2.0, 3.0, 1000.0, -254.0, -1000.0)),
    ),
    Conversion(
        name="ONNX",
        case="test_quantizelinear_axis",
        how=Quantization("float32", "uint8"),
        agrees=_close(1e-3),
        quantizes=tuple((float(x), scale, point) for row, scale, point in _AXIS for x in row),
    ),
    *(
        Conversion(
            name="ONNX",
            case=f"test_quantizelinear_{target}",
            how=Quantization("float32", target),
            agrees=_close(1e-3),
            quantizes=tuple((x, 2.0, point) for x in row),
        )
        for target, (row, point) in _LONG.items()
    ),
    *(
        Conversion("WebNN (WPT)", "quantizeLinear", Quantization("float32", target), _one_apart)
        for target in ("int8", "uint8")
    ),
)
