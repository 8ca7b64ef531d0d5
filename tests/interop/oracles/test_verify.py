"""The kit on real runtimes: what is wrong with each, and by which models, is known exactly."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tensor_round_verify import CannotVerify, Report, verify

QUIETED = ("NaN quieted",)
PAYLOAD_LOST = ("payload lost",)
PLUGIN_NANS = ("NaN quieted", "NaN's sign lost")
MINUS_ZERO = "zero's sign lost by -0.0 alone"
HALF_ADDED = "trunc(x + copysign(0.5, x))"

#: By runtime, type and direction, "" for any other: the models that explain all faults.
FAULTS: dict[str, dict[tuple[str, str], tuple[str, ...]]] = {
    "onnxruntime": {
        ("float16", "ties_to_even"): PAYLOAD_LOST,
        ("float16", ""): QUIETED,
        ("float32", "ties_to_even"): (),
        ("float64", "ties_to_even"): (),
        ("float32", ""): QUIETED,
        ("float64", ""): QUIETED,
    },
    "onnx-reference": {("bfloat16", ""): PAYLOAD_LOST, ("", ""): QUIETED},
    "openvino": {
        ("float16", "ties_to_even"): QUIETED,
        ("bfloat16", "ties_to_even"): QUIETED,
        ("float32", "ties_to_even"): QUIETED,
        ("float16", "ties_to_away"): (MINUS_ZERO, *PLUGIN_NANS),
        ("bfloat16", "ties_to_away"): (MINUS_ZERO, *PLUGIN_NANS),
        ("float32", "ties_to_away"): (HALF_ADDED, MINUS_ZERO, *PLUGIN_NANS),
        ("float64", "ties_to_even"): ("through float32 clamped", "payload cut to float32's"),
        ("float64", "ties_to_away"): (
            *(HALF_ADDED, MINUS_ZERO, "through float32 clamped"),
            *("payload cut to float32's", "NaN's sign lost"),
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
        ("float16", ""): QUIETED,
        ("float32", ""): QUIETED,
        ("float64", ""): QUIETED,
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
        ("float8_e4m3fn", ""): (),
        ("float8_e5m2", ""): ("NaN canonical (all ones but the sign)",),
        ("", ""): QUIETED,
    },
    "stablehlo": {("float8_e4m3fn", ""): (), ("", ""): QUIETED},
}
#: What some do not take.
LACKING = {
    "onnxruntime": {"bfloat16"},
    "openvino": {"float8_e4m3fn", "float8_e5m2"},
    "torch": {"float8_e4m3fn", "float8_e5m2"},
}


@pytest.fixture(scope="module")
def report() -> Callable[[str], Report]:
    found: dict[str, Report] = {}

    def of(runtime: str) -> Report:
        if runtime not in found:
            found[runtime] = verify(runtime, nans="bits")
        return found[runtime]

    return of


@pytest.mark.parametrize("runtime", FAULTS)
def test_every_fault_is_explained_by_the_models_it_is_known_by(
    runtime: str, report: Callable[[str], Report]
) -> None:
    known = FAULTS[runtime]
    verdicts = report(runtime).verdicts
    assert verdicts
    for verdict in verdicts:
        keys = (verdict.pair, (verdict.dtype, ""), ("", ""))
        expected = next(known[key] for key in keys if key in known)
        assert verdict.explanation.complete, str(verdict)
        names = tuple(model.name for model in verdict.explanation.models)
        assert names == expected, str(verdict)
        assert bool(verdict.wrong) == bool(names)
        # Nothing is wrong with lengths, places in memory, strides, dimensions or repeated calls.
        assert verdict.calls == (), str(verdict)


@pytest.mark.parametrize("runtime", FAULTS)
def test_report_names_the_dtypes_a_runtime_lacks(
    runtime: str, report: Callable[[str], Report]
) -> None:
    assert {row.dtype for row in report(runtime).lacking} == LACKING.get(runtime, set())
    assert all(row.why and "\n" not in row.why for row in report(runtime).lacking)


def test_openvinos_fault_in_numbers(request: pytest.FixtureRequest) -> None:
    """With --every-float32, on every float32 there is."""
    every = bool(request.config.getoption("--every-float32"))
    asked = {"dtypes": ["float32"], "roundings": ["ties_to_away"]}
    (verdict,) = verify("openvino", **asked, nans="any", every=every).verdicts
    assert (verdict.tried, verdict.wrong) == (
        (1 << 32, 8_388_611) if every else (1_062_678, 15_905)
    )
    assert [count.wrong for count in verdict.classes][:2] == [1, 2]
    assert "odd integers from 2^23 to 2^24 (off by one)" in str(verdict)
    assert [model.name for model in verdict.explanation.models] == [HALF_ADDED, MINUS_ZERO]


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
