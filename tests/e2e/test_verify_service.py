"""A real service, verified by the kit: its results are right in every type and direction."""

from __future__ import annotations

from support.server import Service
from tensor_round.conformance import ROUNDINGS, WIDTHS, verify


def test_the_service_is_right(service: Service) -> None:
    report = verify(f"service:{service.url}")
    assert report.right, str(report)
    assert len(report.verdicts) == len(WIDTHS) * len(ROUNDINGS)
    assert report.lacking == ()
