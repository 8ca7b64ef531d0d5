"""Both clients with everything between them and a service going wrong, for some seconds.

`make chaos` does the same for minutes.
"""

from __future__ import annotations

from chaos.storm import storm


def test_every_call_ends_in_time_in_the_right_tensor_or_an_error_of_ours() -> None:
    found = storm(seed=5, sessions=8, most=0.5)
    assert not found.violations, "\n".join(found.violations[:5])
    # Bad enough, and not too bad: most kinds of faults have struck, and of several kinds of
    # errors there were some. Which ones is up to chance, as it meets the machine's pace.
    outcomes = {outcome for _, outcome in found.outcomes}
    struck = {fault for faults, _ in found.outcomes for fault in faults.split(", ")}
    assert {"right", "DeadlineExceeded"} <= outcomes
    assert len(outcomes) >= 4
    assert len(struck) >= 6
