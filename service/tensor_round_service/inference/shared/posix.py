"""System shared memory: POSIX objects that clients register, and requests round in.

An object is opened by its path; Python's own ``SharedMemory`` would have its resource
tracker unlink a client's object when this process ends. Bounds are checked in Python
integers against the object as it is now, when a region is registered and again at each
use. A request has the object open for as long as it uses it, whoever unregisters the
region or unlinks the object meanwhile.

Nothing of an object is mapped here: a page that its client has cut off, or for which the
system has no memory left, would end the process that touches it (SIGBUS). Read and
written by system calls, it is a short count or an error.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tensor_round.errors import InvalidDescriptor, NotFound, Overloaded
from tensor_round.quoting import shown
from tensor_round.wire.oip import Region

from ...backends import Bytes
from .regions import Registration, Registry

#: Where Linux shows POSIX shared memory.
OBJECTS = Path("/dev/shm")
#: Regions at one time.
MAX_REGIONS = 1024

#: Of open(): the system has no more descriptors, or no memory for one.
_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
#: Of pwritev(): it has no memory for pages that the object does not have yet.
_NO_PAGES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.ENOMEM})


class Part:
    """A run of ``nbytes`` in an object, open; a context manager that closes it."""

    def __init__(self, descriptor: int, registration: Registration, at: int, nbytes: int) -> None:
        self._descriptor = descriptor
        self._registration = registration
        self._start = registration.offset + at
        self.nbytes = nbytes

    def __enter__(self) -> Part:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)

    def lies_on(self, other: Part) -> bool:
        """Whether both are the very same bytes."""
        return self._place == other._place

    def overlaps(self, other: Part) -> bool:
        """Whether any byte is in both."""
        end = min(self._start + self.nbytes, other._start + other.nbytes)
        same = self._registration.object == other._registration.object
        return same and max(self._start, other._start) < end

    @property
    def _place(self) -> tuple[tuple[int, int], int, int]:
        return self._registration.object, self._start, self.nbytes

    def read(self, at: int, memory: Bytes) -> None:
        """Fill memory with the bytes from there on.

        Raises :class:`InvalidDescriptor` where the object has become smaller.
        """
        done = 0
        while done < memory.size:
            count = os.preadv(self._descriptor, [memory.data[done:]], self._start + at + done)
            if not count:
                raise _changed(self._registration.name)
            done += count

    def write(self, at: int, memory: Bytes) -> None:
        """Put these bytes there; what has been written stays, whatever is raised.

        Raises :class:`InvalidDescriptor` where the object has become smaller, and
        :class:`Overloaded` where the system has no memory for more of it.
        """
        # A write behind its end would make the object longer, and the client cut it.
        _check_unchanged(self._registration, os.fstat(self._descriptor))
        done = 0
        while done < memory.size:
            try:
                done += os.pwritev(self._descriptor, [memory.data[done:]], self._start + at + done)
            except OSError as error:
                if error.errno not in _NO_PAGES:
                    raise
                name = shown(self._registration.name)
                raise Overloaded(
                    f"the system has no memory now for shared memory region {name}", retry_after=1
                ) from None


class SharedMemory:
    """The regions registered with the service, through whichever worker."""

    def __init__(self, prefix: str, registry: Registry) -> None:
        self._prefix = prefix
        self._registry = registry

    def register(self, name: str, key: str, offset: int, byte_size: int) -> None:
        """Let requests use these bytes of an object under a name.

        Raises :class:`InvalidDescriptor` where the object cannot be used so, or the name is taken.
        """
        status = self._look_at(key)
        end = offset + byte_size
        if end > status.st_size:
            raise InvalidDescriptor(
                f"offset and byte_size reach to {shown(end)}, the object has {status.st_size} bytes"
            )
        identity = (status.st_dev, status.st_ino)
        registration = Registration(name, key, offset, byte_size, identity, secrets.token_hex(8))
        with self._registry.changing() as regions:
            if name in regions:
                raise InvalidDescriptor(f"a region named {shown(name)} is registered already")
            if len(regions) >= MAX_REGIONS:
                raise InvalidDescriptor(f"{MAX_REGIONS} regions are registered, which is the most")
            regions[name] = registration

    def unregister(self, name: str | None = None) -> None:
        """Forget a region, or all of them; one that is not there is gone already."""
        with self._registry.changing() as regions:
            if name is None:
                regions.clear()
            else:
                regions.pop(name, None)

    def registered(self, name: str | None = None) -> list[Registration]:
        """All regions, or the one of that name; raises :class:`NotFound`."""
        regions = self._registry.read()
        return list(regions.values()) if name is None else [_find(regions, name)]

    def part(self, region: Region, nbytes: int) -> Part:
        """The first so many bytes of a part of a registered region, for use in a ``with``.

        Raises :class:`NotFound` for a name that is not registered,
        :class:`InvalidDescriptor` for a part that is not there, or no longer, and
        :class:`Overloaded` where no more can be open.
        """
        found = _find(self._registry.read(), region.name)
        if region.offset + region.byte_size > found.byte_size:
            raise InvalidDescriptor(
                f"shared_memory_offset and shared_memory_byte_size reach to "
                f"{shown(region.offset + region.byte_size)}, region {shown(region.name)} has "
                f"{found.byte_size} bytes"
            )
        try:
            descriptor = _open(found.key)
        except OSError:
            raise _changed(found.name) from None
        try:
            _check_unchanged(found, os.fstat(descriptor))
        except InvalidDescriptor:
            os.close(descriptor)
            raise
        return Part(descriptor, found, region.offset, nbytes)

    def _look_at(self, key: str) -> os.stat_result:
        """What the object with that key is like now, which the prefix must allow."""
        name = key.removeprefix("/")
        if not name.startswith(self._prefix) or "/" in name:
            raise InvalidDescriptor(
                f"key must begin with {self._prefix} and hold no further slash, got {shown(key)}"
            )
        try:
            descriptor = _open(key)
        except (OSError, ValueError):  # ValueError: a null character
            raise InvalidDescriptor(
                f"there is no shared memory object {shown(key)} to read and write"
            ) from None
        try:
            status = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InvalidDescriptor(f"{shown(key)} is no shared memory object")
        return status


def _open(key: str) -> int:
    """A descriptor of the object; :class:`Overloaded` where no more of them can be had."""
    path = OBJECTS / key.removeprefix("/")
    try:
        # Not blocking: what is there may be a pipe.
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in _NO_DESCRIPTORS:
            raise Overloaded("no more files can be open now", retry_after=1) from None
        raise


def _find(regions: Mapping[str, Registration], name: str) -> Registration:
    if name not in regions:
        raise NotFound(f"there is no shared memory region {shown(name)}")
    return regions[name]


def _check_unchanged(found: Registration, status: os.stat_result) -> None:
    same = (status.st_dev, status.st_ino) == found.object
    if not same or found.offset + found.byte_size > status.st_size:
        raise _changed(found.name)


def _changed(name: str) -> InvalidDescriptor:
    return InvalidDescriptor(
        f"the object of shared memory region {shown(name)} is gone, replaced or smaller than it "
        "was; unregister the region and register it again"
    )
