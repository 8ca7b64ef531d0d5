"""Published suites: ONNX's node tests on runtimes, and the operands that would close the gaps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from suites.conversions import CONVERSIONS, Conversion
from suites.conversions import score as conversion_score
from suites.node_cases import SUITE, Found, NodeCase, run
from suites.node_cases import node_cases as generated
from suites.page import page
from suites.published import SUITES, Suite, numbers
from suites.score import score
from tensor_round_verify.conversions.deviation import deviated
from tensor_round_verify.reference import bits_type
from tensor_round_verify.runtimes import open_runtime

#: The first test generates ONNX's cases, and runs each by every runtime in a process.
pytestmark = pytest.mark.timeout(900)
ROOT = Path(__file__).parents[3]
#: What passes of the deviations that a conversion may have, and of how many.
PASSED = {
    ("test_cast_FLOAT_to_FLOAT16", "float16"): (16, 17),
    ("test_cast_DOUBLE_to_FLOAT16", "float16"): (17, 18),
    ("test_cast_FLOAT_to_BFLOAT16", "bfloat16"): (19, 21),
    ("cast", "float16"): (17, 17),
    ("cast-storage", "float16"): (4, 17),
    ("cast_rounding", "float16"): (2, 17),
    ("test_quantizelinear", "uint8"): (14, 25),
    ("test_quantizelinear_axis", "uint8"): (20, 25),
    ("test_quantizelinear_uint16", "uint16"): (19, 25),
    ("test_quantizelinear_int16", "int16"): (11, 26),
    ("quantizeLinear", "int8"): (20, 26),
    ("quantizeLinear", "uint8"): (19, 25),
}
RUNTIMES = ("onnxruntime", "onnx-reference", "openvino")
#: Types of casts that OpenVINO gets wrong.
OPENVINO_WRONG = (
    "FLOAT_to_DOUBLE",
    "FLOAT16_to_DOUBLE",
    "DOUBLE_to_FLOAT",
    "FLOAT_to_BFLOAT16",
    "FLOAT_to_FLOAT8E4M3FN",
    "FLOAT16_to_FLOAT8E4M3FN",
    "FLOAT_to_FLOAT8E5M2",
    "FLOAT16_to_FLOAT8E5M2",
)
#: NumPy's type has -0 for NaN, which float4_e2m1fn lacks: the specification does not say.
NAN_TO_4_BITS = {
    f"test_cast{like}_{source}_to_FLOAT4E2M1{expanded}"
    for source in ("FLOAT", "FLOAT16")
    for like, expanded in (("", ""), ("like", ""), ("like", "_expanded"))
}
#: What the suite expects otherwise: also that -0 and a zero point of 0, of 4 bits, are 0.
EXPECTED_OTHERWISE = NAN_TO_4_BITS | {"test_quantizelinear_float4e2m1"}
#: What each gets wrong.
WRONG = {
    "onnx-reference": EXPECTED_OTHERWISE,
    "openvino": {
        *(f"test_cast_{types}" for types in OPENVINO_WRONG),
        *(f"test_castlike_{types}" for types in OPENVINO_WRONG),
        *(f"test_castlike_{types}_expanded" for types in OPENVINO_WRONG),
        "test_quantizelinear_uint16",
    },
}


@pytest.fixture(scope="session")
def node_cases() -> list[NodeCase]:
    """ONNX's node tests of rounding, casts and quantization; they are generated once."""
    return generated()


@pytest.fixture(scope="module")
def found(node_cases: list[NodeCase]) -> list[Found]:
    return list(run(node_cases, RUNTIMES))


def test_the_suite_expects_the_right_results(found: list[Found]) -> None:
    expected = [row for row in found if row.who == SUITE]
    judged = [row for row in expected if row.right is not None]
    assert {row.operator for row in judged} == {
        "Round",
        "Ceil",
        "Floor",
        "Cast",
        "CastLike",
        "QuantizeLinear",
        "DequantizeLinear",
    }
    assert {row.case for row in judged if not row.right} == EXPECTED_OTHERWISE
    assert all(row.told for row in expected)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_each_runtime_fails_its_known_cases_only(runtime: str, found: list[Found]) -> None:
    rows = [row for row in found if row.who == runtime]
    assert any(row.right for row in rows)
    assert {row.case for row in rows if row.right is False} == WRONG.get(runtime, set())
    if runtime == "onnx-reference":
        assert all(row.right is not None for row in rows)


@pytest.mark.parametrize("suite", [s for s in SUITES if s.name == "ONNX"], ids=str)
def test_onnxs_operands_are_those_of_the_package(suite: Suite, node_cases: list[NodeCase]) -> None:
    own = [
        case.inputs["x"].reshape(-1).view(bits_type("float32"))
        for case in node_cases
        if case.operator == suite.operator
    ]
    assert np.sort(np.concatenate(own)).tolist() == np.sort(suite.bits("float32")).tolist()


def test_operands_are_right_for_stablehlos_interpreter() -> None:
    runtime = open_runtime("stablehlo")
    for suite in SUITES:
        if suite.name == "StableHLO":
            for dtype in suite.specified:
                found = score(suite, dtype)
                got = runtime.kernel(dtype, suite.rounding)(found.closing)
                assert suite.right(dtype, found.closing).tolist() == got.tolist()


@pytest.mark.parametrize("of", CONVERSIONS, ids=lambda of: f"{of.case}, {of.how.name}")
def test_the_operands_find_every_deviation_that_passes(of: Conversion) -> None:
    found = conversion_score(of)
    assert (len(found.passed), len(found.rules)) == PASSED[of.case, of.how.target]
    want = of.how.results(found.closing)
    for rule in found.passed:
        assert (deviated(of.how, [rule]).results(found.closing) != want).any()


@pytest.mark.parametrize(
    "of",
    [of for of in CONVERSIONS if of.name == "ONNX"],
    ids=lambda of: f"{of.case}, {of.how.name}",
)
def test_onnxs_conversions_are_those_of_the_package(
    of: Conversion, node_cases: list[NodeCase]
) -> None:
    (case,) = [case for case in node_cases if case.name == of.case]
    given, own = of.operands(), bits_type(of.how.source)
    assert given is not None
    x, *rest = case.inputs.values()
    # The elements of an axis are in another order there.
    moved = np.moveaxis(x, 1, 0) if rest and rest[0].ndim else x
    np.testing.assert_array_equal(moved.reshape(-1), numbers(given.bits, of.how.source))
    if rest:
        scales, points = (np.unique(part) for part in (given.scales, given.zero_points))
        assert sorted(np.atleast_1d(rest[0]).view(own).tolist()) == scales.tolist()
        assert sorted(np.atleast_1d(rest[1]).tolist()) == points.tolist()


def test_page_is_current() -> None:
    text = (ROOT / "docs/runtimes.md").read_text()
    assert page(text) == text, "run make docs"
