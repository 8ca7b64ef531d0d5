"""Registered regions of shared memory: the registry that all workers share, and look-ups in it.

A single process keeps the registry in its memory. Several workers keep it in a file. Each change
replaces the whole file, under a lock that the kernel releases if its holder dies. Readers need no
lock: they see the registry before a change or after it. Reading the file takes 10 us, at each use
of a region, so no worker uses an outdated registry.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tensor_round.contract.errors import InvalidDescriptor, NotFound, Overloaded
from tensor_round.contract.quoting import shown

from .codec import Region

#: Maximum number of regions of one kind.
MAX_REGIONS = 1024

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Registration:
    """A registered region: a part of the memory that a key refers to.

    ``object`` identifies the memory: device and inode of a POSIX object, or the device number of
    a CUDA allocation and 0. ``token`` distinguishes registrations with the same name.
    """

    name: str
    key: str
    offset: int
    byte_size: int
    object: tuple[int, int]
    token: str = field(default_factory=lambda: secrets.token_hex(8))


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A run of bytes in the memory that ``object`` identifies."""

    object: tuple[int, int]
    start: int
    nbytes: int

    def overlaps(self, other: ByteRange) -> bool:
        """Whether the ranges have a byte in common."""
        end = min(self.start + self.nbytes, other.start + other.nbytes)
        return self.object == other.object and max(self.start, other.start) < end


def check_aliasing(source: ByteRange, target: ByteRange) -> None:
    """Raise :class:`InvalidDescriptor` for an output that overlaps its input partly."""
    if source.overlaps(target) and source != target:
        raise InvalidDescriptor("the output's memory must be the input's, or share no byte with it")


class Registry:
    """The registered regions of one kind by name, in memory or in a file of this name."""

    def __init__(self, folder: Path | None = None, name: str = "regions") -> None:
        self._file = None if folder is None else folder / name
        self._lock = threading.Lock()
        #: The text of the file, and the registrations in it.
        self._parsed: tuple[str, dict[str, Registration]] = ("", {})

    def read(self) -> Mapping[str, Registration]:
        """The current registrations."""
        if self._file is not None:
            try:
                text = self._file.read_text()
            except FileNotFoundError:
                text = ""
            if text != self._parsed[0]:
                self._parsed = (text, _parse(text))
        return self._parsed[1]

    @contextlib.contextmanager
    def edit(self) -> Iterator[dict[str, Registration]]:
        """Change the registrations exclusively; an exception discards the changes.

        Raises :class:`Overloaded` if the file cannot be written.
        """
        with self._lock, self._file_lock():
            regions = dict(self.read())
            yield regions
            self._store(regions)

    @contextlib.contextmanager
    def _file_lock(self) -> Iterator[None]:
        if self._file is None:
            yield
            return
        try:
            # Not in the `with` statement: exceptions of the caller must not be caught here.
            lock = open(self._file.with_suffix(".lock"), "w")  # noqa: SIM115
        except OSError as error:
            raise _cannot_write(error) from None
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # closing the file releases the lock
            yield

    def _store(self, regions: dict[str, Registration]) -> None:
        text = json.dumps([asdict(region) for region in regions.values()])
        if self._file is not None:
            new = self._file.with_suffix(".new")
            try:
                new.write_text(text)
                os.replace(new, self._file)
            except OSError as error:
                new.unlink(missing_ok=True)
                raise _cannot_write(error) from None
        self._parsed = (text, regions)


class RegisteredMemory:
    """Regions of one kind of shared memory. Subclasses check and map the memory itself."""

    #: The kind in error messages.
    kind: str

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def unregister(self, name: str | None = None) -> None:
        """Remove a registration, or all; a name that is not registered is not an error."""
        with self._registry.edit() as regions:
            if name is None:
                regions.clear()
            else:
                regions.pop(name, None)

    def registered(self, name: str | None = None) -> list[Registration]:
        """All registrations, or the one with this name; raises :class:`NotFound`."""
        return [*self._registry.read().values()] if name is None else [self._find(name)]

    def has(self, name: str) -> bool:
        """Whether a region with this name is registered."""
        return name in self._registry.read()

    def _add(self, registration: Registration) -> None:
        """Store a registration; raises :class:`InvalidDescriptor` if its name is in use."""
        with self._registry.edit() as regions:
            if registration.name in regions:
                name = shown(registration.name)
                raise InvalidDescriptor(f"a region named {name} is registered already")
            if len(regions) >= MAX_REGIONS:
                raise InvalidDescriptor(f"the maximum of {MAX_REGIONS} regions is registered")
            regions[registration.name] = registration

    def _find(self, name: str) -> Registration:
        found = self._registry.read().get(name)
        if found is None:
            raise NotFound(f"there is no {self.kind} region {shown(name)}")
        return found

    def _find_part(self, region: Region) -> Registration:
        """The registration of a request's region, whose bounds are checked.

        Raises :class:`NotFound` and :class:`InvalidDescriptor`.
        """
        found = self._find(region.name)
        if region.offset + region.byte_size > found.byte_size:
            raise InvalidDescriptor(
                f"shared_memory_offset and shared_memory_byte_size reach to "
                f"{shown(region.offset + region.byte_size)}, region {shown(region.name)} has "
                f"{found.byte_size} bytes"
            )
        return found


def _parse(text: str) -> dict[str, Registration]:
    entries = json.loads(text) if text else []
    return {
        entry["name"]: Registration(**{**entry, "object": tuple(entry["object"])})
        for entry in entries
    }


def _cannot_write(error: OSError) -> Overloaded:
    """The refusal for a registry file that cannot be written, such as on a full disk."""
    logger.warning("the registry of regions cannot be written: %s", error.strerror)
    return Overloaded("the registry of regions cannot be written now", retry_after=1)
