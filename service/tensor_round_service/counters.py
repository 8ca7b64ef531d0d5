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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

logger = logging.getLogger(__name__)

#: The name of a row.
Key = tuple[str, ...]
#: The numbers of a row: integers or floats of 64 bits, by the codes of :mod:`struct`.
Code = Literal["q", "d"]

#: What the names of the files of metrics begin with, and in one of them, which is the supervisor's,
#: the row that counts the workers that it has replaced.
METRICS = "metrics"
#: Bytes of such a file: 1,500 histograms beside 2,000 rows of a few numbers. Callers without a key
#: can cause eight statuses on each of 160 routes.
METRICS_BYTES = 768 << 10
REPLACEMENTS: Key = ("worker replacements",)

#: Bytes of any other file: about 2,000 rows of a few numbers.
FILE_BYTES = 256 << 10
#: A file begins with the number of its bytes that are in use, this one included; 0 in a new file.
_USED = struct.Struct("=q")
#: A row begins with the length of its key in JSON, the count of its numbers, and their code.
_ROW = struct.Struct("=qqq")


@dataclass(frozen=True, slots=True)
class Worker:
    """What one worker has counted, and whether it still runs."""

    rows: Mapping[Key, Sequence[float]]
    is_alive: bool


class Counters:
    """The counters of this process: rows of numbers by keys.

    ``folder`` is that of the workers, ``name`` what the names of the files in it begin with, and
    ``nbytes`` the size of each. Without a folder, or if it has no room for a file, this process
    alone knows of its counts.
    """

    def __init__(self, folder: Path | None, name: str, nbytes: int = FILE_BYTES) -> None:
        self._folder = folder
        self._name = name
        self._nbytes = nbytes
        self._path: Path | None = None
        mapped = mmap.mmap(-1, nbytes)
        if folder is not None:
            try:
                self._path, mapped = _taken(folder, name, nbytes)
            except OSError as error:
                why = os.strerror(error.errno or 0)
                logger.warning("%s: %s; this worker counts alone", name, why)
        self._memory = memoryview(mapped)
        #: The rows of this process.
        self.rows, self._used = _rows(self._memory)

    def row(self, key: Key, count: int, code: Code = "q") -> memoryview[Any]:
        """The row of this key, zeros at first."""
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = self._append(key, count, code)
        return row

    def workers(self) -> Iterator[Worker]:
        """The rows of all workers, this one's first."""
        yield Worker({key: row.tolist() for key, row in self.rows.items()}, is_alive=True)
        for path in () if self._folder is None else sorted(self._folder.glob(f"{self._name}-*")):
            if path != self._path:
                yield _read(path, self._nbytes)

    def _append(self, key: Key, count: int, code: Code) -> memoryview[Any]:
        text = json.dumps(key).encode()
        text += b" " * (-len(text) % 8)
        first = self._used + _ROW.size + len(text)
        end = first + 8 * count
        if end > self._nbytes:
            return memoryview(bytearray(8 * count)).cast(code)
        memory = self._memory
        memory[first - len(text) : end] = text + bytes(8 * count)
        _ROW.pack_into(memory, self._used, len(text), count, ord(code))
        # From here on the others see the row.
        _USED.pack_into(memory, 0, end)
        self._used = end
        return memory[first:end].cast(code)


def _taken(folder: Path, name: str, nbytes: int) -> tuple[Path, mmap.mmap]:
    """A file without a worker, or a new one, mapped. Raises OSError.

    Its bytes are written before they are mapped, not only its length set: on a full disk, the first
    access to a page that is missing would end the process (SIGBUS). A process that was killed may
    have left a part of a file.
    """
    for number in itertools.count():
        path = folder / f"{name}-{number}"
        with path.open("a+b", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            missing = nbytes - file.seek(0, os.SEEK_END)
            if missing > 0 and file.write(bytes(missing)) < missing:
                file.truncate(0)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            # It has a duplicate of the descriptor, and so the lock.
            return path, mmap.mmap(file.fileno(), nbytes)
    raise AssertionError("numbers have no end")


def _read(path: Path, nbytes: int) -> Worker:
    """The rows of another worker."""
    rows: dict[Key, memoryview[Any]] = {}
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == nbytes:
            mapped = mmap.mmap(file.fileno(), nbytes, prot=mmap.PROT_READ)
            rows, _ = _rows(memoryview(mapped))
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            is_alive = False
        except BlockingIOError:
            is_alive = True
    return Worker({key: row.tolist() for key, row in rows.items()}, is_alive)


def _rows(memory: memoryview) -> tuple[dict[Key, memoryview[Any]], int]:
    """The rows in the memory of a file, and where they end."""
    rows: dict[Key, memoryview[Any]] = {}
    used, at = _USED.unpack_from(memory)[0], _USED.size
    while at < used:
        length, count, code = _ROW.unpack_from(memory, at)
        first = at + _ROW.size + length
        at = first + 8 * count
        key = tuple(json.loads(bytes(memory[first - length : first])))
        rows[key] = memory[first:at].cast("q" if code == ord("q") else "d")
    return rows, at
