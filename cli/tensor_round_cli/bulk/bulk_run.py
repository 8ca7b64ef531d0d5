"""A bulk run: tiles are read, rounded and written by threads; a journal records finished ones.

The journal is one small JSON document, replaced as a whole: a tile is in it only after its results
were synced. A checksum covers it, for stores that do not replace files at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tensor_round.clients.client import Client
from tensor_round.contract.errors import DeadlineExceeded, TensorRoundError
from tensor_round.contract.host import Array
from tensor_round.contract.operators import RoundOperator
from tensor_round.contract.progress import ProgressCallback, counted
from tensor_round.contract.quoting import one_line

from .places import Place, PlaceError
from .tile_grid import Source, Target, Tiles

_VERSION = 1


class OtherRun(ValueError):
    """The target has the unfinished tiles of another run, which ``command`` finishes."""

    def __init__(self, what: str, command: str) -> None:
        super().__init__(what)
        self.command = command


class Journal:
    """The journal at one place, for the run that ``work`` identifies and ``command`` continues."""

    def __init__(self, place: Place, work: dict[str, Any], command: str = "") -> None:
        self._place, self._work, self._command = place, work, command
        self._writer = secrets.token_hex(8)
        self._earlier: str | None = None

    def load(self, tiles: int) -> bytearray:
        """A flag for each tile: whether it is finished.

        Raises :class:`OtherRun`, and :class:`PlaceError` for a journal that no run has written.
        """
        done = bytearray(tiles)
        document = self._read()
        if document is None:
            return done
        theirs = document["work"]
        if different := [
            f"{name} was {one_line(str(theirs.get(name)))} and is {value}"
            for name, value in self._work.items()
            if theirs.get(name) != value
        ]:
            command = str(document.get("command", ""))
            # Whoever wrote the file, what is printed is one line.
            raise OtherRun("; ".join(different), command if command.isprintable() else "")
        self._earlier = document["writer"]
        for start, end in self._ranges(document["done"], tiles):
            done[start:end] = b"\1" * (end - start)
        return done

    def write(self, done: bytearray) -> None:
        """Record the finished tiles, which must have been synced.

        Raises :class:`PlaceError` if another process has continued the run. Where no lock keeps
        two processes apart, the first one stops here.
        """
        document = self._read()
        if document is not None and document["writer"] not in (self._writer, self._earlier):
            raise PlaceError("another process continues this run")
        ends = [0]
        ranges = []
        for flag, run in groupby(done):
            ends.append(ends[-1] + sum(1 for _ in run))
            if flag:
                ranges.append([ends[-2], ends[-1] - 1])
        document = {"version": _VERSION, "writer": self._writer, "work": self._work, "done": ranges}
        document["command"] = self._command
        document["sha256"] = _digest(document)
        self._place.write(json.dumps(document, indent=1).encode())

    def remove(self) -> None:
        """Remove the journal."""
        self._place.remove()

    def _read(self) -> dict[str, Any] | None:
        """The document; None for one that is missing, torn or of another version.

        Raises :class:`PlaceError` for one whose members no run has written.
        """
        try:
            document: dict[str, Any] = json.loads(self._place.read() or b"{}")
            is_whole = document.pop("sha256") == _digest(document)
            is_ours = is_whole and document["version"] == _VERSION
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        if not is_ours:
            return None
        kinds = {"writer": str, "work": dict, "done": list}
        if not all(isinstance(document.get(name), kind) for name, kind in kinds.items()):
            raise self._foreign()
        return document

    def _ranges(self, done: list[Any], tiles: int) -> Iterator[tuple[int, int]]:
        """The runs of finished tiles, each with its end, in ascending order."""
        end = 0
        for run in done:
            # A bool is no number of a tile, though Python takes it for one.
            if not (isinstance(run, list) and [type(number) for number in run] == [int, int]):
                raise self._foreign()
            first, last = run
            if not end <= first <= last < tiles:
                raise self._foreign()
            end = last + 1
            yield first, end

    def _foreign(self) -> PlaceError:
        return PlaceError(f"{self._place.name} was not written by a run: --restart starts anew")


def _digest(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


#: Seconds between two records, at least. Each syncs the target, in a tenth of the time at most.
RECORD_SECONDS, TENTH = 0.25, 10
#: Seconds that threads get to end after an error.
GRACE = 1.0


@dataclass(eq=False)
class BulkRun:
    """Rounds the array ``source``, which is identified by ``name``, into ``target``.

    ``command`` is what a user types to continue the run; the journal has it for other commands.

    ``connections`` tiles of about ``tile_bytes`` are under way at once. ``timeout`` limits the run
    in seconds. A service that has rounded a tile and then fails is waited for, at most ``patience``
    seconds. ``tell`` is called with a line for the user.
    """

    name: str
    source: Source
    target: Target
    operator: RoundOperator
    client: Client
    tile_bytes: int
    connections: int
    timeout: float | None = None
    restart: bool = False
    progress: bool | ProgressCallback = False
    tell: Callable[[str], object] = print
    patience: float = 60.0
    command: str = ""

    def run(self) -> tuple[int, int]:
        """Round all tiles; returns their number, and that of those an earlier run had finished.

        Raises :class:`InvalidDescriptor` for an array that the operator does not accept,
        :class:`~.journal.OtherRun` if the target has tiles of another run, OSError, the errors of
        :meth:`Client.round`, and KeyboardInterrupt. Once tiles are finished, messages say so.
        """
        self._began = time.monotonic()
        shape, dtype = self.source.header.shape, self.source.dtype
        call = self.operator.prepare(dtype.name, shape).call
        chunked = any(side > 1 for side in self.target.grid)
        grid = self.target.grid if chunked else self.source.grid
        limit = max(1, self.tile_bytes // dtype.itemsize)
        self._tiles = Tiles.cut(shape, grid, limit, self.source.header.fortran_order)
        state = self.source.state()
        work = {
            "source": self.name,
            **{f"source's {fact}": value for fact, value in state.items()},
            "rounding": call.rounding.value,
            "dtype": dtype.name,
            "shape": [*shape],
            "tile": [*self._tiles.tile],
            "target": self.target.layout,
        }
        self._journal = Journal(self.target.journal, work, self.command)
        count = len(self._tiles)
        self._done = bytearray(count) if self.restart else self._journal.load(count)
        #: The finished tiles that are not synced yet.
        self._unsynced: list[int] = []
        self._threads: list[threading.Thread] = []
        self._events: queue.SimpleQueue[int | BaseException] = queue.SimpleQueue()
        self._stop = threading.Event()
        with contextlib.closing(self.target):
            if not self.target.begin(resumed=any(self._done)):
                self._done = bytearray(count)
                self._journal.remove()
            if resumed := sum(self._done):
                self.tell(f"resuming: {self._count()} tiles are done")
            try:
                self._round()
                self._sync()
                has_changed = self.source.state() != state
                if not has_changed:
                    self.target.publish()
            except BaseException as error:
                self._end()
                self._explain(error)
                raise
            self._journal.remove()
            if has_changed:
                self.target.discard()
                raise PlaceError(f"{self.name} has changed meanwhile: run the command again")
        return count, resumed

    def _round(self) -> None:
        """Round the tiles that are left."""
        left = [index for index, is_done in enumerate(self._done) if not is_done]
        # Threads may share the iterator of a list. An interrupted command waits for no daemon.
        todo, self._has_rounded = iter(left), False
        total = self.source.header.data_length
        done = total - sum(map(self._nbytes, left))
        with counted(self.progress, total, done=done) as add:
            for _ in range(min(self.connections, len(left))):
                thread = threading.Thread(target=self._loop, args=[todo], daemon=True)
                thread.start()
                self._threads.append(thread)
            due = self._record()
            for _ in left:
                while (index := self._next_tile(due)) is None:
                    due = self._record()
                self._finish(index)
                add(self._nbytes(index))

    def _loop(self, todo: Iterator[int]) -> None:
        """Round tiles until none is left; a thread."""
        try:
            while not self._stop.is_set() and (index := next(todo, None)) is not None:
                box = self._tiles[index]
                x = self.source.read(box)
                results = self.target.memory(box, x)
                self._round_tile(x, results)
                self.target.write(box, results)
                self._events.put(index)
        except BaseException as error:
            self._events.put(error)

    def _round_tile(self, x: Array, results: Array) -> None:
        until = None
        while True:
            try:
                self.client.round(x, self.operator, out=results)
            except TensorRoundError as error:
                until = until or time.monotonic() + self.patience
                is_gone = not self._has_rounded or time.monotonic() > until
                if not error.transient or is_gone or self._stop.wait(1.0):
                    raise
            else:
                self._has_rounded = True
                return

    def _next_tile(self, due: float) -> int | None:
        """The next finished tile, or None if none is finished until ``due``."""
        limit = self._began + (self.timeout or float("inf"))
        now = time.monotonic()
        if now >= limit:
            raise DeadlineExceeded("the command was not over in time")
        if now >= due:
            return None
        try:
            event = self._events.get(timeout=min(due, limit) - now)
        except queue.Empty:
            return self._next_tile(due)
        if isinstance(event, BaseException):
            raise event
        return event

    def _finish(self, index: int) -> None:
        self._done[index] = 1
        self._unsynced.append(index)

    def _sync(self) -> None:
        tiles, self._unsynced = self._unsynced, []
        try:
            self.target.sync([self._tiles[index] for index in tiles])
        except OSError:
            # The kernel may have dropped their pages, and the next sync would not tell.
            for index in tiles:
                self._done[index] = 0
            raise

    def _record(self) -> float:
        """Record finished tiles; returns when to do so again."""
        began = time.monotonic()
        if self._unsynced:
            self._sync()
            self._journal.write(self._done)
        now = time.monotonic()
        return now + max(RECORD_SECONDS, TENTH * (now - began))

    def _end(self) -> None:
        """Stop the threads, and record what they have finished."""
        self._stop.set()
        until = time.monotonic() + GRACE
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        while not self._events.empty():
            if isinstance(event := self._events.get(), int):
                self._finish(event)
        if not any(self._done):
            self.target.discard()
        with contextlib.suppress(OSError):
            self._record()

    def _explain(self, error: BaseException) -> None:
        """Add to an error how to go on."""
        if not any(self._done):
            return
        hint = f"{self._count()} tiles are done: the same command continues"
        if isinstance(error, TensorRoundError):
            error.restate(f"{error.detail}; {hint}")
        elif isinstance(error, OSError):
            error.strerror = f"{error.strerror or error}; {hint}"
        elif isinstance(error, KeyboardInterrupt):
            error.args = (hint,)

    def _count(self) -> str:
        return f"{sum(self._done)} of {len(self._tiles)}"

    def _nbytes(self, index: int) -> int:
        return self._tiles.size(index) * self.source.dtype.itemsize
