"""The traffic of tools/soak, and what tools/walls does to a service, for a few seconds.

`make soak` and `make walls` do the same for minutes.
"""

from __future__ import annotations

from soak.soak import soak
from soak.traffic import BAD, GOOD
from walls import disconnects, slow


def test_mixed_traffic_gets_right_answers_and_documented_refusals() -> None:
    found = soak(6, seed=2, say=lambda _: None, rest=5)
    assert not found.faults, "\n".join(found.faults[:5])
    # Every kind had its turn.
    assert set(GOOD) <= set(found.ledger.durations)
    assert {f"bad: {name}" for name in BAD} <= set(found.ledger.kinds)
    assert [kind for kind in found.ledger.kinds if kind.startswith("rude: ")]


def test_senders_that_hang_up_leave_nothing() -> None:
    verdict = disconnects.run(300, rest=5)
    assert not verdict.faults, verdict


def test_a_hundred_slow_senders_are_let_go_in_time() -> None:
    found = slow.besieged(100, timeout=1.0)
    assert not found.faults, found.faults
    assert set(found.ends) == set(slow.KINDS)
