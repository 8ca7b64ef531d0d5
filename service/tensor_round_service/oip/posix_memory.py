"""System shared memory: POSIX shared memory objects that clients register.

The service opens an object by its path. Python's own ``PosixSharedMemory`` is not used, because its
resource tracker would unlink a client's object when this process ends. Bounds are checked against
the current size of the object, at registration and at each use. A request keeps the object open
while it uses it, even if the region is unregistered or the object is unlinked meanwhile.

Objects are read and written by system calls and never mapped. If a client truncates an object, or
the system has no memory for its pages, a system call returns a short count or an error. An access
to mapped memory would end the process (SIGBUS).
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from tensor_round.contract.errors import InvalidDescriptor, Overloaded
from tensor_round.contract.quoting import shown

from ..backends import Bytes
from .infer_json import Region
from .regions import ByteRange, RegisteredMemory, Registration, Registry

#: The folder in which Linux shows POSIX shared memory objects.
OBJECTS = Path("/dev/shm")

#: Errors of open(): no more file descriptors, or no memory for one.
_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
#: Errors of pwritev(): no memory for further pages of the object.
_NO_PAGES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.ENOMEM})


class PosixPart:
    """An open part of a registered region; a context manager that closes it."""

    def __init__(self, descriptor: int, registration: Registration, at: int, nbytes: int) -> None:
        self._descriptor = descriptor
        self._registration = registration
        self.range = ByteRange(registration.object, registration.offset + at, nbytes)
        self.nbytes = nbytes

    def __enter__(self) -> PosixPart:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._descriptor)

    def read(self, at: int, memory: Bytes) -> None:
        """Fill ``memory`` with the bytes from ``at`` on.

        Raises :class:`InvalidDescriptor` if the object was truncated.
        """
        start = self.range.start + at
        done = 0
        while done < memory.size:
            count = os.preadv(self._descriptor, [memory.data[done:]], start + done)
            if not count:
                raise _changed(self._registration.name)
            done += count

    def write(self, at: int, memory: Bytes) -> None:
        """Write ``memory`` from ``at`` on; an exception may leave a part of it written.

        Raises :class:`InvalidDescriptor` if the object was truncated, and :class:`Overloaded`
        if the system has no memory for its pages.
        """
        # Without this check, a write could extend an object that its client has truncated.
        _check_unchanged(self._registration, os.fstat(self._descriptor))
        start = self.range.start + at
        done = 0
        while done < memory.size:
            try:
                done += os.pwritev(self._descriptor, [memory.data[done:]], start + done)
            except OSError as error:
                if error.errno not in _NO_PAGES:
                    raise
                name = shown(self._registration.name)
                raise Overloaded(
                    f"the system has no memory now for shared memory region {name}", retry_after=1
                ) from None


class PosixSharedMemory(RegisteredMemory):
    """Registered POSIX shared memory. The key of a registration is the object's name."""

    kind = "shared memory"

    def __init__(self, prefix: str, registry: Registry) -> None:
        super().__init__(registry)
        self._prefix = prefix

    def register(self, name: str, key: str, offset: int, byte_size: int) -> None:
        """Register ``byte_size`` bytes of an object from ``offset`` on.

        Raises :class:`InvalidDescriptor` if the object is unusable or the name is in use.
        """
        status = self._status(key)
        end = offset + byte_size
        if end > status.st_size:
            raise InvalidDescriptor(
                f"offset and byte_size reach to {shown(end)}, the object has {status.st_size} bytes"
            )
        self._add(Registration(name, key, offset, byte_size, (status.st_dev, status.st_ino)))

    def part(self, region: Region, nbytes: int) -> PosixPart:
        """Open the first ``nbytes`` bytes of a request's region.

        Raises :class:`NotFound` for an unknown name, :class:`InvalidDescriptor` for a part out
        of bounds or a changed object, and :class:`Overloaded` without a free descriptor.
        """
        found = self._find_part(region)
        try:
            descriptor = _open(found.key)
        except OSError:
            raise _changed(found.name) from None
        try:
            _check_unchanged(found, os.fstat(descriptor))
        except InvalidDescriptor:
            os.close(descriptor)
            raise
        return PosixPart(descriptor, found, region.offset, nbytes)

    def _status(self, key: str) -> os.stat_result:
        """The current status of an object; raises :class:`InvalidDescriptor` for other keys."""
        name = key.removeprefix("/")
        if not name.startswith(self._prefix) or "/" in name:
            raise InvalidDescriptor(
                f"key must begin with {self._prefix} and have no further slash, got {shown(key)}"
            )
        try:
            descriptor = _open(key)
        except (OSError, ValueError):  # ValueError: a null character
            raise InvalidDescriptor(
                f"there is no shared memory object {shown(key)} that can be read and written"
            ) from None
        try:
            status = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InvalidDescriptor(f"{shown(key)} is not a shared memory object")
        return status


def _open(key: str) -> int:
    """A descriptor of the object; raises :class:`Overloaded` without a free descriptor."""
    path = OBJECTS / key.removeprefix("/")
    try:
        # O_NONBLOCK, because the path may name a pipe.
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in _NO_DESCRIPTORS:
            raise Overloaded("no more files can be opened now", retry_after=1) from None
        raise


def _check_unchanged(found: Registration, status: os.stat_result) -> None:
    is_same = (status.st_dev, status.st_ino) == found.object
    if not is_same or found.offset + found.byte_size > status.st_size:
        raise _changed(found.name)


def _changed(name: str) -> InvalidDescriptor:
    return InvalidDescriptor(
        f"the object of shared memory region {shown(name)} was removed, replaced or truncated; "
        "unregister the region and register it again"
    )
