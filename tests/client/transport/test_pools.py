"""The pool: no connection in two hands, none left behind, none shared with a child."""

from __future__ import annotations

import asyncio
import os
import threading
import time

import pytest

from tensor_round import DeadlineExceeded, InvalidArgument
from tensor_round.transport.asynchronous import AsyncPool
from tensor_round.transport.blocking import Pool, run
from tensor_round.transport.exchange import LONGEST_WAIT, Deadline


class Held:
    """A connection that notices when two threads have it at once."""

    def __init__(self) -> None:
        self.users = 0
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


SOON = 5.0
NEVER = Deadline(None)


def taken(pool: Pool[Held], deadline: Deadline) -> Held:
    return run(pool.acquire(deadline))


def test_the_last_one_given_is_taken_first() -> None:
    pool = Pool(Held, 3)
    first, second = taken(pool, Deadline(SOON)), taken(pool, Deadline(SOON))
    assert first is not second
    pool.release(first)
    pool.release(second)
    assert taken(pool, Deadline(SOON)) is second


def test_there_are_never_more_than_its_size_nor_two_users_of_one() -> None:
    made: list[Held] = []

    def make() -> Held:
        made.append(Held())
        return made[-1]

    pool, shared = Pool(make, 3), []

    def use() -> None:
        for _ in range(50):
            connection = taken(pool, Deadline(SOON))
            connection.users += 1
            time.sleep(0)
            shared.append(connection.users)
            connection.users -= 1
            pool.release(connection)

    threads = [threading.Thread(target=use) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) <= 3
    assert set(shared) == {1}
    assert len(shared) == 24 * 50


def test_waiting_for_one_ends_at_the_deadline() -> None:
    pool = Pool(Held, 1)
    taken(pool, Deadline(SOON))
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        taken(pool, Deadline(0.1))
    assert time.monotonic() - began < 30


def test_returned_connection_wakes_a_waiting_thread() -> None:
    """Not only by looking again, every quarter of a second."""

    def woken() -> float:
        pool = Pool(Held, 1)
        only = taken(pool, Deadline(SOON))
        waiting = threading.Thread(target=taken, args=(pool, Deadline(SOON)))
        waiting.start()
        while not pool._waiting:
            time.sleep(0.001)
        began = time.monotonic()
        pool.release(only)
        waiting.join()
        return time.monotonic() - began

    assert min(woken() for _ in range(5)) < LONGEST_WAIT / 4


def test_closing_closes_the_idle_now_and_the_rest_when_it_comes_back() -> None:
    pool = Pool(Held, 2)
    idle, busy = taken(pool, Deadline(SOON)), taken(pool, Deadline(SOON))
    pool.release(idle)
    run(pool.close())
    assert (idle.is_closed, busy.is_closed) == (True, False)
    pool.release(busy)
    assert busy.is_closed
    with pytest.raises(InvalidArgument, match="closed"):
        taken(pool, Deadline(SOON))


@pytest.mark.anyio
async def test_a_task_that_waits_while_the_pool_is_closed_gets_none() -> None:
    pool = AsyncPool(Held, 1)
    busy = await pool.acquire(NEVER)
    waiting = asyncio.ensure_future(pool.acquire(NEVER))
    await asyncio.sleep(0)
    await pool.close()
    pool.release(busy)
    with pytest.raises(InvalidArgument, match="closed"):
        await waiting


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
def test_a_child_has_none_of_its_parent_s_connections() -> None:
    pool = Pool(Held, 2)
    idle, busy = taken(pool, Deadline(SOON)), taken(pool, Deadline(SOON))
    pool.release(idle)
    # Held by the parent at the very moment of the fork, as if by another thread.
    with pool._changed:
        child = os.fork()
        if child == 0:
            clean = idle.is_closed and busy.is_closed
            fresh = [taken(pool, Deadline(SOON)), taken(pool, Deadline(SOON))]
            os._exit(0 if clean and idle not in fresh and busy not in fresh else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not idle.is_closed
    assert taken(pool, Deadline(SOON)) is idle


def test_a_turn_that_comes_as_its_task_is_cancelled_goes_to_the_next() -> None:
    async def main() -> None:
        pool = AsyncPool(Held, 1)
        only = await pool.acquire(NEVER)
        first, second = (asyncio.create_task(pool.acquire(NEVER)) for _ in range(2))
        await asyncio.sleep(0)
        pool.release(only)
        first.cancel()
        assert await second is only
        await pool.close()
        assert not only.is_closed
        pool.release(only)
        assert only.is_closed

    asyncio.run(main())
