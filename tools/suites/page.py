"""docs/published-suites.md: the scores of published test suites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensor_round.contract.differences.document import bits_text, value_text

from . import conversions
from .conversions import ConversionScore
from .published import SUITES
from .score import Score, score

DTYPES = ("float16", "bfloat16", "float32", "float64")

HEAD = """\
# Published test suites

Published suites let many wrong kernels pass: "12 of 24" means that 12 of 24 wrong rules pass. Each
[deviation](explanation.md#deviations-of-rounding) that gives a wrong number runs on the
suite's operands, and the suite's own comparison judges it. With "no case", all rules pass; empty
cells are unspecified types.

| suite | operator | {dtypes} |
|---|---|{rules}|
"""
COMPARISONS = (
    (
        "ONNX",
        "`assert_allclose` takes it for right with rtol 1e-3 and atol 1e-7: -0.0 for 0.0, and "
        "8388610 for 8388609",
        "onnx 1.23.2, `onnx/backend/test`",
    ),
    (
        "WebNN (WPT)",
        "it is equal, -0.0 to 0.0 too",
        "web-platform-tests, `webnn/conformance_tests`",
    ),
    (
        "StableHLO",
        "it is equal, -0.0 to 0.0 too, or has the same sign and is 0.0001 away at most",
        "openxla/stablehlo, `stablehlo/tests/interpret`",
    ),
    (
        "Array API",
        "it is equal, zeros with their sign, for integers, infinities and NaNs, and for halves in "
        "`round`; for all other floats it is 1 away at most, or 25 %",
        "data-apis/array-api-tests",
    ),
)
PASSES = """
The Array API's suite draws operands anew in each run; a rule passes here if it passes with every
draw. Since its tolerance is 1, a `floor` that returns x passes.

## Operands that find the rest

If you compare bits, the operands in the last column find every rule that passes. Rules in *italics*
pass the suite's comparison with any operand.

| suite | of | passes | operands that find it |
|---|---|---|---|
"""
CONVERSIONS = """
## Casts and quantization

This table tries the [deviations](explanation.md#deviations-of-conversions). In WebNN's `cast` all
pass, and in ONNX's to float16 all but one: no operand is a tie, becomes subnormal or is near the
largest number, and a result may be one unit in the last place away. A tolerance of 1e-3 allows 65
in 16-bit integers.

| suite | case | of | passes | which | operands that find it |
|---|---|---|---|---|---|
"""
TAIL = """
To find rules in italics, compare the sign of zeros, and large numbers without a tolerance.
`make docs` writes this page, and `make test-oracles` runs the suites on runtimes.
"""


def page() -> str:
    """The page, as Markdown."""
    scores = [score(suite, dtype) for suite in SUITES for dtype in suite.specified]
    converted = [conversions.score(of) for of in conversions.CONVERSIONS]
    return of_rounding(scores) + "".join(_of_conversions(converted)) + TAIL


def of_rounding(scores: Sequence[Score]) -> str:
    """The page as far as it is of rounding."""
    return "".join(_of_rounding(scores))


def _of_conversions(scores: Sequence[ConversionScore]) -> Iterator[str]:
    yield CONVERSIONS
    for found in scores:
        of = f"{found.of.how.source} to {found.of.how.target}"
        count = f"{len(found.passed)} of {len(found.rules)}"
        cells = (found.of.name, f"`{found.of.case}`", of, count, _names(found))
        yield f"| {' | '.join((*cells, _given(found)))} |\n"


def _given(score: ConversionScore) -> str:
    """Operands, with their scales and zero points."""
    found, source = score.closing, score.of.how.source
    told = [f"{value_text(source, x)} ({bits_text(source, x)})" for x in found.bits.tolist()]
    if found.scales.size:
        pairs = zip(found.scales.tolist(), found.zero_points.tolist(), strict=True)
        told = [
            f"{one} by scale {value_text(source, scale)} and zero point {point}"
            for one, (scale, point) in zip(told, pairs, strict=True)
        ]
    return ", ".join(told)


def _of_rounding(scores: Sequence[Score]) -> Iterator[str]:
    yield HEAD.format(dtypes=" | ".join(DTYPES), rules="|".join("---" for _ in DTYPES))
    by_case: dict[tuple[str, str], dict[str, Score]] = {}
    for found in scores:
        by_case.setdefault((found.suite.name, found.suite.operator), {})[found.dtype] = found
    for (name, operator), row in by_case.items():
        cells = (_cell(row[dtype]) if dtype in row else "" for dtype in DTYPES)
        yield f"| {name} | `{operator}` | {' | '.join(cells)} |\n"
    yield "\n| suite | a result is right if | read in |\n|---|---|---|\n"
    yield from (f"| {' | '.join(row)} |\n" for row in COMPARISONS)
    yield PASSES
    for found in scores:
        if found.has_cases:
            of = f"`{found.suite.operator}`, {found.dtype}"
            yield f"| {found.suite.name} | {of} | {_names(found)} | {_operands(found)} |\n"


def _cell(score: Score) -> str:
    if not score.has_cases:
        return "no case"
    return f"{len(score.passed)} of {len(score.rules)}"


def _names(score: Score | ConversionScore) -> str:
    """The rules that pass, those that no operand would find in italics."""
    return ", ".join(
        f"*{rule.name}*" if rule in score.unseen else rule.name for rule in score.passed
    )


def _operands(score: Score) -> str:
    dtype = score.dtype
    return ", ".join(
        f"{value_text(dtype, bits)} ({bits_text(dtype, bits)})" for bits in score.closing.tolist()
    )
