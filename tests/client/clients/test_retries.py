"""Which errors are tried again, how long is waited, and how much there is to spend."""

from __future__ import annotations

import pytest

import tensor_round as tr
from tensor_round.clients.session import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    LONGEST_RECONNECT_PAUSE,
    PATIENCE,
    Retries,
)
from tensor_round.transport.exchange import Deadline, refusal

NEVER = Deadline(None)

ERRORS: dict[str, tuple[tr.TensorRoundError, bool, bool]] = {
    # error, tried again, tried again if answers are verified
    "connection": (tr.ConnectionFailed("x"), True, True),
    "overloaded": (tr.Overloaded("x"), True, True),
    "draining": (tr.Draining("x"), True, True),
    "device": (tr.DeviceOutOfMemory("x"), True, True),
    "slow": (tr.ReceiveTimeout("x"), True, True),
    **{str(s): (tr.UnknownRefusal("x", status=s), True, True) for s in (408, 429, 502, 503, 504)},
    **{str(s): (tr.UnknownRefusal("x", status=s), False, False) for s in (301, 403, 418, 500)},
    "invalid": (tr.InvalidDescriptor("x"), False, False),
    "too-large": (tr.TensorTooLarge("x"), False, False),
    "unauthorized": (tr.Unauthorized("x"), False, False),
    "deadline": (tr.DeadlineExceeded("x"), False, False),
    "digest": (tr.DigestMismatch("x"), False, True),
    "violation": (tr.ProtocolViolation("x"), False, True),
}


@pytest.mark.parametrize(("error", "plain", "verified"), ERRORS.values(), ids=ERRORS)
def test_only_transient_errors_are_retried(
    error: tr.TensorRoundError, plain: bool, verified: bool
) -> None:
    for retries, again in (
        (Retries(1, verified=False), plain),
        (Retries(1, verified=True), verified),
    ):
        if again:
            assert retries.backoff(error, 0, NEVER) > 0
        else:
            with pytest.raises(type(error)) as caught:
                retries.backoff(error, 0, NEVER)
            assert caught.value is error


def test_pauses_double_with_chance_in_them() -> None:
    retries = Retries(9999, verified=False)
    for tried in (*range(12), 5000):
        most = min(FIRST_PAUSE * 2 ** min(tried, 12), LONGEST_PAUSE)
        assert most / 2 <= retries.backoff(tr.ConnectionFailed("x"), tried, NEVER) <= most
    assert len({retries.backoff(tr.ConnectionFailed("x"), 3, NEVER) for _ in range(9)}) > 1


def test_retry_after_is_waited_for_unless_it_outlasts_the_deadline() -> None:
    error, retries = tr.Overloaded("x", retry_after=7.0), Retries(1, verified=False)
    assert 7 < retries.backoff(error, 0, Deadline(60)) <= 7 + FIRST_PAUSE
    with pytest.raises(tr.Overloaded):
        retries.backoff(error, 0, Deadline(5))


def test_tries_are_counted() -> None:
    retries = Retries(2, verified=False)
    for tried in (0, 1):
        retries.backoff(tr.ConnectionFailed("x"), tried, NEVER)
    with pytest.raises(tr.ConnectionFailed):
        retries.backoff(tr.ConnectionFailed("x"), 2, NEVER)
    with pytest.raises(tr.ConnectionFailed):
        Retries(0, verified=False).backoff(tr.ConnectionFailed("x"), 0, NEVER)


def refused() -> tr.ConnectionFailed:
    error = tr.ConnectionFailed("x")
    error.is_unavailable = True
    return error


def spends(retries: Retries) -> bool:
    """Whether the budget had a retry left."""
    try:
        return retries.backoff(tr.ConnectionFailed("x"), 0, NEVER) > 0
    except tr.ConnectionFailed:
        return False


def answered(limit: int) -> Retries:
    retries = Retries(limit, verified=False, budget=0)
    retries.record_success(0)
    return retries


def test_a_service_that_has_answered_is_connected_to_until_the_deadline() -> None:
    assert Retries(1, verified=False).reconnect_pause(refused(), 0, Deadline(30)) is None
    retries = answered(1)
    for reconnects in (*range(9), 5000):
        most = min(FIRST_PAUSE * 2 ** min(reconnects, 16), LONGEST_RECONNECT_PAUSE)
        seconds = retries.reconnect_pause(refused(), reconnects, Deadline(30))
        assert seconds is not None
        assert most / 2 <= seconds <= most
    assert retries.reconnect_pause(refused(), 9, Deadline(0.3)) is None
    assert (
        retries.reconnect_pause(refused(), int(PATIENCE / LONGEST_RECONNECT_PAUSE), NEVER)
        is not None
    )
    assert (
        retries.reconnect_pause(refused(), int(PATIENCE / LONGEST_RECONNECT_PAUSE) + 1, NEVER)
        is None
    )
    gateway = refusal(503, {"retry-after": "2"}, b"<html>no server is available</html>")
    assert 2 < (retries.reconnect_pause(gateway, 0, Deadline(30)) or 0) <= 2 + FIRST_PAUSE


def test_other_errors_and_no_retries_are_no_outage() -> None:
    assert answered(3).reconnect_pause(tr.ConnectionFailed("x"), 0, NEVER) is None
    assert answered(0).reconnect_pause(refused(), 0, NEVER) is None


def test_an_outage_spends_the_budget_and_successes_earn_it_back() -> None:
    retries = Retries(10**6, verified=False, budget=3)
    assert [spends(retries) for _ in range(4)] == [True, True, True, False]
    for _ in range(11):
        retries.record_success(0)
    assert [spends(retries) for _ in range(2)] == [True, False]
    retries.record_success(2)
    assert [spends(retries) for _ in range(3)] == [True, True, False]
    for _ in range(1000):
        retries.record_success(0)
    assert [spends(retries) for _ in range(4)] == [True, True, True, False]


def test_a_deadline_ends() -> None:
    with pytest.raises(tr.DeadlineExceeded, match=r"0\.0 seconds"):
        Deadline(0.0).remaining()
    assert NEVER.remaining() is None
    given_up = Deadline(60)
    assert given_up.remaining() is not None
    given_up.expire()
    with pytest.raises(tr.DeadlineExceeded):
        given_up.next_wait()
