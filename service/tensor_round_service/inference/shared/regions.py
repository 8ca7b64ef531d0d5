"""Which shared memory regions are registered: one list for all workers of a service.

With one process the list is in its memory; with several it is a file that each change
replaces whole, under a lock that the kernel releases whatever becomes of its holder.
Readers take no lock: they see the list before a change or after it. Reading the file
at each use costs 10 us, and nothing can be out of date.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tensor_round.errors import Overloaded

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Registration:
    """A region: bytes of the object that had this device and inode when it was registered.

    ``token`` tells it from later ones of the same name.
    """

    name: str
    key: str
    offset: int
    byte_size: int
    object: tuple[int, int]
    token: str


class Registry:
    """The registered regions by name; in a file, if it is shared with other processes."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = threading.Lock()
        #: The file's text, and what it says.
        self._known: tuple[str, dict[str, Registration]] = ("", {})

    def read(self) -> Mapping[str, Registration]:
        """The regions as they are now."""
        if self._file is not None:
            text = self._text(self._file)
            if text != self._known[0]:
                self._known = (text, _parsed(text))
        return self._known[1]

    @contextlib.contextmanager
    def changing(self) -> Iterator[dict[str, Registration]]:
        """The regions to change, which nobody else does meanwhile; an exception changes nothing.

        Raises :class:`Overloaded` where there is no room for the list as it would be.
        """
        with self._lock, self._alone():
            regions = dict(self.read())
            yield regions
            self._store(regions)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        if self._file is None:
            yield
            return
        try:
            # Not within `with`: an error of the caller's is none of this file's.
            lock = open(self._file.with_suffix(".lock"), "w")  # noqa: SIM115
        except OSError as error:
            raise _no_room(error) from None
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # closing the file ends it
            yield

    @staticmethod
    def _text(file: Path) -> str:
        try:
            return file.read_text()
        except FileNotFoundError:
            return ""

    def _store(self, regions: dict[str, Registration]) -> None:
        text = json.dumps([asdict(region) for region in regions.values()])
        if self._file is not None:
            new = self._file.with_suffix(".new")
            try:
                new.write_text(text)
                os.replace(new, self._file)
            except OSError as error:
                new.unlink(missing_ok=True)
                raise _no_room(error) from None
        self._known = (text, regions)


def _parsed(text: str) -> dict[str, Registration]:
    entries = json.loads(text) if text else []
    return {
        entry["name"]: Registration(**{**entry, "object": tuple(entry["object"])})
        for entry in entries
    }


def _no_room(error: OSError) -> Overloaded:
    """What tells of a disk that is full, or of whatever else keeps the list as it is."""
    logger.warning("the list of regions stays as it was: %s", error.strerror)
    return Overloaded("there is no room for the list of regions now", retry_after=1)
