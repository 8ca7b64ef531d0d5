"""Both clients with everything between them and a service going wrong, for a few seconds.

`make chaos` does the same for minutes.
"""

from __future__ import annotations

from chaos.storm import storm


def test_every_call_ends_in_time_in_the_right_tensor_or_an_error_of_ours() -> None:
    found = storm(6, seed=2, most=1.0)
    assert not found.violations, "\n".join(found.violations[:5])
    outcomes = {outcome for _, outcome in found.outcomes}
    # Bad enough, and not too bad; and without digests garbled payloads do get through.
    assert {"right", "garbled elements", "ConnectionFailed", "ProtocolViolation"} <= outcomes
    struck = {fault for faults, _ in found.outcomes for fault in faults.split(", ")}
    assert {"cut up", "cut down", "garbled up", "garbled down", "answered", "nothing"} <= struck
