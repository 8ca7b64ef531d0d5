"""CUDA shared memory: GPU memory that clients register by CUDA IPC handles.

A handle refers to a whole allocation, wherever in it the client's tensor begins. The driver
returns the size of the allocation, so bounds can be checked: an access beyond its end would make
the device unusable for this process. Mappings are cached, because mapping takes longer than
rounding. A mapping lives as long as a request uses it, even if its region is unregistered
meanwhile. The client must keep its allocation that long.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

from tensor_round.contract.errors import InvalidDescriptor
from tensor_round.contract.quoting import shown

from ..backends.devices import DeviceBuffer, DeviceFailed
from ..engine.engine import Engine
from .infer_json import Region
from .regions import ByteRange, RegisteredMemory, Registration, Registry

#: Size of a cudaIpcMemHandle_t in bytes.
HANDLE_BYTES = 64


@dataclass(frozen=True, slots=True)
class CudaPart:
    """A mapped part of a registered region."""

    device: int
    buffer: DeviceBuffer

    @property
    def range(self) -> ByteRange:
        """The bytes of the part on its device."""
        return ByteRange((self.device, 0), self.buffer.address, self.buffer.nbytes)


class CudaSharedMemory(RegisteredMemory):
    """Registered GPU memory. The key of a registration is the IPC handle in Base64."""

    kind = "CUDA shared memory"

    def __init__(self, engine: Engine, registry: Registry) -> None:
        super().__init__(registry)
        self._engine = engine
        #: Mapped allocations, by the token of their registration.
        self._mappings: dict[str, DeviceBuffer] = {}

    def register(self, name: str, handle: bytes, device: int, byte_size: int) -> None:
        """Register the first ``byte_size`` bytes of an allocation.

        Raises :class:`InvalidDescriptor` if the handle is unusable or the name is in use.
        """
        mapping = self._map(handle, device)
        if byte_size > mapping.nbytes:
            raise InvalidDescriptor(
                f"byte_size is {shown(byte_size)}, the allocation has {mapping.nbytes} bytes"
            )
        key = base64.b64encode(handle).decode()
        registration = Registration(name, key, 0, byte_size, (device, 0))
        self._add(registration)
        self._mappings[registration.token] = mapping

    def unregister(self, name: str | None = None) -> None:
        """Remove a registration, or all, and their mappings."""
        super().unregister(name)
        self._drop_stale_mappings()

    def part(self, region: Region, nbytes: int) -> CudaPart:
        """Map the first ``nbytes`` bytes of a request's region.

        Raises :class:`NotFound` and :class:`InvalidDescriptor`.
        """
        found = self._find_part(region)
        self._drop_stale_mappings()
        device = found.object[0]
        mapping = self._mappings.get(found.token)
        if mapping is None:  # another worker registered it
            mapping = self._map(base64.b64decode(found.key), device)
            self._mappings[found.token] = mapping
        return CudaPart(device, mapping.part(region.offset, region.offset + nbytes))

    def _map(self, handle: bytes, device: int) -> DeviceBuffer:
        try:
            return self._engine.device_memory.import_memory(device, handle)
        except LookupError as error:
            raise InvalidDescriptor(str(error)) from None
        except DeviceFailed:
            raise InvalidDescriptor(
                f"the handle cannot be opened on device {device}: it must come from "
                "cudaIpcGetMemHandle in another process on this host, and its memory must still "
                "be allocated"
            ) from None

    def _drop_stale_mappings(self) -> None:
        """Drop the mappings of regions that were unregistered through any worker."""
        tokens = {region.token for region in self._registry.read().values()}
        if not self._mappings.keys() <= tokens:
            self._mappings = {
                token: mapping for token, mapping in self._mappings.items() if token in tokens
            }
