"""A report as text: a table of counts, and a sentence for each fault."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .results import Report, Verdict


def report_text(report: Report) -> str:
    """The whole report; faults that several directions share are reported once."""
    lines = [report.runtime, "", *_table(report)]
    for group in _alike(report):
        lines += ["", *_paragraph(group)]
    lines += _not_taken(report)
    return "\n".join(lines)


def _table(report: Report) -> list[str]:
    """The counts of wrong patterns, by dtype and direction."""
    roundings = list(dict.fromkeys(verdict.rounding for verdict in report.verdicts))
    rows = [["wrong patterns", "tried", *roundings]]
    for dtype, verdicts in groupby(report.verdicts, lambda verdict: verdict.dtype):
        found = {verdict.rounding: verdict for verdict in verdicts}
        tried = next(iter(found.values())).tried
        cells = [f"{found[r].wrong:,}" if r in found else "-" for r in roundings]
        rows.append([dtype, f"{tried:,}", *cells])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]


def _alike(report: Report) -> Iterator[list[Verdict]]:
    """Wrong verdicts, grouped by dtype and equal faults."""
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in report.verdicts:
        if verdict.wrong:
            groups.setdefault((verdict.dtype, verdict.digest), []).append(verdict)
    yield from groups.values()


def _paragraph(group: list[Verdict]) -> list[str]:
    verdict = group[0]
    roundings = ", ".join(verdict.rounding for verdict in group)
    examples = [count.first[0] for count in verdict.classes]
    return [
        f"{verdict.dtype} {roundings}: {verdict.sentence}.",
        *(f"  {example}" for example in examples),
    ]


def _not_taken(report: Report) -> list[str]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in report.lacking:
        reasons.setdefault((row.dtype, row.why), []).append(row.rounding)
    lines = [
        f"{dtype} {', '.join(roundings)}: not taken: {why}"
        for (dtype, why), roundings in reasons.items()
    ]
    return ["", *lines] if lines else []
