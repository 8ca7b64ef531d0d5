"""What explains the verdicts of a report."""

from __future__ import annotations

import tensor_round_verify as conformance


def names(report: conformance.Report) -> set[tuple[str, ...]]:
    """What explains each verdict; all faults are explained."""
    assert all(verdict.explanation.complete for verdict in report.verdicts), str(report)
    return {tuple(model.name for model in v.explanation.models) for v in report.verdicts}
