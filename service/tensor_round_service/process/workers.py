"""The supervisor of several worker processes on one listener. It replaces workers that die or hang.

uvicorn's supervisor polls its workers every half second, blocks for up to five seconds on one that
hangs, and restarts workers that fail at start without a delay. This supervisor waits for events
and delays such restarts.

Workers are forked from a process that has imported what they need, and done nothing else: the
imports take their time once, and their memory is shared. The supervisor is not forked: it has a
thread that writes its log. No device is open before the fork, as none could be used after it.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.util import get_temp_dir
from pathlib import Path
from tempfile import gettempdir

from ..counters import METRICS, METRICS_BYTES, REPLACEMENTS, Counters
from ..failures import CannotStart
from ..settings import Settings
from .listener import Listener, notify

logger = logging.getLogger(__name__)

#: The main function of a worker: serves on a listener, and calls the callback after its start and
#: then every second from its event loop.
WorkerMain = Callable[[Listener, Callable[[], None]], int]

#: Seconds before a replacement, by the number of consecutive failures at start.
_RESTART_DELAYS = (0.0, 0.0, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
#: Seconds after DRAIN_DELAY and DRAIN_TIMEOUT at which workers are killed.
KILL_AFTER_SECONDS = 5.0
#: Time after which a worker that does not report is killed: it is stopped, or its event loop hangs.
FROZEN_SECONDS = 30.0
#: Checks in this time. Their number counts, and no clock: when the whole service was stopped for a
#: while, workers have time to report after it.
_CHECKS = 10

_STOPS = (signal.SIGTERM, signal.SIGINT)
_SIGNALS = (*_STOPS, signal.SIGHUP)
if sys.platform == "linux":
    _context = multiprocessing.get_context("forkserver")
else:  # libraries of macOS have threads, which a fork would lose
    _context = multiprocessing.get_context("spawn")


def restart_delay(failures: int) -> float:
    """Seconds before a replacement after consecutive failures at start."""
    return _RESTART_DELAYS[min(failures, len(_RESTART_DELAYS) - 1)]


def import_once(module: str) -> Path | None:
    """Have the process that forks workers import a module, without a thread or a device.

    Returns the folder of its socket, which is removed at exit; None on macOS, where each worker
    imports for itself. Raises :class:`CannotStart`.
    """
    if sys.platform != "linux":
        return None
    _context.set_forkserver_preload([module])
    try:
        with _blocked_signals():
            forkserver.ensure_running()
    except OSError as error:
        raise CannotStart(f"no process for workers, TMPDIR {gettempdir()}: {error}") from None
    return Path(get_temp_dir())


@dataclass
class _Worker:
    process: BaseProcess
    has_started: bool = False
    #: Checks since its last report.
    silent_checks: int = 0
    #: The reported error of a failed start.
    error: str | None = None

    def send(self, signum: int) -> None:
        """Send a signal.

        The methods of ``process`` would not, if the process that has forked it had died.
        """
        assert self.process.pid is not None
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signum)


@dataclass(eq=False)
class Supervisor:
    """Keeps WORKERS processes serving until SIGTERM or SIGINT, then drains them.

    SIGHUP is passed on to them. ``on_start`` is called when the first worker serves.
    """

    main: WorkerMain
    settings: Settings
    listener: Listener
    on_start: Callable[[], None]
    #: That of the workers, where this counts those that it replaces.
    folder: Path

    def __post_init__(self) -> None:
        #: The live workers by the pipe on which they report; a pipe closes with its worker.
        self._workers: dict[Connection, _Worker] = {}
        self._replacements = Counters(self.folder, METRICS, METRICS_BYTES).row(REPLACEMENTS, 1)
        self._stopping = False
        self._has_served = False
        #: Consecutive failures at start.
        self._failures = 0
        self._exit_code = 0

    def run(self) -> int:
        """Supervise until all workers have ended; return the exit code, 0 if all ended in time.

        Raises :class:`CannotStart` if no worker can start.
        """
        return asyncio.run(self._run())

    async def _run(self) -> int:
        loop = self._loop = asyncio.get_running_loop()
        #: Done with the exit code, or with the error that ends the service.
        self._end: asyncio.Future[int] = loop.create_future()
        for signum in _STOPS:
            loop.add_signal_handler(signum, self._stop, signum)
        # The workers read certificates and keys again.
        loop.add_signal_handler(signal.SIGHUP, self._send, signal.SIGHUP)
        for _ in range(self.settings.workers):
            self._start()
        loop.call_later(FROZEN_SECONDS / _CHECKS, self._check)
        try:
            return await self._end
        finally:
            for signum in _SIGNALS:
                loop.remove_signal_handler(signum)
                signal.signal(signum, signal.SIG_IGN)

    def _start(self) -> None:
        if self._stopping:
            return
        pipe, worker_end = _context.Pipe(duplex=False)
        process = _context.Process(
            target=_run_worker, args=(self.main, self.listener, worker_end), daemon=True
        )
        try:
            with _blocked_signals():  # the worker unblocks them after it has set handlers
                process.start()
        except (OSError, EOFError) as error:  # no process or memory is available
            pipe.close()
            if self._has_served:
                self._replace(f"cannot be forked: {error}", in_start=True)
            else:
                self._give_up(f"no worker can be forked: {error}")
        else:
            self._workers[pipe] = _Worker(process)
            self._loop.add_reader(pipe.fileno(), self._read_report, pipe)
        finally:
            worker_end.close()

    def _read_report(self, pipe: Connection) -> None:
        worker = self._workers[pipe]
        try:
            worker.error = pipe.recv()
        except (EOFError, OSError):
            del self._workers[pipe]
            self._loop.remove_reader(pipe.fileno())
            pipe.close()
            self._worker_died(worker)
        else:
            worker.silent_checks = 0
            if worker.error is None and not worker.has_started:
                self._worker_started(worker)

    def _check(self) -> None:
        """Kill the workers that have been silent for too long."""
        if self._stopping:
            return
        for worker in self._workers.values():
            worker.silent_checks += worker.has_started
            if worker.silent_checks > _CHECKS:
                pid, seconds = worker.process.pid, FROZEN_SECONDS
                logger.error("killing worker %d, which has not responded for %g s", pid, seconds)
                worker.send(signal.SIGKILL)
        self._loop.call_later(FROZEN_SECONDS / _CHECKS, self._check)

    def _worker_started(self, worker: _Worker) -> None:
        worker.has_started = True
        self._failures = 0
        if not self._has_served:
            self._has_served = True
            self.on_start()
        logger.info("worker %d serves", worker.process.pid)

    def _worker_died(self, worker: _Worker) -> None:
        worker.process.join()
        code = worker.process.exitcode or 0
        ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        if self._stopping:
            self._end_if_all_have()
        elif code > 0 and not self._has_served:
            # Before any worker has served, a retry would fail too. Later the cause may be
            # temporary, and the other workers continue.
            self._give_up(worker.error or f"a worker ended with {ended} at start")
        else:
            reason = worker.error or f"ended with {ended}"
            self._replace(f"{worker.process.pid} {reason}", in_start=not worker.has_started)

    def _replace(self, reason: str, *, in_start: bool) -> None:
        logger.error("worker %s; it is replaced", reason)
        self._replacements[0] += 1
        self._failures += in_start
        self._loop.call_later(restart_delay(self._failures), self._start)

    def _give_up(self, reason: str) -> None:
        self._stopping = True
        self._send(signal.SIGKILL)
        self._end.set_exception(CannotStart(reason))

    def _stop(self, signum: int) -> None:
        if self._stopping:
            self._exit_code = 128 + signum
            self._send(signal.SIGKILL)
            return
        self._stopping = True
        notify("STOPPING=1")
        delay, timeout = self.settings.drain_delay, self.settings.drain_timeout
        if delay:
            self._loop.call_later(delay, self._turn_away)
        else:
            self._turn_away()  # before a worker sees that none waits
        self._send(signal.SIGTERM)
        self._loop.call_later(delay + timeout + KILL_AFTER_SECONDS, self._kill_late_workers)
        self._end_if_all_have()

    def _end_if_all_have(self) -> None:
        if not self._workers and not self._end.done():
            self._end.set_result(self._exit_code)

    def _turn_away(self) -> None:
        """Let no new connection in. The workers accept those that wait, on sockets of their own."""
        self.listener.turn_away()
        self.listener.close()

    def _kill_late_workers(self) -> None:
        logger.error("killing %d workers that did not exit in time", len(self._workers))
        self._exit_code = 1
        self._send(signal.SIGKILL)

    def _send(self, signum: int) -> None:
        for worker in self._workers.values():
            worker.send(signum)


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """Have a process that is started inherit blocked signals."""
    # The first process would start it, and it would unblock signals.
    resource_tracker.ensure_running()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _run_worker(main: WorkerMain, listener: Listener, pipe: Connection) -> None:
    """The entry point of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    threading.Thread(target=_stop_with_supervisor, daemon=True).start()
    os.set_blocking(pipe.fileno(), False)
    try:
        sys.exit(main(listener, partial(_report, pipe)))
    except CannotStart as reason:
        pipe.send(str(reason))
        sys.exit(1)


def _report(pipe: Connection) -> None:
    """Report that this worker runs."""
    # A supervisor that is stopped does not read, and one that has died cannot.
    with suppress(BlockingIOError, BrokenPipeError):
        pipe.send(None)


def _stop_with_supervisor() -> None:
    """Wait for the death of the supervisor, then stop this worker."""
    supervisor = multiprocessing.parent_process()
    assert supervisor is not None
    supervisor.join()
    os.kill(os.getpid(), signal.SIGTERM)
