"""Baselines: known faults from an earlier report, with which a new report is compared.

A difference in either direction is a complaint: a baseline with a fault that is fixed would hide
the fault's return.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensor_round.contract.errors import CannotVerify

from .deadlines import read_file
from .report import Complaints, Pair, Report, Verdict
from .runtimes import TIMEOUT

#: The longest report, in bytes.
MAX_LENGTH = 64 << 20


@dataclass(frozen=True, slots=True)
class Known:
    """The result of an earlier run for one dtype and direction."""

    tried: int
    wrong: int
    digest: str
    #: The causes of faults of calls.
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Baseline:
    """The faults of an earlier run, by dtype and direction."""

    known: Mapping[Pair, Known]

    @classmethod
    def of(cls, report: Report) -> Baseline:
        """The baseline with the faults of a report."""
        return cls.from_data(report.as_data())

    @classmethod
    def read(cls, path: Path, timeout: float = TIMEOUT) -> Baseline:
        """Read a report in JSON from a file; raises :class:`CannotVerify`.

        A report has at most 64 MiB, and a pipe ends within ``timeout`` seconds.
        """
        text = read_file(path, MAX_LENGTH, timeout)
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CannotVerify(f"{path} is not JSON: {error}") from None
        try:
            return cls.from_data(data)
        except CannotVerify as error:
            raise CannotVerify(f"{path}: {error.detail}") from None

    @classmethod
    def from_data(cls, data: Any) -> Baseline:
        """The baseline in ``Report.as_data``; raises :class:`CannotVerify` for other data."""
        try:
            rows = [
                (
                    (row["dtype"], row["rounding"]),
                    Known(
                        int(row["tried"]),
                        int(row["wrong"]),
                        str(row["sha256"]),
                        # Reports did not have them always.
                        tuple(str(call["cause"]) for call in row.get("calls", ())),
                    ),
                )
                for row in data["verdicts"]
            ]
            return cls(dict(rows))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise CannotVerify(
                "a baseline is the output of verify --json: verdicts, each with dtype, rounding, "
                f"tried, wrong and sha256; {type(error).__name__}: {error}"
            ) from None

    def complaints(self, report: Report) -> Complaints:
        """The differences of a report from this baseline, for the report's dtypes and directions.

        Raises :class:`CannotVerify` if the two tried different patterns.
        """
        found = {}
        for verdict in report.verdicts:
            complaint = _complaint(verdict, self.known.get(verdict.pair))
            if complaint is not None:
                found[verdict.pair] = complaint
        for row in report.lacking:
            if row.pair in self.known:
                found[row.pair] = f"no longer supported: {row.why}"
            elif row.failed:
                found[row.pair] = row.sentence
        return found


def complaints(report: Report, baseline: Baseline | None = None) -> Complaints:
    """Every fault of a report, or with a baseline every difference from it."""
    if baseline is not None:
        return baseline.complaints(report)
    failed = {row.pair: row.sentence for row in report.lacking if row.failed}
    return {v.pair: v.sentence for v in report.verdicts if not v.right} | failed


def _complaint(verdict: Verdict, known: Known | None) -> str | None:
    if known is None:
        return None if verdict.right else f"not in the baseline: {verdict.sentence}"
    if known.tried != verdict.tried:
        raise CannotVerify(
            f"the baseline tried {known.tried:,} patterns of {verdict.name}, this run "
            f"{verdict.tried:,}: write a new baseline with the same options"
        )
    if known.digest == verdict.digest:
        return _complaint_of_calls(verdict, known)
    if not verdict.wrong:
        return f"fixed: {known.wrong:,} wrong in the baseline, none now; write a new baseline"
    if verdict.wrong < known.wrong:
        return f"partly fixed: {known.wrong:,} wrong in the baseline, now {verdict.sentence}"
    if verdict.wrong > known.wrong:
        return f"worse than the baseline, which has {known.wrong:,} wrong: {verdict.sentence}"
    return f"other errors than in the baseline, as many: {verdict.sentence}"


def _complaint_of_calls(verdict: Verdict, known: Known) -> str | None:
    causes = [fault.cause for fault in verdict.calls]
    if new := [cause for cause in causes if cause not in known.calls]:
        return f"not in the baseline: {'; '.join(new)}"
    if mended := [cause for cause in known.calls if cause not in causes]:
        return f"fixed: {'; '.join(mended)}; write a new baseline"
    return None
