"""Registered regions of shared memory: the registry that all workers share, and look-ups in it.

A single process keeps the registry in its memory. Several workers keep it in a file, a line for
each region. Each change replaces the whole file, under a lock that the kernel releases if its
holder dies. Readers need no lock: they see the registry before a change or after it. Each use of a
region reads the first line, the file's version, so no worker uses an outdated registry.
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
from functools import lru_cache
from pathlib import Path

from tensor_round.contract.errors import InvalidDescriptor, NotFound, Overloaded
from tensor_round.contract.quoting import shown

from .infer_json import Region

#: Maximum number of regions of one kind. With the longest names and keys its file has 4 MiB.
MAX_REGIONS = 1024
#: Maximum length of a name in bytes.
MAX_NAME_BYTES = 256
#: Length of a version.
_VERSION_BYTES = 16

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


def check_name(name: str) -> None:
    """Raise :class:`InvalidDescriptor` for a name that no region has."""
    nbytes = len(name.encode("utf-8", "surrogatepass"))  # JSON may have half of a surrogate pair
    if not 0 < nbytes <= MAX_NAME_BYTES:
        raise InvalidDescriptor(
            f"the name of a region has 1 to {MAX_NAME_BYTES} bytes, {shown(name)} has {nbytes}"
        )


class Registry:
    """The registered regions of one kind by name, in memory or in a file of this name."""

    def __init__(self, folder: Path | None = None, name: str = "regions") -> None:
        self._file = None if folder is None else folder / name
        self._lock = threading.Lock()
        #: The version of the file, and the registrations in it.
        self._parsed: tuple[bytes, dict[str, Registration]] = (b"", {})

    def read(self) -> Mapping[str, Registration]:
        """The current registrations."""
        version, regions = self._parsed
        if self._file is not None:
            with contextlib.suppress(FileNotFoundError), self._file.open("rb", 0) as file:
                if (found := file.read(_VERSION_BYTES)) != version:
                    lines = file.readall().split(b"\n")[1:]
                    regions = {region.name: region for region in map(_read, lines)}
                    self._parsed = found, regions
        return regions

    @contextlib.contextmanager
    def edit(self) -> Iterator[dict[str, Registration]]:
        """Change the registrations exclusively; an exception discards the changes.

        Raises :class:`Overloaded` if the file cannot be written.
        """
        with self._lock, self._file_lock():
            before = self.read()
            regions = {**before}
            yield regions
            if regions != before:
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
        version = b""
        if self._file is not None:
            version = secrets.token_hex(_VERSION_BYTES // 2).encode()
            new = self._file.with_suffix(".new")
            try:
                new.write_bytes(b"\n".join([version, *map(_line, regions.values())]))
                os.replace(new, self._file)
            except OSError as error:
                new.unlink(missing_ok=True)
                raise _cannot_write(error) from None
        self._parsed = version, regions


class RegisteredMemory:
    """Regions of one kind of shared memory. Subclasses check and map the memory itself."""

    #: The kind in error messages.
    kind: str

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def unregister(self, name: str | None = None) -> None:
        """Remove a registration, or all; a name that is not registered is not an error."""
        if name is not None:
            check_name(name)
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
        check_name(registration.name)
        with self._registry.edit() as regions:
            if registration.name in regions:
                name = shown(registration.name)
                raise InvalidDescriptor(f"a region named {name} is registered already")
            if len(regions) >= MAX_REGIONS:
                raise InvalidDescriptor(f"the maximum of {MAX_REGIONS} regions is registered")
            regions[registration.name] = registration

    def _find(self, name: str) -> Registration:
        check_name(name)
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


# Cached: a change of one region costs little more if there are many others.
@lru_cache(2 * MAX_REGIONS)
def _line(region: Registration) -> bytes:
    return json.dumps(asdict(region)).encode()


@lru_cache(2 * MAX_REGIONS)
def _read(line: bytes) -> Registration:
    members = json.loads(line)
    return Registration(**{**members, "object": tuple(members["object"])})


def _cannot_write(error: OSError) -> Overloaded:
    """The refusal for a registry file that cannot be written, such as on a full disk."""
    logger.warning("the registry of regions cannot be written: %s", error.strerror)
    return Overloaded("the registry of regions cannot be written now", retry_after=1)
