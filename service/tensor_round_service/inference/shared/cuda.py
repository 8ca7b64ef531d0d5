"""CUDA shared memory: allocations on a GPU that clients register, and requests round in.

A client gives the IPC handle of an allocation, which stands for all of it wherever in it
the client's tensor lies. The driver knows how large the allocation is, so that no request
reaches behind it: there an access would cost the service its device. Mappings are kept,
since mapping anew costs more than rounding; one lives as long as a request uses it,
whoever unregisters the region meanwhile. The client must keep the allocation that long.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from tensor_round.errors import InvalidDescriptor, NotFound
from tensor_round.quoting import shown
from tensor_round.wire.oip import Region

from ...backends import Bytes
from ...backends.cuda.device import DeviceFailed, Span
from ...engine.engine import Engine
from .posix import MAX_REGIONS
from .regions import Registration, Registry

#: Bytes of a cudaIpcMemHandle_t.
HANDLE_BYTES = 64


@dataclass(frozen=True, slots=True)
class Place:
    """A run of bytes on a device."""

    device: int
    span: Span

    def lies_on(self, other: Place) -> bool:
        """Whether both are the very same bytes."""
        return (self.device, self.span.address, self.span.nbytes) == (
            other.device,
            other.span.address,
            other.span.nbytes,
        )

    def overlaps(self, other: Place) -> bool:
        """Whether any byte is in both."""
        start = max(self.span.address, other.span.address)
        end = min(
            self.span.address + self.span.nbytes,
            other.span.address + other.span.nbytes,
        )
        return self.device == other.device and start < end


class CudaSharedMemory:
    """The regions on devices that are registered with the service, through whichever worker.

    Of a registration the key is the handle, in Base64, and the object the device's number.
    """

    def __init__(self, engine: Engine, registry: Registry) -> None:
        self._engine = engine
        self._registry = registry
        #: Whole allocations, by a registration's token.
        self._mappings: dict[str, Span] = {}

    def register(self, name: str, handle: bytes, device: int, byte_size: int) -> None:
        """Let requests use the first so many bytes of an allocation under a name.

        Raises :class:`InvalidDescriptor` where it cannot be used so, or the name is taken.
        """
        mapping = self._map(handle, device)
        if byte_size > mapping.nbytes:
            raise InvalidDescriptor(
                f"byte_size is {shown(byte_size)}, the allocation has {mapping.nbytes} bytes"
            )
        key = base64.b64encode(handle).decode()
        token = secrets.token_hex(8)
        with self._registry.changing() as regions:
            if name in regions:
                raise InvalidDescriptor(f"a region named {shown(name)} is registered already")
            if len(regions) >= MAX_REGIONS:
                raise InvalidDescriptor(f"{MAX_REGIONS} regions are registered, which is the most")
            regions[name] = Registration(name, key, 0, byte_size, (device, 0), token)
        self._mappings[token] = mapping

    def unregister(self, name: str | None = None) -> None:
        """Forget a region, or all of them; one that is not there is gone already."""
        with self._registry.changing() as regions:
            if name is None:
                regions.clear()
            else:
                regions.pop(name, None)
        self._forget(self._registry.read())

    def registered(self, name: str | None = None) -> list[Registration]:
        """All regions, or the one of that name; raises :class:`NotFound`."""
        regions = self._registry.read()
        return list(regions.values()) if name is None else [_find(regions, name)]

    def has(self, name: str) -> bool:
        """Whether a region of that name is registered here."""
        return name in self._registry.read()

    def place(self, region: Region, nbytes: int) -> Place:
        """The first so many bytes of a part of a registered region.

        Raises :class:`NotFound` and :class:`InvalidDescriptor`.
        """
        regions = self._registry.read()
        found = _find(regions, region.name)
        if region.offset + region.byte_size > found.byte_size:
            raise InvalidDescriptor(
                f"shared_memory_offset and shared_memory_byte_size reach to "
                f"{shown(region.offset + region.byte_size)}, region {shown(region.name)} has "
                f"{found.byte_size} bytes"
            )
        self._forget(regions)
        device = found.object[0]
        mapping = self._mappings.get(found.token)
        if mapping is None:  # registered through another worker
            mapping = self._map(base64.b64decode(found.key), device)
            self._mappings[found.token] = mapping
        return Place(device, mapping.part(region.offset, region.offset + nbytes))

    def download(self, source: Place, target: Bytes) -> None:
        """Copy from a device."""
        self._engine.device_memory.download(source.device, source.span, target)

    def upload(self, source: Bytes, target: Place) -> None:
        """Copy to a device."""
        self._engine.device_memory.upload(target.device, source, target.span)

    def _map(self, handle: bytes, device: int) -> Span:
        try:
            return self._engine.device_memory.import_memory(device, handle)
        except LookupError as error:
            raise InvalidDescriptor(str(error)) from None
        except DeviceFailed:
            raise InvalidDescriptor(
                f"the handle opens no memory on device {device} for this service: it must be of "
                "another process on this host, from cudaIpcGetMemHandle, and its memory there still"
            ) from None

    def _forget(self, regions: Mapping[str, Registration]) -> None:
        """Unmap what is not registered any more, here or through another worker."""
        tokens = {region.token for region in regions.values()}
        if not self._mappings.keys() <= tokens:
            self._mappings = {t: span for t, span in self._mappings.items() if t in tokens}


def _find(regions: Mapping[str, Registration], name: str) -> Registration:
    if name not in regions:
        raise NotFound(f"there is no CUDA shared memory region {shown(name)}")
    return regions[name]
