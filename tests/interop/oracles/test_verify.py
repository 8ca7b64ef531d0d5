"""The kit on real runtimes: what is wrong with each, and by which models, is known exactly."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from tensor_round_verify import CannotVerify, Report, verify
from tensor_round_verify.conversions.blocks.formats import FORMATS, RULES
from tensor_round_verify.report import Verdict

QUIETED = ("NaN quieted",)
PAYLOAD_LOST = ("payload lost",)
PLUGIN_NANS = ("NaN quieted", "NaN's sign lost")
MINUS_ZERO = "zero's sign lost by -0.0 alone"
HALF_ADDED = "trunc(x + copysign(0.5, x))"
WIDE, NARROW = ("float32", "float64"), ("float32", "float16", "bfloat16")
#: Floats of 8 and 4 bits, and what is wrong with those that have no NaN to change.
ONE_NAN: dict[tuple[str, str], tuple[str, ...] | None] = {
    (dtype, ""): ()
    for dtype in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz", "float4_e2m1fn")
}
SMALL = {"float8_e5m2", *(dtype for dtype, _ in ONE_NAN)}
#: By runtime, type and direction, "" for any other: the models that explain all faults; None where
#: none do.
FAULTS: dict[str, dict[tuple[str, str], tuple[str, ...] | None]] = {
    # First, as its import ends a process in which Mesa has loaded LLVM for webgpu.
    "triton": {("", ""): QUIETED},
    "onnxruntime": {
        ("float16", "ties_to_even"): PAYLOAD_LOST,
        **{(dtype, "ties_to_even"): () for dtype in WIDE},
        ("", ""): QUIETED,
    },
    "onnx-reference": {("bfloat16", ""): PAYLOAD_LOST, ("", ""): QUIETED},
    "openvino": {
        **{(dtype, "ties_to_even"): QUIETED for dtype in NARROW},
        ("float16", "ties_to_away"): (MINUS_ZERO, *PLUGIN_NANS),
        ("bfloat16", "ties_to_away"): (MINUS_ZERO, *PLUGIN_NANS),
        ("float32", "ties_to_away"): (HALF_ADDED, MINUS_ZERO, *PLUGIN_NANS),
        ("float64", "ties_to_even"): ("through float32 clamped", "payload cut to float32's"),
        ("float64", "ties_to_away"): (
            HALF_ADDED,
            MINUS_ZERO,
            "through float32 clamped",
            "payload cut to float32's",
            "NaN's sign lost",
        ),
        **{
            (f"{sign}int{width}", rounding): (*formula, "integers through float32")
            for sign in ("", "u")
            for width in (32, 64)
            for rounding, formula in (("ties_to_even", ()), ("ties_to_away", (HALF_ADDED,)))
        },
        ("", ""): (),
    },
    "litert": {
        ("float32", "ties_to_even"): QUIETED,
        ("float32", ""): ("flush subnormals", *QUIETED),
    },
    "litert:builtin": {
        ("float32", "ties_to_even"): ("zero's sign lost by all but -0.0", *QUIETED),
        ("float32", ""): QUIETED,
    },
    "webgpu": {("", ""): QUIETED},
    "webgpu:ggml": {("", ""): (HALF_ADDED, MINUS_ZERO, *QUIETED)},
    "torch": {
        ("bfloat16", ""): ("NaN canonical (all ones)",),
        ("float64", "toward_zero"): (),
        **{(dtype, ""): QUIETED for dtype in ("float16", *WIDE)},
        ("", ""): (),
    },
    "jax": {
        **{
            (dtype, rounding): ("flush subnormals", *nans)
            for dtype, nans in (
                ("bfloat16", PAYLOAD_LOST),
                ("float32", QUIETED),
                ("float64", QUIETED),
            )
            for rounding in ("toward_positive", "toward_negative")
        },
        ("bfloat16", ""): PAYLOAD_LOST,
        **ONE_NAN,
        ("float8_e5m2", ""): ("NaN canonical (all ones but the sign)",),
        ("", ""): QUIETED,
    },
    "stablehlo": {**ONE_NAN, ("", ""): QUIETED},
    "mlx": {
        ("float16", ""): None,  # of NaNs, to each of which it adds a bit
        ("bfloat16", ""): ("NaN canonical (quiet, no payload)",),
        ("", ""): (),
    },
    # It rounds half to even by a formula that gets 0.3 and all subnormals wrong.
    "tinygrad": {
        **{(dtype, "ties_to_even"): None for dtype in (*NARROW, "float64")},
        ("", ""): QUIETED,
    },
}
#: What differs on another processor, by runtime and pair or cast: elsewhere are the faults on an
#: AMD EPYC, here those on an Intel Xeon with AVX-512 FP16.
ON_ANOTHER: dict[tuple[str, ...], tuple[str, ...]] = {
    ("torch", "float64", "toward_zero"): QUIETED,
    ("openvino", "float32 to float8_e5m2"): ("through float16",),
    ("jax", "float64 to float16"): (),
}
#: What some do not take.
LACKING = {
    "onnxruntime": {"bfloat16"},
    "openvino": SMALL,
    "torch": {*SMALL, "int4", "uint4"},
    "stablehlo": {"float4_e2m1fn"},
}


def deviations_of(verdict: Verdict) -> tuple[str, ...] | None:
    """The names of those that explain all faults; None if none do."""
    found = verdict.explanation
    return tuple(model.name for model in found.deviations) if found.complete else None


@pytest.mark.timeout(600)
@pytest.mark.parametrize("runtime", FAULTS)
def test_every_fault_is_explained_by_the_models_it_is_known_by(runtime: str) -> None:
    known, report = FAULTS[runtime], verify(runtime, nans="bits")
    assert report.verdicts
    assert {row.dtype for row in report.lacking} == LACKING.get(runtime, set())
    assert all(row.why and "\n" not in row.why for row in report.lacking)
    for verdict in report.verdicts:
        keys = (verdict.pair, (verdict.dtype, ""), ("", ""))
        expected = next(known[key] for key in keys if key in known)
        names = deviations_of(verdict)
        assert names in (expected, ON_ANOTHER.get((runtime, *verdict.pair), expected)), str(verdict)
        assert bool(verdict.wrong) == (names != ())
        # Nothing is wrong with lengths, places in memory, strides, dimensions or repeated calls.
        assert verdict.calls == (), str(verdict)


def test_openvinos_fault_in_numbers() -> None:
    asked = {"dtypes": ["float32"], "roundings": ["ties_to_away"]}
    (verdict,) = verify("openvino", **asked, nans="any").verdicts
    assert (verdict.tried, verdict.wrong) == (1_062_678, 15_905)
    assert [count.wrong for count in verdict.classes][:2] == [1, 2]
    assert "odd integers from 2^23 to 2^24 (off by one)" in str(verdict)
    assert [model.name for model in verdict.explanation.deviations] == [HALF_ADDED, MINUS_ZERO]


@pytest.mark.parametrize(
    ("runtime", "why"),
    [
        ("onnxruntime:TPU", "onnxruntime has no provider TPU here; it has .*CPUExecutionProvider"),
        ("openvino:NPU.7", "openvino has no device NPU.7 here; it has .*CPU"),
        ("torch:cuda", "torch has no device cuda"),
        ("litert:GPU", "litert has no kernels GPU"),
        ("torch:nonsense", "torch has no device nonsense"),
    ],
)
def test_a_device_that_is_not_there_is_no_verdict(runtime: str, why: str) -> None:
    with pytest.raises(CannotVerify, match=why):
        verify(runtime)


FLOATS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
TWICE, SATURATES = ("through float32",), ("saturates",)
#: ml_dtypes, and what is made with it, narrows float64 by way of float32.
OF_ML_DTYPES = {
    name: TWICE
    for target in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
    for name in (f"float64 to {target}", f"float64 to {target}, saturated")
}
#: Others narrow it so to 16 bits.
IN_16_BITS = dict.fromkeys(("float64 to float16", "float64 to bfloat16"), TWICE)
#: By runtime and cast, the deviations that explain all faults; None where none do. What is not
#: named is right.
CASTS: dict[str, dict[str, tuple[str, ...] | None]] = {
    "numpy": OF_ML_DTYPES,
    "onnx-reference": OF_ML_DTYPES,
    "torch": {
        **dict.fromkeys(
            [f"{source} to float8_e4m3fn" for source in (*NARROW, "float8_e5m2")], SATURATES
        ),
        **IN_16_BITS,
        "float64 to float8_e4m3fn": (*TWICE, *SATURATES),
        "float64 to float8_e5m2": TWICE,
    },
    "onnxruntime": {
        # Numbers from 480 to 496 become 448, not NaN, which is right from 464 on; of E5M2 those
        # from 61440 to 65536 become NaN, not infinity.
        **{
            f"{source} to {target}": None
            for source in (*NARROW, "float64")
            for target in ("float8_e4m3fn", "float8_e5m2")
        },
        "float64 to float8_e4m3fn, saturated": TWICE,
        "float64 to float8_e5m2, saturated": TWICE,
        **IN_16_BITS,
    },
    "openvino": {
        "float32 to bfloat16": None,  # of NaNs
        "float32 to float8_e4m3fn": ("through float16",),
        "float32 to float8_e5m2": None,
        "float64 to float16": TWICE,
        "float64 to bfloat16": None,
        # Infinity becomes the largest number of float32.
        **{f"{source} to float64": None for source in NARROW},
        "float64 to float32": None,
        "float64 to float8_e4m3fn": ("through float16",),
        "float64 to float8_e5m2": ("through float16",),
        "float16 to bfloat16": None,
        "bfloat16 to float8_e5m2": ("NaN as infinity",),
        "float8_e5m2 to float64": None,
    },
    "stablehlo": {},
    "litert": IN_16_BITS,
    "litert:builtin": IN_16_BITS,
    "mlx": {
        **IN_16_BITS,
        # NaN becomes 448; of float64 it reads other bytes.
        **{f"{source} to float8_e4m3fn, saturated": None for source in (*NARROW, "float64")},
    },
    "tinygrad": {
        **dict.fromkeys([f"{source} to float8_e4m3fn" for source in WIDE]),
        **dict.fromkeys(
            [f"{source} to float8_e5m2" for source in WIDE],
            ("through float16", *SATURATES, "flush subnormals"),
        ),
        **IN_16_BITS,
        "float16 to float8_e4m3fn": (*SATURATES, "flush before rounding"),
        "bfloat16 to float8_e4m3fn": (*SATURATES, "flush before rounding"),
        "bfloat16 to float8_e5m2": (*SATURATES, "flush before rounding"),
        "float16 to float8_e5m2": (*SATURATES, "flush subnormals", "NaN as infinity"),
        **{
            f"{source} to {target}": ("flush subnormals",)
            for source in ("float8_e4m3fn", "float8_e5m2")
            for target in (*NARROW, "float64")
        },
        "float8_e4m3fn to float8_e5m2": ("flush subnormals",),
        "float8_e5m2 to float8_e4m3fn": (*SATURATES, "flush subnormal results"),
    },
    "triton": {
        "float32 to bfloat16": None,  # by truncation of some
        "float16 to bfloat16": ("truncation", "NaN as infinity"),
        "bfloat16 to float32": None,
        "bfloat16 to float64": None,
        **{
            f"{source} to {target}": None
            for source in NARROW
            for target in ("float8_e4m3fn", "float8_e5m2")
        },
        **{f"float8_e4m3fn to {target}": None for target in NARROW},  # NaN becomes 480
        **{f"float8_e5m2 to {target}": None for target in (*NARROW, "float8_e4m3fn")},
    },
    # Last, as its threads do not like that others start processes. Subnormals are flushed where
    # float64 becomes float32.
    "jax": {
        "float64 to float16": TWICE,
        "float64 to bfloat16": ("through float32", "flush subnormals"),
        "float64 to float32": None,
        "float32 to float64": ("flush subnormals",),
        "bfloat16 to float64": ("flush subnormals",),
    },
}


def explained(report: Report) -> dict[str, tuple[str, ...] | None]:
    return {verdict.dtype: deviations_of(verdict) for verdict in report.verdicts if verdict.wrong}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("runtime", CASTS)
def test_every_fault_of_a_cast_is_known(runtime: str) -> None:
    asked: Any = {"dtypes": FLOATS, "roundings": ["ties_to_even"]}
    report = verify(runtime, operator="cast", **asked)
    found = explained(report)
    for name in {verdict.dtype for verdict in report.verdicts}:
        known = CASTS[runtime].get(name, ())
        assert found.get(name, ()) in (known, ON_ANOTHER.get((runtime, name), known)), name


#: Casts from and to integers, and to the types that few runtimes have.
PAIRS = [
    *(("float32", target) for target in ("int8", "uint8", "int16", "uint16", "int32", "uint32")),
    *(("float32", target) for target in ("int64", "uint64", "float8_e4m3fnuz", "float8_e5m2fnuz")),
    ("float32", "float8_e8m0fnu"),
    ("float64", "int32"),
    ("bfloat16", "uint8"),
    ("int64", "float32"),
    ("int64", "float16"),
    ("int32", "bfloat16"),
    ("uint64", "float64"),
    ("int64", "int8"),
    ("int8", "uint64"),
    ("uint8", "float8_e4m3fn"),
]
LARGEST, INT32 = ("NaN as the greatest integer",), ("by way of int32",)
#: By runtime the rule of what is out of range, "" for what is not named by its target or whole.
#: Where NumPy converts to uint32, vectors and the elements after the last one differ.
FOUND: dict[str, dict[str, str]] = {
    "numpy": {"": "x86", "float8_e8m0fnu": "nan"},
    "torch": {"": "x86", "float8_e8m0fnu": "wrap"},
    "onnxruntime": {"": "x86", "float8_e8m0fnu": "nan", "float8_e8m0fnu, saturated": "saturate"},
    "onnx-reference": {"": "x86", "float8_e8m0fnu": "wrap", "float8_e8m0fnu, saturated": "wrap"},
    "litert": {"": "saturate"},
    "openvino": {
        "": "saturate",
        **dict.fromkeys(("int16", "uint16", "uint32", "uint64"), "x86"),
        "float32 to int32": "x86",
    },
    # Last, as above.
    "jax": {"": "saturate", "float8_e8m0fnu": "nan"},
}
#: By runtime and cast the deviations that explain all faults, as above.
INTEGER_CASTS: dict[str, dict[str, tuple[str, ...] | None]] = {
    "numpy": {
        "float32 to uint32": None,
        "float32 to float8_e8m0fnu": None,  # subnormals up to 1.5 times the least become twice it
        "int32 to bfloat16": TWICE,
    },
    "torch": {
        "float32 to uint32": None,
        "float32 to float8_e8m0fnu": None,  # as do these, and zeros are the least
        "int32 to bfloat16": TWICE,
    },
    "onnxruntime": {
        "float32 to uint32": None,
        # Without saturation whatever is out of range is NaN, before it is rounded.
        "float32 to float8_e8m0fnu": None,
        "int32 to bfloat16": TWICE,
    },
    "onnx-reference": {
        "float32 to uint32": None,
        "float32 to float8_e8m0fnu": None,
        "float32 to float8_e8m0fnu, saturated": None,
        "int32 to bfloat16": TWICE,
    },
    "jax": {"float32 to float8_e8m0fnu": None, "int32 to bfloat16": TWICE},
    "litert": {
        **{
            f"{source} to {target}": LARGEST
            for source in ("float32", "float64", "bfloat16")
            for target in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
        },
        "int32 to bfloat16": TWICE,
    },
    "openvino": {
        **{f"float32 to {target}": INT32 for target in ("uint32", "int64", "uint64")},
        "float64 to int32": ("NaN as the least integer",),
        "int32 to bfloat16": (*TWICE, "half added to odd patterns alone"),
        "uint64 to float64": TWICE,
    },
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("runtime", FOUND)
def test_runtimes_cast_integers_as_recorded(runtime: str) -> None:
    verdicts = list[Verdict]()
    for source, target in PAIRS:
        rounding = "toward_zero" if "float" in source and "int" in target else "ties_to_even"
        asked: Any = {"dtypes": [source, target], "roundings": [rounding]}
        with contextlib.suppress(CannotVerify):  # some have not all types
            verdicts += verify(runtime, operator="cast", **asked).verdicts
    assert len(verdicts) >= 13
    known, rules = INTEGER_CASTS[runtime], FOUND[runtime]
    for verdict in verdicts:
        name, target = verdict.dtype, verdict.dtype.partition(" to ")[2]
        rule = rules.get(name, rules.get(target, rules[""]))
        assert verdict.rule in ("", rule), str(verdict)
        assert deviations_of(verdict) == known.get(verdict.dtype, ()), str(verdict)


def test_openvinos_bfloat16_in_one_sentence() -> None:
    asked = {"dtypes": ["float32", "bfloat16"], "roundings": ["ties_to_even"]}
    (verdict,) = verify("openvino", operator="cast", **asked).verdicts
    assert "for numbers this is half added to odd patterns alone" in str(verdict)


INTEGERS = ("int8", "uint8", "int16", "uint16")


THROUGH, ROUNDED_FIRST = ("through int32",), ("operands rounded first",)


@pytest.mark.timeout(600)
def test_onnxruntime_quantizes_right_but_for_its_division_in_float16() -> None:
    asked: Any = {"dtypes": [*NARROW, *INTEGERS]}
    report = verify("onnxruntime", operator="quantize_linear", **asked)
    assert len(report.verdicts) == 36
    found = explained(report)
    assert set(found.values()) == {ROUNDED_FIRST}
    assert {dtype.rpartition(", ")[2] for dtype in found} == {"float16 scales", "float16 quotients"}


@pytest.mark.timeout(600)
def test_the_reference_evaluator_quantizes_through_int32() -> None:
    found = explained(
        verify("onnx-reference", operator="quantize_linear", dtypes=["float32", *INTEGERS])
    )
    unnamed = "float32 to int8, per tensor, float8_e8m0fnu scales, bfloat16 quotients"
    assert found.pop(unnamed) is None
    others = ROUNDED_FIRST, ("quotient in float32",)
    assert set(found.values()) == {THROUGH, *((*one, *THROUGH) for one in others)}


RECIPROCAL, AWAY = ("reciprocal",), ("half away from zero", "through int32")
#: By runtime and quantization, the deviations that explain all faults, as of casts.
QUANTIZATIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "torch": {
        f"float32 to {target}, {form}": names
        for target in ("int8", "uint8")
        for form, names in (
            ("per tensor", ("reciprocal, fused with the zero point",)),
            ("per axis", ("zero point inside", "reciprocal")),
        )
    },
    # Per axis and for int16 XNNPACK leaves the work to the builtin kernels.
    "litert": {
        "float32 to int8, per tensor": RECIPROCAL,
        "float32 to uint8, per tensor": RECIPROCAL,
        "float32 to int16, per tensor": (*RECIPROCAL, "through int32"),
        **{f"float32 to {target}, per axis": AWAY for target in ("int8", "uint8", "int16")},
    },
    "litert:builtin": {
        f"float32 to {target}, {form}": names
        for target in ("int8", "uint8", "int16")
        for form, names in (("per tensor", (*RECIPROCAL, "through int32")), ("per axis", AWAY))
    },
}


@pytest.mark.parametrize("runtime", QUANTIZATIONS)
def test_every_fault_of_a_quantization_is_known(runtime: str) -> None:
    asked: Any = {"dtypes": ["float32", *INTEGERS]}
    report = verify(runtime, operator="quantize_linear", **asked)
    assert explained(report) == QUANTIZATIONS[runtime]


def test_litert_turns_infinity_into_its_least_number_and_has_another_tail() -> None:
    asked: dict[str, Any] = {"dtypes": ["float32", "int8"], "operator": "quantize_linear"}
    (verdict, _) = verify("litert:builtin", **asked).verdicts
    told = "1,482 of 88,104 wrong: 24 of 48 infinities (off by one), 24 of 2,059 numbers beyond"
    assert told in str(verdict)
    (tail,) = verdict.calls
    assert "elements after the last multiple of 8" in str(tail)


def test_openvino_quantizes_by_another_formula() -> None:
    asked: dict[str, Any] = {"dtypes": ["float32", "int8"], "operator": "quantize_linear"}
    found = explained(verify("openvino", **asked))
    assert found == dict.fromkeys(found)  # no deviation explains it
    assert len(found) == 3


BY_2_126 = "divided by 2^-126 where the scale is 2^-127"
NOT_DIVIDED = "not divided where the scale is 2^-127"
LOG2 = "log2 in float32"
#: What explains torchao's wrong results for float32 in the MX formats, by the rule of scales.
MX = {"floor": {BY_2_126}, "ceil": {BY_2_126}, "rceil": {NOT_DIVIDED, LOG2}, "even": {BY_2_126}}
#: Those in NVFP4, beside a reciprocal.
NV = {"least scales raised to normal ones"}


# All formats, each with millions of elements: half a minute on an idle machine.
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scale", RULES)
def test_each_fault_of_torchao_is_explained(scale: str) -> None:
    report = verify("torchao", operator="block_quantize", dtypes=["float32"], scale=scale)
    assert {row.dtype for row in report.lacking} == {"float32 to mxint8"}
    for verdict in report.verdicts:
        named = {model.name for model in verdict.explanation.deviations}
        assert verdict.wrong
        assert verdict.explanation.complete
        is_nv = "nvfp4" in verdict.dtype
        assert named - {"reciprocal", "reciprocal by parts"} == (NV if is_nv else MX[scale])
        assert bool(named & {"reciprocal", "reciprocal by parts"}) == is_nv


def test_torchao_decodes_right_but_for_float16() -> None:
    report = verify("torchao", operator="block_dequantize")
    for verdict in report.verdicts:
        assert verdict.right == (
            not verdict.dtype.endswith("float16")
            or "nv" in verdict.dtype[:2]
            or verdict.dtype.endswith("bfloat16")
        )
        if not verdict.right:
            names = {model.name for model in verdict.explanation.deviations}
            assert names == {"scale rounded to the result's type"}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("operator", ["block_quantize", "block_dequantize"])
def test_gfloat_is_right_in_every_format(operator: Any) -> None:
    """A library that shares nothing with the reference, and finds it right."""
    report = verify("gfloat", operator=operator)
    assert report.right, str(report)
    judged = {name for verdict in report.verdicts for name in verdict.dtype.split(" to ")}
    assert judged & FORMATS.keys() == FORMATS.keys() - {"nvfp4"}
