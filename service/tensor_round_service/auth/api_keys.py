"""The file of API keys: whose a key is, and until when it counts.

::

    # printf %s "$key" | sha256sum
    9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  reports  2027-12-31
    60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752  robot

The service never has the keys themselves: a copy of the file lets nobody in.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
import math
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

#: A change counts once the file has been left alone for so long, and is found so at the next look:
#: with time to spare within the 2 s that are promised.
SECONDS_BETWEEN_LOOKS = 0.5
#: Some 10,000 keys: as each is compared with each request, more want another design.
MAX_FILE_BYTES = 1 << 20

_DIGEST = re.compile(r"[0-9A-Fa-f]{64}", re.ASCII)
_LABEL_LENGTH = 64
_SECONDS_A_DAY = 86400

logger = logging.getLogger(__name__)


class KeyFileError(Exception):
    """The file of API keys cannot be used; says which line, and nothing of what is in it."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as the file has it: its digest, whose it is, and when it ends (Unix time)."""

    digest: bytes
    label: str
    ends: float = math.inf

    def is_valid_at(self, moment: float) -> bool:
        """Whether it still counts: its date, where it has one, is not over in UTC."""
        return moment < self.ends


class KeyRing:
    """The keys of one file, read again when its content changes.

    It is looked at when a key is asked for, at most twice a second. Its bytes are
    compared, not its times: a file may be replaced or written within a clock's tick.

    Writing over a file is not one step: for a moment it is empty, or ends within a line.
    So a change does not count before the file has been left alone for as long as lies
    between two looks; until then the keys of before do.
    """

    def __init__(self, path: Path) -> None:
        """Read the file; raises :class:`KeyFileError`."""
        self._path = path
        try:
            self._seen = _read(path)
            self._keys = read_keys(self._seen.content)
        except KeyFileError as error:
            raise KeyFileError(f"API keys: {path}: {error}") from None
        #: The content that counts, or the fault for which there is none: told once.
        self._counted: bytes | str = self._seen.content
        self._next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS

    def find(self, secret: bytes) -> ApiKey | None:
        """The key that this is; None if it is none of these, or has expired.

        Takes as long for any key as for none.
        """
        if time.monotonic() >= self._next_look:
            self._look()
        digest = hashlib.sha256(secret).digest()
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found if found is not None and found.is_valid_at(time.time()) else None

    def _look(self) -> None:
        """Read the file again; one that cannot be used changes nothing, and is logged once."""
        self._next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS
        before = self._seen
        self._seen = seen = _look_at(self._path)
        found = seen.content if seen.fault is None else seen.fault
        if found == self._counted or not (seen == before or seen.is_old):
            return
        self._counted = found
        try:
            if seen.fault is not None:
                raise KeyFileError(seen.fault)
            self._keys = read_keys(seen.content)
        except KeyFileError as error:
            logger.error("API keys: %s: %s; the keys of before stay", self._path, error)
        else:
            logger.info("API keys: %d in %s", len(self._keys), self._path)


def read_keys(content: bytes) -> tuple[ApiKey, ...]:
    """The keys that a file has; raises :class:`KeyFileError` with the first line that is wrong."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise KeyFileError("is not UTF-8 text") from None
    lines: dict[bytes, int] = {}
    keys = []
    for number, fields in _fields(text):
        key = _key(number, fields)
        if key.digest in lines:
            raise KeyFileError(f"line {number}: has the key of line {lines[key.digest]} again")
        lines[key.digest] = number
        keys.append(key)
    return tuple(keys)


def _fields(text: str) -> Iterator[tuple[int, list[str]]]:
    """The lines that say something, numbered from 1, without comments."""
    for number, line in enumerate(text.splitlines(), 1):
        if fields := line.partition("#")[0].split():
            yield number, fields


def _key(number: int, fields: list[str]) -> ApiKey:
    digest, *rest = fields
    if not _DIGEST.fullmatch(digest):
        raise KeyFileError(f"line {number}: does not begin with the 64 hex digits of a SHA-256")
    label = f"line {number}"
    # A label begins with a letter, so that a mistyped date is never taken for one.
    if rest and rest[0][0].isalpha():
        label = rest.pop(0)
        if len(label) > _LABEL_LENGTH or not label.isprintable():
            raise KeyFileError(f"line {number}: the label is too long or cannot be printed")
    if not rest:
        return ApiKey(bytes.fromhex(digest), label)
    try:
        (expiry,) = rest
        last = date.fromisoformat(expiry)
    except ValueError:
        raise KeyFileError(
            f"line {number}: after the digest come a label, which begins with a letter, and the "
            "last day as YYYY-MM-DD, each if wanted, and nothing else"
        ) from None
    midnight = datetime(last.year, last.month, last.day, tzinfo=UTC)
    return ApiKey(bytes.fromhex(digest), label, midnight.timestamp() + _SECONDS_A_DAY)


@dataclass(frozen=True, slots=True)
class _Look:
    """What a look found. Equal ones have nothing but their time between them.

    ``stamp`` is the file's device, inode and time of change, which each write moves on, or its
    folder's where there is no such file; ``is_old``, whether nobody had changed the file for as
    long as lies between two looks.
    """

    content: bytes = b""
    fault: str | None = None
    stamp: tuple[int, ...] = ()
    is_old: bool = field(default=False, compare=False)


def _look_at(path: Path) -> _Look:
    try:
        return _read(path)
    except KeyFileError as error:
        with contextlib.suppress(OSError):
            return _Look(fault=str(error), stamp=_stamp(path.parent.stat()))
        return _Look(fault=str(error))


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _read(path: Path) -> _Look:
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise KeyFileError("there is no such file")
            content = file.read(MAX_FILE_BYTES + 1)
            # Afterwards: a change while it was read is newer than that.
            status = os.fstat(file.fileno())
    except FileNotFoundError:
        raise KeyFileError("there is no such file") from None
    except OSError as error:
        raise KeyFileError(f"cannot be read: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise KeyFileError(f"has more than {MAX_FILE_BYTES} bytes")
    # By the time of change, not of modification: only that one is the system's alone.
    is_old = time.time() - status.st_ctime >= SECONDS_BETWEEN_LOOKS
    return _Look(content, None, _stamp(status), is_old)


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting: what is there may be a pipe that nobody writes into."""
    return os.open(path, flags | os.O_NONBLOCK)
