"""The threads beside the event loop: turns, and work that ends with its caller."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from tensor_round.contract.progress import Pause
from tensor_round_service.engine import threads as threads_module
from tensor_round_service.engine.threads import SlowWork, Threads, Turns, Work
from tensor_round_service.net.bodies import ClientDisconnected


class Caller:
    """A caller who is gone as soon as that is said."""

    def __init__(self) -> None:
        self.gone = False
        #: Set once the threads know it.
        self.noticed = asyncio.Event()

    def is_gone(self) -> bool:
        if self.gone:
            self.noticed.set()
        return self.gone


@pytest.fixture(autouse=True)
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "LOOK_SECONDS", 0.01)


def run(main: Callable[[Threads], Coroutine[Any, Any, None]]) -> None:
    async def all_of_it() -> None:
        threads = Threads(1)
        try:
            await main(threads)
        finally:
            threads.close()

    asyncio.run(all_of_it())


def test_a_result_and_when_its_work_began() -> None:
    async def main(threads: Threads) -> None:
        before = time.perf_counter()
        for result, began in (
            await threads.round(lambda: "a", None),
            await threads.slow(lambda pause: "a", None),
        ):
            assert result == "a"
            assert before <= began <= time.perf_counter()

    run(main)


def test_an_error_is_the_callers() -> None:
    def fail(*_: object) -> None:
        raise ValueError("mine")

    async def main(threads: Threads) -> None:
        with pytest.raises(ValueError, match="mine"):
            await threads.round(fail, None)
        with pytest.raises(ValueError, match="mine"):
            await threads.slow(fail, None)

    run(main)


def test_rounding_does_not_wait_for_slow_work() -> None:
    ends = threading.Event()

    def stuck(pause: Pause) -> None:
        assert ends.wait(30)

    async def main(threads: Threads) -> None:
        slow = [asyncio.create_task(threads.slow(stuck, None)) for _ in range(4)]
        await asyncio.sleep(0.05)
        assert (await threads.round(lambda: 1, None))[0] == 1
        ends.set()
        await asyncio.gather(*slow)

    run(main)


def test_slow_works_take_turns() -> None:
    """A short one ends while a long one that began before has hardly begun."""
    pieces = 0
    ends = threading.Event()

    def long(pause: Pause) -> None:
        nonlocal pieces
        while not ends.is_set():
            time.sleep(0.001)
            pieces += 1
            pause()

    def short(pause: Pause) -> None:
        for _ in range(10):
            time.sleep(0.001)
            pause()

    async def main(threads: Threads) -> None:
        task = asyncio.create_task(threads.slow(long, None))
        while not pieces:
            await asyncio.sleep(0.01)
        await asyncio.wait_for(threads.slow(short, None), 30)
        assert not task.done()
        ends.set()
        await task

    run(main)


def test_turns_are_in_the_order_of_asking() -> None:
    turns, order = Turns(1), list[int]()
    turns.take()

    def ask(number: int) -> None:
        turns.take()
        order.append(number)
        turns.give()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(5)]
    for count, thread in enumerate(threads, 1):
        thread.start()
        while len(turns._waiting) < count:
            time.sleep(0.001)
    turns.give()
    for thread in threads:
        thread.join()
    assert order == list(range(5))


@pytest.mark.parametrize(("cores", "turns"), [(1, 1), (3, 1), (4, 2), (6, 3)])
def test_slow_works_have_a_turn_for_two_cores(cores: int, turns: int) -> None:
    """So many begin while none of them pauses, and not one more."""
    begun, ends = threading.Semaphore(0), threading.Event()

    def work(pause: Pause) -> None:
        begun.release()
        assert ends.wait(30)

    async def main() -> None:
        several = Threads(cores)
        await several.slow(lambda pause: None, None)  # whose turn is free again
        tasks = [asyncio.create_task(several.slow(work, None)) for _ in range(turns + 1)]
        for _ in range(turns):
            assert await asyncio.to_thread(begun.acquire, timeout=30)
        assert not await asyncio.to_thread(begun.acquire, timeout=0.05)
        ends.set()
        await asyncio.gather(*tasks)
        several.close()

    asyncio.run(main())


class Counted(Turns):
    """Turns that are counted as they end."""

    def __init__(self) -> None:
        super().__init__(1)
        self.ended = 0

    def give(self) -> None:
        self.ended += 1
        super().give()


def test_a_turn_lasts_for_many_short_pieces_and_no_longer_than_some_milliseconds() -> None:
    turns = Counted()

    def short(pause: Pause) -> None:
        time.sleep(0.01)
        for _ in range(1000):
            pause()

    def long(pause: Pause) -> None:
        for _ in range(20):
            time.sleep(0.01)
            pause()

    began = time.monotonic()
    SlowWork(short, turns)()
    assert turns.ended < 500
    turns.ended = 0
    SlowWork(long, turns)()
    assert turns.ended == 21
    assert time.monotonic() - began < 10  # a pause leaves the interpreter's lock for 50 us


def test_the_first_turn_lasts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Counted()
    monkeypatch.setattr(threads_module, "TURN_SECONDS", 1000.0)

    def short(pause: Pause) -> None:
        for _ in range(10):
            pause()

    SlowWork(short, turns)()
    assert turns.ended == 1


def test_work_runs_once() -> None:
    work = Work(lambda: 1)
    assert work() == 1
    with pytest.raises(ClientDisconnected):
        work()


def test_abandoned_work_keeps_nothing() -> None:
    class Content:
        pass

    content = Content()
    kept = weakref.ref(content)
    work = Work(lambda content=content: content)
    del content
    assert kept() is not None
    work.abandon()
    assert kept() is None
    with pytest.raises(ClientDisconnected):
        work()


def test_an_error_is_freed_without_a_garbage_collection() -> None:
    class Mine(Exception):
        pass

    error = Mine()
    kept = weakref.ref(error)

    def fail(*_: object) -> None:
        nonlocal error
        raised = error
        del error
        try:
            raise raised
        finally:
            del raised

    async def main(threads: Threads) -> None:
        with suppress(Mine):
            await threads.round(fail, None)
        await threads.round(lambda: None, None)  # the thread has forgotten the other work
        assert kept() is None

    gc.collect()
    gc.disable()
    try:
        run(main)
    finally:
        gc.enable()


def test_closed_threads_take_no_work() -> None:
    async def main() -> None:
        threads = Threads(1)
        threads.close()
        with pytest.raises(RuntimeError):
            await threads.round(lambda: None, None)
        with pytest.raises(RuntimeError):
            await threads.slow(lambda pause: None, None)

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["round", "slow"])
def test_work_of_a_lost_caller_is_not_begun(kind: str) -> None:
    works, ends = threading.Event(), threading.Event()
    begun: list[str] = []

    def stuck(*_: object) -> None:
        works.set()
        assert ends.wait(30)

    async def main(threads: Threads) -> None:
        run_in = getattr(threads, kind)
        first = asyncio.create_task(run_in(stuck, None))
        assert await asyncio.to_thread(works.wait, 30)
        caller = Caller()
        second = asyncio.create_task(run_in(lambda *_: begun.append("second"), caller))
        caller.gone = True
        await asyncio.wait_for(caller.noticed.wait(), 30)
        ends.set()
        await first
        with pytest.raises(ClientDisconnected):
            await second

    run(main)
    assert not begun


@pytest.mark.parametrize("stops", [False, True], ids=["caller", "service"])
def test_slow_work_ends_when_its_caller_or_the_service_goes(stops: bool) -> None:
    ended = threading.Event()

    def endless(pause: Pause) -> None:
        try:
            while True:
                time.sleep(0.001)
                pause()
        finally:
            ended.set()

    async def main(threads: Threads) -> None:
        caller = Caller()
        task = asyncio.create_task(threads.slow(endless, caller))
        await asyncio.sleep(0.05)
        assert not task.done()
        if stops:
            task.cancel()
        caller.gone = not stops
        with pytest.raises(asyncio.CancelledError if stops else ClientDisconnected):
            await asyncio.wait_for(task, 30)
        assert await asyncio.to_thread(ended.wait, 30)

    run(main)
