"""Coroutines run without a task until they wait."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Coroutine
from typing import Any

import pytest

from tensor_round_service.http1.connection import start_eagerly

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


def begin(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
    return start_eagerly(coroutine, asyncio.get_running_loop())


def begun(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """The task of a coroutine that waits."""
    task = begin(coroutine)
    assert task is not None
    return task


async def test_coroutine_that_never_waits_is_done_on_return() -> None:
    async def work() -> None:
        steps.append("done")

    async def fail() -> None:
        raise KeyError("at once")

    steps: list[str] = []
    assert begin(work()) is None
    assert steps == ["done"]
    with pytest.raises(KeyError):
        begin(fail())


async def test_coroutine_that_waits_becomes_a_task() -> None:
    async def work() -> None:
        steps.append("begun")
        steps.append(await future)
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        steps.append(await asyncio.to_thread(lambda: "from a thread"))
        raise KeyError("gone")

    steps: list[object] = []
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = begun(work())
    assert steps == ["begun"]
    future.set_result("came")
    with pytest.raises(KeyError):
        await task
    assert steps == ["begun", "came", "from a thread"]


async def test_coroutine_that_yields_resumes_in_the_next_turn() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        steps.append("later")

    steps: list[str] = []
    begun(work())
    assert not steps
    await asyncio.sleep(0)
    assert steps == ["later"]


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_cancelled_coroutine_can_wait_again_and_return(is_waiting: bool) -> None:
    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            got.append(await future)

    got: list[str] = []
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = begun(work())
    if is_waiting:
        await asyncio.sleep(0)
    task.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    future.set_result("came")
    await task
    assert got == ["came"]


async def test_cancelled_coroutine_frees_its_memory() -> None:
    class Memory(bytearray):
        pass

    async def work() -> None:
        memory = Memory(10)
        kept.append(weakref.ref(memory))
        await asyncio.sleep(60)

    kept: list[weakref.ref[Memory]] = []
    task = begun(work())
    await asyncio.sleep(0)
    gc.disable()
    try:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        del task
        assert kept[0]() is None
    finally:
        gc.enable()
