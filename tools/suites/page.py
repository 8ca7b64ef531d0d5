"""The end of docs/runtimes.md: the wrong rules that published test suites let pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tensor_round.contract.differences.document import bits_text, value_text

from . import conversions
from .conversions import ConversionScore
from .published import SUITES
from .score import Score, score

DTYPES = ("float16", "bfloat16", "float32", "float64")
BEGIN = "\n## Published test suites\n"
HEAD = f"""\
{BEGIN}
Published suites let many wrong kernels pass: "13 of 28 (5)" means that 13 of 28 wrong rules pass, 5
of them with any operand. Each [deviation](explanation.md#deviations) that gives a wrong number runs
on the suite's operands, and the suite's own comparison judges it. Where a suite has no case, all
pass.

| suite | operator | {" | ".join(DTYPES)} |
|---|---|{"|".join("---" for _ in DTYPES)}|
"""
OPERANDS = """
If you compare bits, these operands find every rule that passes:

| type | operands |
|---|---|
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
CONVERSIONS = """
The Array API's suite draws operands anew in each run; a rule passes here if it passes with every
draw. Since its tolerance is 1, a `floor` that returns x passes.

In the suites of conversions, no operand of ONNX's casts to float16 is a tie, becomes subnormal or
is near the largest number. WebNN's `cast` may be one unit in the last place away. A tolerance of
1e-3 allows 65 in 16-bit integers.

| suite | case | of | pass |
|---|---|---|---|
"""
OF_CONVERSIONS = """
In parentheses: the scale and the zero point.

| of | operands |
|---|---|
"""


def page(current: str) -> str:
    """docs/runtimes.md with this section anew; `make runtimes` writes what is before it."""
    return current.partition(BEGIN)[0] + section()


def section() -> str:
    """The section, as Markdown."""
    scores = [score(suite, dtype) for suite in SUITES for dtype in suite.specified]
    converted = [conversions.score(of) for of in conversions.CONVERSIONS]
    return of_rounding(scores) + "".join(_of_conversions(converted))


def of_rounding(scores: Sequence[Score]) -> str:
    """The section as far as it is of rounding."""
    return "".join(_of_rounding(scores))


def _of_rounding(scores: Sequence[Score]) -> Iterator[str]:
    yield HEAD
    by_case: dict[tuple[str, str], dict[str, str]] = {}
    for found in scores:
        counts = _count(found) if found.has_cases else "no case"
        by_case.setdefault((found.suite.name, found.suite.operator), {})[found.dtype] = counts
    for (name, operator), row in by_case.items():
        yield _row(name, f"`{operator}`", *(row.get(dtype, "") for dtype in DTYPES))
    yield OPERANDS
    for dtype in DTYPES:
        closing = (found.closing.tolist() for found in scores if found.dtype == dtype)
        yield _row(dtype, _joined(_told(dtype, bits) for own in closing for bits in own))
    yield "\n| suite | a result is right if | read in |\n|---|---|---|\n"
    yield from (_row(*row) for row in COMPARISONS)


def _of_conversions(scores: Sequence[ConversionScore]) -> Iterator[str]:
    yield CONVERSIONS
    operands: dict[str, list[str]] = {}
    for found in scores:
        of = f"{found.of.how.source} to {found.of.how.target}"
        operands.setdefault(of, []).extend(_given(found))
        yield _row(found.of.name, f"`{found.of.case}`", of, _count(found))
    yield OF_CONVERSIONS
    yield from (_row(of, _joined(told)) for of, told in operands.items())


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def _joined(told: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(told))


def _count(score: Score | ConversionScore) -> str:
    unseen = f" ({len(score.unseen)})" if score.unseen else ""
    return f"{len(score.passed)} of {len(score.rules)}{unseen}"


def _told(dtype: str, bits: int) -> str:
    """A number, which is as good as its pattern; the pattern of a NaN."""
    value = value_text(dtype, bits)
    return bits_text(dtype, bits) if value == "NaN" else value


def _given(score: ConversionScore) -> list[str]:
    """Operands, each with its scale and zero point."""
    found, source = score.closing, score.of.how.source
    told = [_told(source, x) for x in found.bits.tolist()]
    if not found.scales.size:
        return told
    scales = (_told(source, scale) for scale in found.scales.tolist())
    given = zip(told, scales, found.zero_points.tolist(), strict=True)
    return [f"{x} ({scale}, {point})" for x, scale, point in given]
