"""System shared memory: POSIX objects that clients register, and requests round in.

An object is opened by its path and mapped here; Python's own ``SharedMemory`` would
have its resource tracker unlink a client's object when this process ends. Bounds are
checked in Python integers against the object as it is now, when a region is registered
and again at each use. Mappings are kept, since mapping anew costs more than rounding;
one lives as long as a request uses it, whoever unregisters the region meanwhile.
"""

from __future__ import annotations

import mmap
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tensor_round.echo import shown
from tensor_round.errors import InvalidDescriptor, NotFound
from tensor_round.wire.oip import Region

from .backends import Bytes
from .regions import Registration, Registry

#: Where Linux shows POSIX shared memory.
OBJECTS = Path("/dev/shm")
#: Regions at one time; each costs a worker that uses it a file descriptor.
MAX_REGIONS = 1024


@dataclass(frozen=True, slots=True)
class Span:
    """A run of bytes in an object; equal objects are the same memory, mapped twice or not."""

    memory: Bytes
    object: tuple[int, int]
    start: int

    def lies_on(self, other: Span) -> bool:
        """Whether both are the very same bytes."""
        return (self.object, self.start, self.memory.size) == (
            other.object,
            other.start,
            other.memory.size,
        )

    def overlaps(self, other: Span) -> bool:
        """Whether any byte is in both."""
        end = min(self.start + self.memory.size, other.start + other.memory.size)
        return self.object == other.object and max(self.start, other.start) < end


class SharedMemory:
    """The regions registered with the service, through whichever worker."""

    def __init__(self, prefix: str, registry: Registry) -> None:
        self._prefix = prefix
        self._registry = registry
        self._mappings: dict[str, mmap.mmap] = {}

    def register(self, name: str, key: str, offset: int, byte_size: int) -> None:
        """Let requests use these bytes of an object under a name.

        Raises :class:`InvalidDescriptor` where the object cannot be used so, or the name is taken.
        """
        descriptor = self._open(key)
        try:
            status = os.fstat(descriptor)
        finally:
            os.close(descriptor)
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

    def span(self, region: Region, nbytes: int) -> Span:
        """The first so many bytes of a part of a registered region.

        Raises :class:`NotFound` for a name that is not registered, and
        :class:`InvalidDescriptor` for a part that is not there, or no longer.
        """
        regions = self._registry.read()
        found = _find(regions, region.name)
        if region.offset + region.byte_size > found.byte_size:
            raise InvalidDescriptor(
                f"shared_memory_offset and shared_memory_byte_size reach to "
                f"{shown(region.offset + region.byte_size)}, region {shown(region.name)} has "
                f"{found.byte_size} bytes"
            )
        mapping = self._mapping(found, regions)
        start = found.offset + region.offset
        memory = np.frombuffer(mapping, np.uint8)[start : start + nbytes]
        return Span(memory, found.object, start)

    def _mapping(self, found: Registration, regions: Mapping[str, Registration]) -> mmap.mmap:
        """The object's mapping, if it is still what was registered."""
        mapping = self._mappings.get(found.token)
        if mapping is not None:
            try:
                _check_unchanged(found, os.stat(_path(found.key), follow_symlinks=False))
            except OSError:
                raise _changed(found.name) from None
            return mapping
        descriptor = self._open(found.key)
        try:
            _check_unchanged(found, os.fstat(descriptor))
            mapping = mmap.mmap(descriptor, found.offset + found.byte_size)
        finally:
            os.close(descriptor)
        tokens = {region.token for region in regions.values()}
        kept = {token: kept for token, kept in self._mappings.items() if token in tokens}
        self._mappings = {**kept, found.token: mapping}
        return mapping

    def _open(self, key: str) -> int:
        """A descriptor of the object with that key, which the prefix must allow."""
        name = key.removeprefix("/")
        if not name.startswith(self._prefix) or "/" in name:
            raise InvalidDescriptor(
                f"key must begin with {self._prefix} and hold no further slash, got {shown(key)}"
            )
        try:
            descriptor = os.open(_path(key), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        except (OSError, ValueError):  # ValueError: a null character
            raise InvalidDescriptor(
                f"there is no shared memory object {shown(key)} to read and write"
            ) from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise InvalidDescriptor(f"{shown(key)} is no shared memory object")
        return descriptor


def _path(key: str) -> Path:
    return OBJECTS / key.removeprefix("/")


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
