"""Work in pieces: each once, whoever helps, and nobody at work when it is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tensor_round_service.oip.executor import (
    PIECE_BYTES,
    SHARED_BYTES,
    buffers_for,
    for_each_piece,
)

SIZES = (0, 1, PIECE_BYTES, PIECE_BYTES + 1, SHARED_BYTES - 1, SHARED_BYTES, SHARED_BYTES + 4)
HaveDone = Callable[[Callable[[], None]], None]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def nobody(_work: Callable[[], None]) -> None:
    """No thread is ever free."""


def at_once(work: Callable[[], None]) -> None:
    """A thread does it all before anybody else comes to anything."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@pytest.mark.parametrize("nbytes", SIZES)
@pytest.mark.parametrize("have_done", [nobody, at_once])
def test_each_piece_is_done_once(nbytes: int, have_done: HaveDone) -> None:
    done: list[tuple[int, int]] = []

    def work(start: int, end: int, thread: int) -> None:
        assert end - start <= buffers_for(nbytes)[thread]
        done.append((start, end))

    for_each_piece(nbytes, work, have_done)
    done.sort()
    assert [start for start, _ in done] == [0, *(end for _, end in done[:-1])]
    assert done[-1][1] == nbytes


def test_two_threads_share(pool: ThreadPoolExecutor) -> None:
    together = threading.Barrier(2, timeout=10)
    threads = set()

    def work(start: int, _end: int, thread: int) -> None:
        threads.add(thread)
        if start < 2 * PIECE_BYTES:
            together.wait()

    for_each_piece(2 * SHARED_BYTES, work, pool.submit)
    assert threads == {0, 1}


def test_on_threads_that_are_all_taken(pool: ThreadPoolExecutor) -> None:
    """Each waits for no other, though none of them finds a helper."""
    together = threading.Barrier(2, timeout=10)

    def whole() -> int:
        done = []
        together.wait()
        for_each_piece(SHARED_BYTES, lambda start, end, _: done.append(end - start), pool.submit)
        return sum(done)

    futures = [pool.submit(whole) for _ in range(2)]
    assert [future.result(10) for future in futures] == [SHARED_BYTES] * 2


def test_late_helper_does_nothing() -> None:
    late: list[Callable[[], None]] = []
    done = []
    for_each_piece(SHARED_BYTES, lambda start, _end, _thread: done.append(start), late.append)
    (help_,) = late
    before = len(done)
    help_()
    assert len(done) == before


@pytest.mark.parametrize("fails", [0, 1])
def test_a_failure_ends_the_work_of_both(pool: ThreadPoolExecutor, fails: int) -> None:
    together = threading.Barrier(2, timeout=10)
    failed = threading.Event()
    working = []

    def work(start: int, _end: int, thread: int) -> None:
        if start < 2 * PIECE_BYTES:
            together.wait()
            if thread == fails:
                failed.set()
                raise OSError("of this piece")
        failed.wait(10)
        time.sleep(0.02)
        working.append(start)

    with pytest.raises(OSError, match="of this piece"):
        for_each_piece(16 * SHARED_BYTES, work, pool.submit)
    done = len(working)
    assert done <= 2
    time.sleep(0.1)
    assert len(working) == done, "nobody works on"
