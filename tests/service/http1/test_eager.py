"""Coroutines run without a task until they wait."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Coroutine
from typing import Any

import pytest
import uvloop

from tensor_round_service.http1.connection import start_eagerly


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest) -> Any:
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner


def begin(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
    return start_eagerly(coroutine, asyncio.get_running_loop())


def test_coroutine_that_never_waits_is_done_on_return(runner: asyncio.Runner) -> None:
    steps: list[str] = []

    async def work() -> None:
        steps.append("done")

    async def main() -> None:
        assert begin(work()) is None
        assert steps == ["done"]

    runner.run(main())


def test_coroutine_that_waits_becomes_a_task(runner: asyncio.Runner) -> None:
    steps: list[object] = []

    async def work(future: asyncio.Future[str]) -> None:
        steps.append("begun")
        steps.append(await future)
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        steps.append(await asyncio.to_thread(lambda: "from a thread"))

    async def main() -> None:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = begin(work(future))
        assert task is not None
        assert steps == ["begun"]
        future.set_result("came")
        await task
        assert steps == ["begun", "came", "from a thread"]

    runner.run(main())


def test_coroutine_that_yields_resumes_in_the_next_turn(runner: asyncio.Runner) -> None:
    steps: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)
        steps.append("later")

    async def main() -> None:
        assert begin(work()) is not None
        assert not steps
        await asyncio.sleep(0)
        assert steps == ["later"]

    runner.run(main())


def test_a_failure_after_waiting_is_the_tasks(runner: asyncio.Runner) -> None:
    async def work(future: asyncio.Future[None]) -> None:
        await future

    async def main() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = begin(work(future))
        assert task is not None
        future.set_exception(KeyError("gone"))
        with pytest.raises(KeyError):
            await task

    runner.run(main())


def test_a_failure_before_waiting_is_the_callers(runner: asyncio.Runner) -> None:
    async def work() -> None:
        raise KeyError("at once")

    async def main() -> None:
        with pytest.raises(KeyError):
            begin(work())

    runner.run(main())


def test_cancelling_reaches_the_coroutine(runner: asyncio.Runner) -> None:
    steps: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.001)
            await asyncio.sleep(0)
            steps.append("told")
            raise

    async def main() -> None:
        task = begin(work())
        assert task is not None
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert steps == ["told"]

    runner.run(main())


@pytest.mark.parametrize("is_waiting", [False, True])
def test_cancelled_coroutine_can_wait_again(runner: asyncio.Runner, is_waiting: bool) -> None:
    got: list[str] = []

    async def work(future: asyncio.Future[str]) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            got.append(await future)

    async def main() -> None:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = begin(work(future))
        assert task is not None
        if is_waiting:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done()
        future.set_result("came")
        await task
        assert got == ["came"]

    runner.run(main())


def test_an_error_that_is_raised_where_it_waits_keeps_nothing(runner: asyncio.Runner) -> None:
    class Memory(bytearray):
        pass

    kept: list[weakref.ref[Memory]] = []

    async def work() -> None:
        memory = Memory(10)
        kept.append(weakref.ref(memory))
        await asyncio.sleep(60)

    async def main() -> None:
        task = begin(work())
        assert task is not None
        await asyncio.sleep(0)
        gc.disable()
        try:
            task.cancel()
            await asyncio.wait([task])
            del task
            assert kept[0]() is None
        finally:
            gc.enable()

    runner.run(main())


def test_cancelled_coroutine_can_return(runner: asyncio.Runner) -> None:
    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return

    async def main() -> None:
        task = begin(work())
        assert task is not None
        await asyncio.sleep(0)
        task.cancel()
        await task

    runner.run(main())
