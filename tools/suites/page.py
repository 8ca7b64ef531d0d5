"""The end of docs/runtimes.md: the wrong rules that published test suites let pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensor_round.contract.differences.document import bits_text, value_text

from . import conversions
from .conversions import ConversionScore
from .published import SUITES
from .score import Score, score

BEGIN = "\n## Published test suites\n"
HEAD = f"""\
{BEGIN}
Published suites let many wrong kernels pass: "13 of 28" means that 13 of 28 wrong rules pass. Each
[deviation](explanation.md#deviations) that gives a wrong number runs on the suite's
operands, and the suite's own comparison judges it. The operands in the last column find all that
pass, if you compare bits. "Unseen" counts the rules that pass the suite's comparison with any
operand: to find them, compare the sign of zeros, and large numbers without a tolerance.

| suite | operator | type | pass | unseen | operands that find them |
|---|---|---|---|---|---|
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
1e-3 allows 65 in 16-bit integers. An operand of quantization has its scale and zero point behind
it.

| suite | case | of | pass | unseen | operands that find them |
|---|---|---|---|---|---|
"""


def page(current: str) -> str:
    """docs/runtimes.md with this section anew; `make runtimes` writes what is before it."""
    return current.partition(BEGIN)[0] + section()


def section() -> str:
    """The section, as Markdown."""
    scores = [score(suite, dtype) for suite in SUITES for dtype in suite.specified]
    converted = [conversions.score(of) for of in conversions.CONVERSIONS]
    return of_rounding(scores) + CONVERSIONS + "".join(map(_of_conversion, converted))


def of_rounding(scores: Sequence[Score]) -> str:
    """The section as far as it is of rounding."""
    return "".join(_of_rounding(scores))


def _of_rounding(scores: Sequence[Score]) -> Iterator[str]:
    yield HEAD
    alike: dict[tuple[object, ...], list[str]] = {}
    for found in scores:
        if found.has_cases:
            operands = ", ".join(_told(found.dtype, x) for x in found.closing.tolist())
            of = (found.suite.name, f"`{found.suite.operator}`", *_counts(found), operands)
            alike.setdefault(of, []).append(found.dtype)
    for (name, operator, *told), dtypes in alike.items():
        yield _row(name, operator, ", ".join(dtypes), *told)
    lacking: dict[str, list[str]] = {}
    for found in scores:
        if not found.has_cases:
            of = f"{found.suite.name} `{found.suite.operator}`"
            lacking.setdefault(of, []).append(found.dtype)
    told = "; ".join(f"{of}: {', '.join(dtypes)}" for of, dtypes in lacking.items())
    yield f"\nAll rules pass where a suite has no case ({told}).\n"
    yield "\n| suite | a result is right if | read in |\n|---|---|---|\n"
    yield from (_row(*row) for row in COMPARISONS)


def _of_conversion(found: ConversionScore) -> str:
    of = f"{found.of.how.source} to {found.of.how.target}"
    return _row(found.of.name, f"`{found.of.case}`", of, *_counts(found), _given(found))


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |\n"


def _counts(score: Score | ConversionScore) -> tuple[str, int]:
    return f"{len(score.passed)} of {len(score.rules)}", len(score.unseen)


def _told(dtype: str, bits: int) -> str:
    """A number, which is as good as its pattern; the pattern of a NaN."""
    value = value_text(dtype, bits)
    return bits_text(dtype, bits) if value == "NaN" else value


def _given(score: ConversionScore) -> str:
    """Operands, each with its scale and zero point."""
    found, source = score.closing, score.of.how.source
    told = [_told(source, x) for x in found.bits.tolist()]
    if not found.scales.size:
        return ", ".join(told)
    scales = (_told(source, scale) for scale in found.scales.tolist())
    given = zip(told, scales, found.zero_points.tolist(), strict=True)
    return ", ".join(f"{x} ({scale}, {point})" for x, scale, point in given)
