"""Several processes on one listener, each replaced when it dies.

uvicorn's own supervisor looks after its workers one by one every half second, and up to
five seconds at one that hangs; what dies in its start it starts again at once and for
ever. This one waits for events and does nothing between them.

Workers are spawned, not forked: a device that a parent has opened is of no use to a fork.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from ..settings import Settings
from .listener import Listener

logger = logging.getLogger(__name__)

#: What a worker does: serve on a listener, and call back once it has started.
Work = Callable[[Listener, Callable[[], None]], None]

#: Seconds that a replacement waits after so many deaths in the start; the last is for more.
DELAYS = (0.0, 0.0, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
#: Seconds beyond DRAIN_DELAY and DRAIN_TIMEOUT after which workers are killed.
PATIENCE = 5.0

_STOPS = (signal.SIGTERM, signal.SIGINT)
_spawn = multiprocessing.get_context("spawn")


class CannotServe(Exception):
    """Workers cannot start, and none ever has; says why."""


@dataclass
class _Worker:
    process: SpawnProcess
    has_started: bool = False
    #: Why it cannot start, in its own words.
    complaint: str | None = None


class Supervisor:
    """Keeps WORKERS processes serving until SIGTERM or SIGINT, then has them finish.

    ``on_start`` is called once the first of them serves.
    """

    def __init__(
        self,
        work: Work,
        settings: Settings,
        listener: Listener,
        on_start: Callable[[], None],
    ) -> None:
        self._work = work
        self._on_start = on_start
        self._listener = listener
        self._count = settings.workers
        self._drain_delay = settings.drain_delay
        self._drain_timeout = settings.drain_timeout
        #: Every worker that lives, by the line on which it reports; it ends when they do.
        self._workers: dict[Connection, _Worker] = {}
        #: What is to be done when.
        self._plans: list[tuple[float, Callable[[], None]]] = []
        self._stopping = False
        self._has_served = False
        #: Workers that died in their start since the last that did not.
        self._failures = 0
        self._exit_code = 0

    def run(self) -> int:
        """Supervise; the exit code, which is 0 if all left in time. Raises :class:`CannotServe`."""
        # It would be started by the first spawn, and unblock the signals that are blocked then.
        resource_tracker.ensure_running()
        with _stop_signals() as signals:
            for _ in range(self._count):
                self._start()
            while self._workers or not self._stopping:
                heard = wait([signals, *self._workers], self._seconds_to_next())
                for source in heard:
                    if isinstance(source, Connection):
                        self._hear(source)
                    else:
                        self._stop(signals.recv(1)[0])
                self._do_what_is_due()
        return self._exit_code

    def _start(self) -> None:
        line, others_end = _spawn.Pipe(duplex=False)
        process = _spawn.Process(
            target=_run_worker, args=(self._work, self._listener, others_end), daemon=True
        )
        # Inherited, so that no signal finds a worker that does not know yet what to do.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        try:
            process.start()
        except OSError as error:  # there is no process or memory to be had now
            line.close()
            self._replace(f"cannot be spawned: {error.strerror}", in_start=True)
        else:
            self._workers[line] = _Worker(process)
        finally:
            others_end.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _hear(self, line: Connection) -> None:
        worker = self._workers[line]
        try:
            worker.complaint = line.recv()
        except (EOFError, OSError):
            del self._workers[line]
            line.close()
            self._bury(worker)
        else:
            if worker.complaint is None:
                self._welcome(worker)

    def _welcome(self, worker: _Worker) -> None:
        worker.has_started = True
        self._failures = 0
        if not self._has_served:
            self._has_served = True
            self._on_start()
        logger.info("worker %d serves", worker.process.pid)

    def _bury(self, worker: _Worker) -> None:
        worker.process.join()
        code = worker.process.exitcode or 0
        ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        if self._stopping:
            return
        if code > 0 and not self._has_served:
            # It will not go better a second time. Later it may: a device that is gone for
            # a moment is no reason to stop the workers that still have it.
            self._kill()
            raise CannotServe(worker.complaint or f"a worker ended with {ended} in its start")
        reason = worker.complaint or f"ended with {ended}"
        self._replace(f"{worker.process.pid} {reason}", in_start=not worker.has_started)

    def _replace(self, reason: str, *, in_start: bool) -> None:
        logger.error("worker %s; it is replaced", reason)
        self._failures += in_start
        self._plan(DELAYS[min(self._failures, len(DELAYS) - 1)], self._start)

    def _stop(self, signum: int) -> None:
        if self._stopping:
            self._exit_code = 128 + signum
            self._kill()
            return
        self._stopping = True
        for worker in self._workers.values():
            worker.process.terminate()
        self._plans.clear()
        self._plan(self._drain_delay, self._listener.close)
        self._plan(self._drain_delay + self._drain_timeout + PATIENCE, self._give_up)

    def _give_up(self) -> None:
        logger.error("%d workers did not leave in time; they are killed", len(self._workers))
        self._exit_code = 1
        self._kill()

    def _kill(self) -> None:
        for worker in self._workers.values():
            worker.process.kill()

    def _plan(self, seconds: float, action: Callable[[], None]) -> None:
        self._plans.append((time.monotonic() + seconds, action))

    def _seconds_to_next(self) -> float | None:
        if not self._plans:
            return None
        return max(0.0, min(when for when, _ in self._plans) - time.monotonic())

    def _do_what_is_due(self) -> None:
        now = time.monotonic()
        due = [plan for plan in self._plans if plan[0] <= now]
        self._plans = [plan for plan in self._plans if plan[0] > now]
        for _, action in due:
            action()


@contextmanager
def _stop_signals() -> Iterator[socket.socket]:
    """A socket on which signals can be waited for beside other things, a byte each."""
    ours, pythons = socket.socketpair()
    pythons.setblocking(False)
    with ours, pythons:
        signal.set_wakeup_fd(pythons.fileno())
        for signum in _STOPS:
            signal.signal(signum, lambda *_: None)
        try:
            yield ours
        finally:
            signal.set_wakeup_fd(-1)


def _run_worker(work: Work, listener: Listener, line: Connection) -> None:
    """The whole life of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
    threading.Thread(target=_leave_with_supervisor, daemon=True).start()
    try:
        work(listener, lambda: line.send(None))
    except CannotServe as reason:
        line.send(str(reason))
        sys.exit(1)


def _leave_with_supervisor() -> None:
    """Nobody else would ever tell this process to stop."""
    supervisor = multiprocessing.parent_process()
    assert supervisor is not None
    supervisor.join()
    os.kill(os.getpid(), signal.SIGTERM)
