"""Counters in memory that outlives the process that counts.

Each worker counts in its own file in the folder of the workers, which it has mapped, and reads
those of the others. The counts of a worker that was killed remain: its replacement takes the file
and goes on counting in it, so there are no more files than workers at a time. The worker of a file
holds a lock on it, which the kernel releases however the worker ends.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import logging
import mmap
import os
import struct
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

logger = logging.getLogger(__name__)

#: The name of a row.
Key = tuple[str, ...]
#: The numbers of a row: integers or floats of 64 bits, by the codes of :mod:`struct`.
Code = Literal["q", "d"]

#: Seconds between two calls of :meth:`Counters.share`.
INTERVAL = 1.0
#: Bytes by which a file grows: several hundred rows.
PIECE_BYTES = 64 << 10
#: A file begins with the number of its bytes that are in use, this one included.
_USED = struct.Struct("=q")
#: A row begins with the length of its key in JSON, the count of its numbers, and their code.
_ROW = struct.Struct("=qqq")


@dataclass(frozen=True, slots=True)
class Worker:
    """What one worker has counted, and whether it still runs."""

    rows: dict[Key, Sequence[float]]
    is_alive: bool


class Counters:
    """The counters of this process: rows of numbers by keys.

    ``folder`` is that of the workers, ``name`` what the names of the files in it begin with. A row
    for which a full disk has no room is in private memory, as are all without a folder: until
    :meth:`share` finds room, this process alone knows of it.
    """

    def __init__(self, folder: Path | None, name: str) -> None:
        self._folder = folder
        self._name = name
        self._file: _File | None = None
        self._private: dict[Key, memoryview[Any]] = {}
        self._is_warned = False
        self._open()

    def row(self, key: Key, count: int, code: Code = "q") -> memoryview[Any]:
        """The row of this key, zeros at first; its memory is valid until :meth:`share` moves it."""
        file = self._file
        found = (file and file.row(key)) or self._private.get(key)
        if found is None and file is not None:
            try:
                found = file.append(key, count, code)
            except OSError as error:
                self._warn(error)
        if found is None:
            found = self._private[key] = memoryview(bytearray(8 * count)).cast(code)
        return found

    def own_keys(self) -> list[Key]:
        """The keys of all rows of this process."""
        return [*self._private, *(self._file.places if self._file else ())]

    def share(self) -> bool:
        """Let the others know of private rows, if there is room; return whether rows have moved."""
        file = self._file or self._open()
        if file is None or not self._private:
            self._is_warned = self._is_warned and file is None
            return False
        count = len(self._private)
        for key, private in list(self._private.items()):
            row = file.row(key)
            if row is None:
                code: Code = "q" if private.format == "q" else "d"
                try:
                    row = file.append(key, len(private), code)
                except OSError as error:
                    self._warn(error)
                    continue
            for position, number in enumerate(private.tolist()):
                row[position] += number
            del self._private[key]
        if not self._private:
            logger.info("%s: there is room again; all counts are shared", self._name)
            self._is_warned = False
        return len(self._private) < count

    def workers(self) -> Iterator[Worker]:
        """The rows of all workers, this one's first."""
        own: dict[Key, Sequence[float]] = {key: row.tolist() for key, row in self._private.items()}
        if self._file is not None:
            own |= self._file.numbers()
        yield Worker(own, is_alive=True)
        for path in () if self._folder is None else sorted(self._folder.glob(f"{self._name}-*")):
            if self._file is None or path != self._file.path:
                yield _read(path)

    def _open(self) -> _File | None:
        if self._folder is not None:
            try:
                self._file = _File.taken(self._folder, self._name)
            except OSError as error:
                self._warn(error)
        return self._file

    def _warn(self, error: OSError) -> None:
        if not self._is_warned:
            self._is_warned = True
            why = os.strerror(error.errno or 0)
            logger.warning("%s: %s; this worker counts alone for now", self._name, why)


class _File:
    """A mapped file of rows, which no other process writes. It grows when it is full.

    Its bytes are written before they are mapped, not only its length set: on a full disk, the first
    access to a page that is missing would end the process (SIGBUS).
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)
        #: Where the numbers of each row begin and end, and their code.
        self.places: dict[Key, tuple[int, int, Code]] = {}
        #: A process that was killed may have left a part of a piece.
        self._size = os.fstat(descriptor).st_size // PIECE_BYTES * PIECE_BYTES
        self._used = _USED.size
        if self._size:
            self._map()
            self._used = max(self._used, *_USED.unpack_from(self._memory))
            self.places = _places(self._memory, self._used)

    @classmethod
    def taken(cls, folder: Path, name: str) -> Self:
        """A file without a worker, or a new one. Raises OSError."""
        for number in itertools.count():
            path = folder / f"{name}-{number}"
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return cls(path, descriptor)
            except BlockingIOError:
                os.close(descriptor)
            except OSError:  # not every file system has locks
                os.close(descriptor)
                raise
        raise AssertionError("numbers have no end")

    def row(self, key: Key) -> memoryview[Any] | None:
        """The row of a key, if there is one."""
        place = self.places.get(key)
        return None if place is None else self._memory[place[0] : place[1]].cast(place[2])

    def numbers(self) -> dict[Key, Sequence[float]]:
        """The numbers of all rows."""
        return _numbers(self._memory, self.places) if self._size else {}

    def append(self, key: Key, count: int, code: Code) -> memoryview[Any]:
        """A new row of zeros. Raises OSError."""
        text = json.dumps(key).encode()
        text += b" " * (-len(text) % 8)
        first = self._used + _ROW.size + len(text)
        end = first + 8 * count
        while end > self._size:
            self._grow()
        memory = self._memory
        memory[first - len(text) : end] = text + bytes(8 * count)
        _ROW.pack_into(memory, self._used, len(text), count, ord(code))
        # From here on the others see the row.
        _USED.pack_into(memory, 0, end)
        self._used = end
        self.places[key] = first, end, code
        return memory[first:end].cast(code)

    def _grow(self) -> None:
        if os.pwrite(self._descriptor, bytes(PIECE_BYTES), self._size) < PIECE_BYTES:
            os.ftruncate(self._descriptor, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += PIECE_BYTES
        self._map()

    def _map(self) -> None:
        """Map the whole file; earlier rows refer to an earlier mapping of the same memory."""
        self._memory = memoryview(mmap.mmap(self._descriptor, self._size))


def _read(path: Path) -> Worker:
    """The rows of another worker."""
    rows: dict[Key, Sequence[float]] = {}
    with path.open("rb") as file:
        begin = file.read(_USED.size)
        if len(begin) == _USED.size:
            # The file may grow meanwhile, by rows that were not in use yet.
            memory = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
            rows = _numbers(memory, _places(memory, *_USED.unpack(begin)))
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return Worker(rows, is_alive=True)
    return Worker(rows, is_alive=False)


def _places(memory: memoryview, used: int) -> dict[Key, tuple[int, int, Code]]:
    """Where the numbers of each row in so many bytes begin and end, and their code."""
    places: dict[Key, tuple[int, int, Code]] = {}
    at = _USED.size
    while at < used:
        length, count, code = _ROW.unpack_from(memory, at)
        first = at + _ROW.size + length
        at = first + 8 * count
        key = tuple(json.loads(bytes(memory[first - length : first])))
        places[key] = first, at, "q" if code == ord("q") else "d"
    return places


def _numbers(
    memory: memoryview, places: dict[Key, tuple[int, int, Code]]
) -> dict[Key, Sequence[float]]:
    return {
        key: memory[first:end].cast(code).tolist() for key, (first, end, code) in places.items()
    }
