"""What explains verdicts, and why runtimes get none."""

from __future__ import annotations

from typing import Any

import pytest

from tensor_round_verify import CannotVerify, Report, verify


def why_not(runtime: Any, **options: Any) -> str:
    """The one line that stands in place of a verdict."""
    with pytest.raises(CannotVerify) as caught:
        verify(runtime, **options)
    assert "\n" not in caught.value.detail
    return caught.value.detail


def names(report: Report) -> set[tuple[str, ...]]:
    """What explains each verdict; all faults are explained."""
    assert all(verdict.explanation.complete for verdict in report.verdicts), str(report)
    return {tuple(model.name for model in v.explanation.models) for v in report.verdicts}
