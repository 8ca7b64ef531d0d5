"""Casts and quantizations of real runtimes: what is wrong with each, and by which deviations."""

from __future__ import annotations

import pytest

from tensor_round_verify import Report, verify

TWICE = ("through float32",)
#: ml_dtypes, and what is made with it, narrows float64 by way of float32.
OF_ML_DTYPES = {
    name: TWICE
    for target in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
    for name in (f"float64 to {target}", f"float64 to {target}, saturated")
}
#: By runtime and cast, the deviations that explain all faults; None where none do. What is not
#: named is right.
CASTS: dict[str, dict[str, tuple[str, ...] | None]] = {
    "numpy": OF_ML_DTYPES,
    "onnx-reference": OF_ML_DTYPES,
    "torch": {
        "float32 to float8_e4m3fn": ("saturates",),
        "float64 to float16": TWICE,
        "float64 to bfloat16": TWICE,
        "float64 to float8_e4m3fn": (*TWICE, "saturates"),
        "float64 to float8_e5m2": TWICE,
    },
    "onnxruntime": {
        # Numbers from 480 to 496 become 448, not NaN, which is right from 464 on.
        "float32 to float8_e4m3fn": None,
        "float64 to float8_e4m3fn": None,
        "float64 to float8_e4m3fn, saturated": TWICE,
        # Numbers from 61440 to 65536 become NaN, not infinity.
        "float32 to float8_e5m2": None,
        "float64 to float8_e5m2": None,
        "float64 to float8_e5m2, saturated": TWICE,
        "float64 to float16": TWICE,
        "float64 to bfloat16": TWICE,
    },
    "openvino": {
        "float32 to bfloat16": None,  # of NaNs
        "float32 to float8_e4m3fn": ("through float16",),
        "float32 to float8_e5m2": None,
        "float64 to float16": TWICE,
        "float64 to bfloat16": None,
        "float64 to float8_e4m3fn": ("through float16",),
        "float64 to float8_e5m2": ("through float16",),
    },
    "stablehlo": {},
    # Last, as its threads do not like that others start processes.
    "jax": {
        "float64 to float16": TWICE,
        "float64 to bfloat16": (*TWICE, "flush subnormals"),
    },
}


def explained(report: Report) -> dict[str, tuple[str, ...] | None]:
    return {
        verdict.dtype: tuple(model.name for model in verdict.explanation.models)
        if verdict.explanation.complete
        else None
        for verdict in report.verdicts
        if verdict.wrong
    }


@pytest.mark.parametrize("runtime", CASTS)
def test_every_fault_of_a_cast_is_known(runtime: str) -> None:
    report = verify(runtime, operator="cast", roundings=["ties_to_even"])
    taken = {verdict.dtype for verdict in report.verdicts}
    assert explained(report) == {
        name: found for name, found in CASTS[runtime].items() if name in taken
    }


def test_openvinos_bfloat16_in_one_sentence() -> None:
    asked = {"dtypes": ["float32", "bfloat16"], "roundings": ["ties_to_even"]}
    (verdict,) = verify("openvino", operator="cast", **asked).verdicts
    assert "for numbers this is half added to odd patterns alone" in str(verdict)


def test_onnxruntime_quantizes_right() -> None:
    report = verify("onnxruntime", operator="quantize_linear")
    assert report.right
    assert len(report.verdicts) == 16


def test_the_reference_evaluator_quantizes_through_int32() -> None:
    found = explained(verify("onnx-reference", operator="quantize_linear", dtypes=["float32"]))
    assert set(found.values()) == {("through int32",)}


def test_torch_multiplies_by_the_reciprocal() -> None:
    found = explained(verify("torch", operator="quantize_linear"))
    for target in ("int8", "uint8"):
        fused = ("reciprocal, fused with the zero point",)
        assert found[f"float32 to {target}, per tensor"] == fused
        assert found[f"float32 to {target}, per axis"] == ("reciprocal", "zero point inside")
