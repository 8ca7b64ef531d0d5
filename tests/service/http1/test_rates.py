"""ConnectionLimits in time: a deadline on a real loop, and the arithmetic of a minimum rate."""

from __future__ import annotations

import asyncio
import math
import time
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tensor_round_service.http1.context import ConnectionLimits, Deadline, MinimumRate
from tensor_round_service.settings import Settings

#: Short, and far longer than a timer is late on a busy machine.
STEP = 0.2
#: Times are whole milliseconds with uvloop.
EARLY = 0.003


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest) -> Any:
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner


class Timed:
    """A deadline that notes when it expires, in seconds from its making."""

    def __init__(self) -> None:
        self.deadline = Deadline(asyncio.get_running_loop(), self.note)
        self.began = time.monotonic()
        self.times: list[float] = []
        #: Seconds to set when it expires.
        self.again: list[float] = []

    def note(self) -> None:
        self.times.append(time.monotonic() - self.began)
        if self.again:
            self.deadline.set(self.again.pop())


def run(runner: asyncio.Runner, main: Callable[[Timed], Awaitable[None]]) -> list[float]:
    """When a deadline expires, of which ``main`` makes use."""

    async def noted() -> list[float]:
        timed = Timed()
        await main(timed)
        await asyncio.sleep(4 * STEP)
        timed.deadline.close()
        return timed.times

    return runner.run(noted())


def test_it_expires_once(runner: asyncio.Runner) -> None:
    async def main(timed: Timed) -> None:
        timed.deadline.set(STEP)

    (first,) = run(runner, main)
    assert first >= STEP - EARLY


def test_it_may_be_set_where_it_expires(runner: asyncio.Runner) -> None:
    async def main(timed: Timed) -> None:
        timed.again.append(STEP)
        timed.deadline.set(STEP)

    first, second = run(runner, main)
    assert first >= STEP - EARLY
    assert second - first >= STEP - EARLY


def test_moved_later_it_does_not_expire_before(runner: asyncio.Runner) -> None:
    async def main(timed: Timed) -> None:
        for _ in range(20):
            timed.deadline.set(STEP)
            await asyncio.sleep(STEP / 20)
        timed.deadline.set(2 * STEP)

    (first,) = run(runner, main)
    assert first >= 3 * STEP - EARLY


def test_moving_it_later_makes_no_timer() -> None:
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


def test_moved_earlier_it_expires_then(runner: asyncio.Runner) -> None:
    async def main(timed: Timed) -> None:
        timed.deadline.set(60)
        timed.deadline.set(30)
        timed.deadline.set(STEP)

    (first,) = run(runner, main)
    assert first >= STEP - EARLY


def test_cleared_it_does_not_expire(runner: asyncio.Runner) -> None:
    async def main(timed: Timed) -> None:
        timed.deadline.set(STEP)
        timed.deadline.clear()

    assert run(runner, main) == []


def test_cleared_it_may_be_set_again(runner: asyncio.Runner) -> None:
    async def main(timed: Timed) -> None:
        timed.deadline.set(STEP)
        timed.deadline.clear()
        await asyncio.sleep(2 * STEP)
        timed.deadline.set(STEP)
        timed.deadline.clear()
        timed.deadline.set(2 * STEP)

    (first,) = run(runner, main)
    assert first >= 4 * STEP - EARLY


def test_when_it_is_due(runner: asyncio.Runner) -> None:
    found: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        expired = asyncio.Event()
        deadline = Deadline(loop, expired.set)
        found.append(deadline.due)
        before = loop.time()
        deadline.set(60)
        assert before + 60 <= deadline.due <= loop.time() + 60
        deadline.clear()
        found.append(deadline.due)
        deadline.set(0.01)
        await asyncio.wait_for(expired.wait(), 20)
        found.append(deadline.due)
        deadline.set(60)
        deadline.close()
        found.append(deadline.due)

    runner.run(main())
    assert found == [math.inf] * 4


def test_closed_it_keeps_nothing(runner: asyncio.Runner) -> None:
    class Expires:
        def __call__(self) -> None:
            raise AssertionError

    async def main() -> None:
        expires = Expires()
        kept = weakref.ref(expires)
        deadline = Deadline(asyncio.get_running_loop(), expires)
        deadline.set(60)
        del expires
        assert kept() is not None
        deadline.close()
        assert kept() is None

    runner.run(main())


def test_closed_it_never_expires(runner: asyncio.Runner) -> None:
    async def main(timed: Timed) -> None:
        timed.deadline.set(STEP)
        timed.deadline.close()
        timed.deadline.close()

    assert run(runner, main) == []


@pytest.mark.parametrize(
    ("rate", "grace", "moves"),
    [
        # (bytes, seconds, whether the rate is held) one after another
        (100, 2, [(0, 1, True), (0, 1, True), (0, 1, False)]),
        (100, 2, [(100, 1, True)] * 50 + [(0, 2, True), (99, 1, False)]),
        (100, 2, [(0, 2, True), (100, 1, True), (200, 1, True), (0, 1, True), (0, 1, False)]),
        (100, 2, [(10**9, 1, True), (0, 2, True), (0, 0.01, False)]),
        (100, 2, [(0, 3, False), (99, 0, False), (1, 0, True)]),
        (100, 0, [(100, 1, True), (99, 1, False)]),
        (100, 0, [(10**9, 1, True), (99, 1, False)]),
        (0, 10, [(0, 10**6, True)] * 3),
        (0, 0, [(0, 10**6, True), (5, 1, True)]),
    ],
)
def test_a_rate(rate: int, grace: float, moves: list[tuple[int, float, bool]]) -> None:
    bucket = MinimumRate(rate, grace)
    for nbytes, seconds, is_held in moves:
        assert bucket.record(nbytes, seconds) is is_held


@pytest.mark.parametrize(
    ("limit", "moves"),
    [
        (1, [(0, 1, True), (0, 1, False)]),
        (0, [(100, 1, True), (99, 1, False)]),
        (20, [(0, 10, True), (0, 1, False)]),
    ],
)
def test_grace_may_be_cut(limit: float, moves: list[tuple[int, float, bool]]) -> None:
    bucket = MinimumRate(100, 10)
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
def test_a_limit_is_what_the_pages_tell(name: str) -> None:
    value, words = TOLD[name]
    assert getattr(LIMITS, name) == value
    assert words in PAGES
