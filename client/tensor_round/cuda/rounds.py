"""Rounding arrays in a GPU's memory: there if the service can, else by way of the host."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from ..arrays import device as device_arrays
from ..arrays import host as arrays
from ..arrays.device import Kind
from ..errors import InvalidArgument
from ..messages.request import Request
from ..operators.objects import Plan, RoundOperator
from ..progress import ProgressCallback
from ..transport.deadline import Deadline
from . import driver as cuda_driver
from .ipc import CannotShare, TooLarge, round_shared

logger = logging.getLogger(__name__)

#: Sends requests, made anew for each try, until there is an answer's document.
Fetch = Callable[[Callable[[], Request], Deadline], Awaitable[dict[str, Any]]]


#: Has an array on the host rounded into another.
Fill = Callable[
    [RoundOperator, Plan, arrays.Array, arrays.Array, bool | ProgressCallback, Deadline],
    Awaitable[None],
]


class DeviceRounds:
    """What a session does with arrays on a GPU."""

    def __init__(self, fetch: Fetch, fill: Fill) -> None:
        self._fetch = fetch
        self._fill = fill
        #: Whether the service may yet get at this process's GPU memory.
        self._shares = True

    async def round(
        self,
        kind: Kind,
        x: Any,
        by: RoundOperator,
        out: Any,
        progress: bool | ProgressCallback,
        deadline: Deadline,
    ) -> Any:
        """Round an array of that kind; see :meth:`Client.round`."""
        plan = by.plan(kind.dtype(x), tuple(x.shape))
        if out is not None:
            _check_out(kind, x, out)
        source = x if kind.is_packed(x) else kind.packed_copy(x)
        target = out if _takes_results(kind, source, out) else kind.like(x)
        if kind.nbytes(source):
            places = kind.address(source), kind.address(target)
            if not await self._shared(plan, *places, deadline):
                await self._copied(by, plan, *places, progress, deadline)
        if out is None:
            return target
        if target is not out:
            kind.assign(out, target)
        return out

    async def _shared(self, plan: Plan, source: int, target: int, deadline: Deadline) -> bool:
        """Whether the service could round it where it is."""
        if not self._shares:
            return False

        def fetch(make: Callable[[], Request]) -> Awaitable[dict[str, Any]]:
            return self._fetch(make, deadline)

        try:
            await round_shared(fetch, cuda_driver.driver(), plan.call, source, target)
        except (CannotShare, cuda_driver.DriverFailed) as reason:
            logger.warning("GPU arrays are copied to the service and back: %s", reason)
            self._shares = isinstance(reason, TooLarge)
            return False
        return True

    async def _copied(
        self,
        operator: RoundOperator,
        plan: Plan,
        source: int,
        target: int,
        progress: bool | ProgressCallback,
        deadline: Deadline,
    ) -> None:
        """Have a tensor rounded by way of this host's memory."""
        layout = plan.call.input
        memory = np.empty(layout.shape, layout.dtype.numpy)
        flat = memory.reshape(-1).view(np.uint8)
        try:
            driver = cuda_driver.driver()
            driver.wait(source)
            driver.read(source, flat)
            await self._fill(operator, plan, memory, memory, progress, deadline)
            driver.write(flat, target)
        except cuda_driver.DriverFailed as error:
            raise InvalidArgument(f"the array cannot be read or written: {error}") from error


def _check_out(kind: Kind, x: Any, out: Any) -> None:
    if device_arrays.kind_of(out) is not kind:
        raise InvalidArgument(f"out must be an array of {kind.module} on a GPU, as x is")
    if tuple(out.shape) != tuple(x.shape):
        raise InvalidArgument(f"out has shape {tuple(out.shape)}, x has {tuple(x.shape)}")
    if kind.dtype(out) != kind.dtype(x):
        raise InvalidArgument(f"out has dtype {kind.dtype(out)}, x has {kind.dtype(x)}")


def _takes_results(kind: Kind, source: Any, out: Any) -> bool:
    """Whether results can go to ``out`` while ``source`` is read: to the same place, or far off."""
    if out is None or not kind.is_packed(out):
        return False
    distance = abs(kind.address(out) - kind.address(source))
    return distance == 0 or distance >= kind.nbytes(source)
