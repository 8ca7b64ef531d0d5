"""Rounding arrays in a GPU's memory: in place through CUDA IPC, or else through host memory."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any, Protocol

import numpy as np

from ..arrays.device import ArrayLibrary, library_of
from ..contract.errors import InvalidArgument
from ..contract.host import Array
from ..contract.operators import PreparedDescriptor, RoundOperator
from ..contract.progress import ProgressCallback
from ..transport.concurrency import Deadline
from . import driver
from .ipc import CannotShare, SendForDocument, TooLarge, round_shared

logger = logging.getLogger(__name__)


class RoundTiles(Protocol):
    """Rounds every tile of a host array into another array, which may be the same memory."""

    def __call__(
        self,
        operator: RoundOperator,
        prepared: PreparedDescriptor,
        source: Array,
        target: Array,
        progress: bool | ProgressCallback,
        deadline: Deadline,
        *,
        is_fresh: bool = False,
    ) -> Awaitable[None]:
        """Round the array; ``is_fresh`` means that the target is new and shares no memory."""


class DeviceRounder:
    """Rounds the GPU arrays of one session."""

    def __init__(self, send: SendForDocument, round_tiles: RoundTiles, *, is_spread: bool) -> None:
        self._send = send
        self._round_tiles = round_tiles
        #: Whether requests go to several services: none of them has the registrations of all.
        self._is_spread = is_spread
        #: False once the service has failed to open this process's GPU memory.
        self._can_share = True

    async def round(
        self,
        library: ArrayLibrary,
        x: Any,
        operator: RoundOperator,
        out: Any,
        progress: bool | ProgressCallback,
        deadline: Deadline,
    ) -> Any:
        """Round an array of that library; see :meth:`Client.round`."""
        prepared = operator.prepare(library.dtype(x), tuple(x.shape))
        if out is not None:
            _check_out(library, x, out)
        source = x if library.is_packed(x) else library.packed_copy(x)
        target = out if _can_be_target(library, source, out) else library.empty_like(x)
        if library.nbytes(source):
            addresses = library.address(source), library.address(target)
            if not await self._round_shared(prepared, *addresses, deadline):
                await self._round_copied(operator, prepared, *addresses, progress, deadline)
        if out is None:
            return target
        if target is not out:
            library.assign(out, target)
        return out

    async def _round_shared(
        self, prepared: PreparedDescriptor, source: int, target: int, deadline: Deadline
    ) -> bool:
        """Round in GPU memory; False if the service cannot."""
        if not self._can_share:
            return False
        try:
            if self._is_spread:
                raise CannotShare("the client has several addresses")
            gpu = driver.open_driver()
            await round_shared(self._send, gpu, prepared.call, source, target, deadline)
        except (CannotShare, driver.DriverFailed) as reason:
            logger.warning("GPU arrays are copied to the service and back: %s", reason)
            self._can_share = isinstance(reason, TooLarge)
            return False
        return True

    async def _round_copied(
        self,
        operator: RoundOperator,
        prepared: PreparedDescriptor,
        source: int,
        target: int,
        progress: bool | ProgressCallback,
        deadline: Deadline,
    ) -> None:
        """Round a copy in host memory."""
        layout = prepared.call.input
        memory = np.empty(layout.shape, layout.dtype.numpy)
        flat = memory.reshape(-1).view(np.uint8)
        try:
            gpu = driver.open_driver()
            gpu.wait(source)
            gpu.read(source, flat)
            await self._round_tiles(operator, prepared, memory, memory, progress, deadline)
            gpu.write(flat, target)
        except driver.DriverFailed as error:
            raise InvalidArgument(f"the array cannot be read or written: {error}") from error


def _check_out(library: ArrayLibrary, x: Any, out: Any) -> None:
    if library_of(out) is not library:
        raise InvalidArgument(f"out must be an array of {library.module} on a GPU, as x is")
    if tuple(out.shape) != tuple(x.shape):
        raise InvalidArgument(f"out has shape {tuple(out.shape)}, x has {tuple(x.shape)}")
    if library.dtype(out) != library.dtype(x):
        raise InvalidArgument(f"out has dtype {library.dtype(out)}, x has {library.dtype(x)}")


def _can_be_target(library: ArrayLibrary, source: Any, out: Any) -> bool:
    """Whether ``out`` is packed, and is ``source``'s memory or does not overlap it."""
    if out is None or not library.is_packed(out):
        return False
    distance = abs(library.address(out) - library.address(source))
    return distance == 0 or distance >= library.nbytes(source)
