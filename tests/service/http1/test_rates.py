"""ConnectionLimits in time: a deadline on a real loop, and the arithmetic of a minimum rate."""

from __future__ import annotations

import asyncio
import math
import weakref
from pathlib import Path
from typing import Any

import pytest

from support.http.http1_site import pass_time
from tensor_round_service.http1.context import ConnectionLimits, Deadline, MinimumRate
from tensor_round_service.settings import Settings

pytestmark = pytest.mark.anyio
#: What is done with a deadline of which it expires, in seconds, and when it does.
DEADLINES: dict[str, tuple[list[tuple[str, float]], list[float]]] = {
    "once": ([("set", 60), ("pass", 59), ("pass", 1), ("pass", 600)], [60]),
    "moved later": ([("set", 60), ("pass", 59), ("set", 60), ("pass", 59), ("pass", 1)], [119]),
    "moved earlier": ([("set", 60), ("set", 30), ("pass", 30), ("pass", 30)], [30]),
    "cleared": ([("set", 60), ("clear", 0), ("pass", 60), ("pass", 60)], []),
    "set again": (
        [("set", 60), ("clear", 0), ("pass", 30), ("set", 60), ("pass", 30), ("pass", 30)],
        [90],
    ),
    "closed": ([("set", 60), ("close", 0), ("close", 0), ("pass", 60)], []),
}


@pytest.mark.parametrize(("steps", "expected"), DEADLINES.values(), ids=DEADLINES)
async def test_deadline_expires_once_when_it_is_due(
    steps: list[tuple[str, float]], expected: list[float]
) -> None:
    def expired() -> None:
        assert deadline.due == math.inf
        times.append(round(loop.time() - began))

    loop = asyncio.get_running_loop()
    began, times = loop.time(), list[float]()
    deadline = Deadline(loop, expired)
    assert deadline.due == math.inf
    for step, seconds in steps:
        if step == "pass":
            await pass_time(seconds)
        elif step == "set":
            deadline.set(seconds)
            assert deadline.due == pytest.approx(loop.time() + seconds, abs=1)
        else:
            getattr(deadline, step)()
            assert deadline.due == math.inf
    deadline.close()
    assert times == expected


def test_moving_a_deadline_later_makes_no_timer() -> None:
    made: list[asyncio.TimerHandle] = []

    class Loop(asyncio.SelectorEventLoop):
        def time(self) -> float:
            return 7.0

        def call_at(self, when: float, *others: Any, **options: Any) -> asyncio.TimerHandle:
            made.append(super().call_at(when, *others, **options))
            return made[-1]

    async def main() -> None:
        deadline = Deadline(asyncio.get_running_loop(), lambda: None)
        for seconds in (60, *range(60, 160)):
            deadline.set(seconds)
        assert len(made) == 1
        assert deadline.due == 166
        deadline.set(30)
        assert len(made) == 2
        assert [timer.cancelled() for timer in made] == [True, False]
        deadline.close()
        assert made[1].cancelled()

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(main())


async def test_closed_deadline_keeps_no_reference_to_its_callback() -> None:
    class Expires:
        def __call__(self) -> None:
            raise AssertionError

    expires = Expires()
    kept = weakref.ref(expires)
    deadline = Deadline(asyncio.get_running_loop(), expires)
    deadline.set(60)
    del expires
    assert kept() is not None
    deadline.close()
    assert kept() is None


#: A rate, its grace, to what that is cut, and moves: bytes, seconds, whether the rate is held.
MOVES: list[tuple[int, float, float | None, list[tuple[int, float, bool]]]] = [
    (100, 2, None, [(0, 1, True), (0, 1, True), (0, 1, False)]),
    (100, 2, None, [(100, 1, True)] * 50 + [(0, 2, True), (99, 1, False)]),
    (100, 2, None, [(0, 2, True), (100, 1, True), (200, 1, True), (0, 1, True), (0, 1, False)]),
    (100, 2, None, [(10**9, 1, True), (0, 2, True), (0, 0.01, False)]),
    (100, 2, None, [(0, 3, False), (99, 0, False), (1, 0, True)]),
    (100, 0, None, [(100, 1, True), (99, 1, False)]),
    (100, 0, None, [(10**9, 1, True), (99, 1, False)]),
    (0, 10, None, [(0, 10**6, True)] * 3),
    (0, 0, None, [(0, 10**6, True), (5, 1, True)]),
    (100, 10, 1, [(0, 1, True), (0, 1, False)]),
    (100, 10, 0, [(100, 1, True), (99, 1, False)]),
    (100, 10, 20, [(0, 10, True), (0, 1, False)]),
]


@pytest.mark.parametrize(("rate", "grace", "limit", "moves"), MOVES)
def test_a_rate(
    rate: int, grace: float, limit: float | None, moves: list[tuple[int, float, bool]]
) -> None:
    bucket = MinimumRate(rate, grace)
    if limit is not None:
        bucket.limit(limit)
    for nbytes, seconds, is_held in moves:
        assert bucket.record(nbytes, seconds) is is_held


def test_cutting_grace_forgives_nothing() -> None:
    bucket = MinimumRate(100, 1)
    assert not bucket.record(0, 2)
    bucket.limit(5)
    assert not bucket.record(99, 0)
    assert bucket.record(1, 0)


LIMITS = ConnectionLimits()
DOCS = Path(__file__).parents[3] / "docs"
PAGES = "".join((DOCS / page).read_text() for page in ("architecture.md", "operations.md"))


@pytest.mark.parametrize(
    "name", ["receive_timeout", "min_receive_rate", "min_send_rate", "keep_alive"]
)
def test_limits_without_settings_are_the_defaults(name: str) -> None:
    assert getattr(LIMITS, name) == Settings.model_fields[name].default


#: How pages say the limits that no setting changes.
TOLD = {
    "linger_before": (0.1, "to read the refusal (RFC 9112, section 9.6) | 0.1 s |"),
    "linger_bytes": (8 << 20, "at most 8 MiB are discarded |"),
    "linger_seconds": (2, "are discarded | 2 s |"),
    "rate_interval": (1, "| each second: MIN_RECEIVE_RATE; then 408 |"),
    "first_grace": (1, "A new connection has a second to send its first request,"),
    "drain_grace": (0.25, "an idle connection a quarter of a second."),
}


@pytest.mark.parametrize("name", TOLD)
def test_limits_equal_those_on_the_pages(name: str) -> None:
    value, words = TOLD[name]
    assert getattr(LIMITS, name) == value
    assert words in PAGES
