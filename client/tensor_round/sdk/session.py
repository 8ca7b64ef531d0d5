"""What a client does, written once for both: calls, tiles, tries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import numpy as np

from ..arrays import device as device_arrays
from ..arrays import host as arrays
from ..arrays.tiles import Tile, cut
from ..cuda.rounds import DeviceRounds
from ..errors import (
    ConnectionFailed,
    DeadlineExceeded,
    InvalidArgument,
    InvalidArgumentType,
    RequestRefused,
    TensorRoundError,
)
from ..messages.differences import Differences
from ..messages.reader import Intake
from ..messages.request import Request, document_intake, get_request, round_request, tensor_intake
from ..operators.objects import Plan, RoundOperator
from ..progress import ProgressCallback, counted
from ..transport.concurrency import Concurrency
from ..transport.deadline import Deadline
from ..transport.transports import Transport
from .comparisons import Comparisons
from .execution import AnyDescriptor, Executions
from .output import Output
from .retries import Retries
from .settings import Settings

T = TypeVar("T")
#: From this size on a digest takes longer than its way to a thread and back.
LARGE_DIGEST_BYTES = 256 << 10

#: From an answer's status and headers, what takes its body.
Reception = Callable[[int, Mapping[str, str]], Intake[T]]


class Session:
    """The calls of one client over one transport."""

    def __init__(self, transport: Transport, concurrency: Concurrency, settings: Settings) -> None:
        self._transport = transport
        self._concurrency = concurrency
        self._settings = settings
        self._digest = settings.digest and not transport.is_in_process
        self._retries = Retries(settings.retries, verified=self._digest)
        self.is_closed = False
        self._comparisons = Comparisons(self._fetched, concurrency, settings, digest=self._digest)
        self._devices = DeviceRounds(self._fetched_document, self._fill)
        self._executions = Executions(
            self._fetched, self._fill, concurrency, settings.tile_bytes, digest=self._digest
        )

    async def round(
        self,
        x: Any,
        by: RoundOperator,
        out: Any,
        progress: bool | ProgressCallback,
    ) -> Any:
        """Round ``x``; see :meth:`Client.round`."""
        deadline = self._start()
        _check_progress(progress)
        if (kind := device_arrays.kind_of(x)) is not None:
            return await self._devices.round(kind, x, by, out, progress, deadline)
        operand = arrays.read(x)
        plan = by.plan(operand.dtype, operand.array.shape)
        if out is None:
            target = arrays.empty_like(operand.array)
            await self._fill(by, plan, operand.array, target, progress, deadline, is_fresh=True)
            return operand.give(target)
        arrays.refuse_loss_of_mask(x, out)
        target = arrays.writable(out, operand)
        if _lie_askew(operand.array, target):
            # Results would overwrite elements that are not yet sent.
            beside = arrays.empty_like(target)
            await self._fill(by, plan, operand.array, beside, progress, deadline, is_fresh=True)
            arrays.bits(target)[...] = arrays.bits(beside)
        else:
            await self._fill(by, plan, operand.array, target, progress, deadline)
        return out

    async def compare(self, x: Any, progress: bool | ProgressCallback) -> Differences:
        """Compare the directions on ``x``; see :meth:`Client.compare`."""
        deadline = self._start()
        _check_progress(progress)
        operand = arrays.read(x)
        return await self._comparisons.compare(operand.array, operand.dtype, progress, deadline)

    async def execute(
        self,
        descriptor: AnyDescriptor,
        data: Any,
        out: Any,
        progress: bool | ProgressCallback,
    ) -> Output:
        """Execute a descriptor; see :meth:`Client.execute`."""
        deadline = self._start()
        _check_progress(progress)
        return await self._executions.execute(descriptor, data, out, progress, deadline)

    async def document(self, path: str) -> dict[str, Any]:
        """The JSON object at a path."""
        deadline = self._start()
        return await self._fetched_document(lambda: get_request(path), deadline)

    async def ready(self) -> bool:
        """Whether the service would serve now, found out by one try."""
        deadline = self._start()
        try:
            await self._tried(get_request("/readyz"), document_intake, deadline)
        except (ConnectionFailed, DeadlineExceeded):
            return False
        except RequestRefused as refusal:
            if refusal.transient:
                return False
            raise
        return True

    async def close(self) -> None:
        """Close the transport; a second time changes nothing."""
        if not self.is_closed:
            self.is_closed = True
            await self._transport.close()

    def _start(self) -> Deadline:
        if self.is_closed:
            raise InvalidArgument("the client is closed")
        return Deadline(self._settings.timeout)

    async def _fill(
        self,
        operator: RoundOperator,
        plan: Plan,
        source: arrays.Array,
        target: arrays.Array,
        progress: bool | ProgressCallback,
        deadline: Deadline,
        *,
        is_fresh: bool = False,
    ) -> None:
        """Have every tile of ``source`` rounded into ``target``, which may be the same memory.

        One that ``is_fresh`` was made for this, and is not.
        """
        aliased = not is_fresh and np.may_share_memory(source, target)
        parts = cut(operator, plan, source, target, self._settings.tile_bytes, aliased=aliased)
        if parts.is_whole and progress is False:
            (tile,) = parts.tiles
            await self._round_tile(tile, deadline)
            return
        with counted(progress, source.nbytes) as add:

            async def work(tile: Tile) -> None:
                await self._round_tile(tile, deadline)
                add(tile.nbytes)

            if parts.is_whole:
                (tile,) = parts.tiles
                await work(tile)
            else:
                await self._concurrency.each(
                    work, iter(parts.tiles), self._settings.connections, deadline
                )

    def _round_tile(self, tile: Tile, deadline: Deadline) -> Awaitable[None]:
        digest, can_tear = self._digest, not self._transport.is_in_process
        return self._fetched(
            lambda: round_request(tile.plan, tile.payload(), digest=digest),
            lambda status, fields: tensor_intake(
                status,
                fields,
                tile.plan,
                lambda: tile.landing(verified=digest, can_tear=can_tear),
                digest=digest,
            ),
            deadline,
            computes=digest and tile.nbytes >= LARGE_DIGEST_BYTES,
        )

    def _fetched_document(
        self, make: Callable[[], Request], deadline: Deadline
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        return self._fetched(make, document_intake, deadline)

    async def _fetched(
        self,
        make: Callable[[], Request],
        reception: Reception[T],
        deadline: Deadline,
        *,
        computes: bool = False,
    ) -> T:
        """What an answer ends in, tried until it is one, or until trying makes no sense.

        Each try makes its request anew: an operand that is rounded in place may have
        changed by whole elements, which rounding again does not change. ``computes`` is
        whether that takes a processor for long.
        """
        retries = 0
        while True:
            request = await self._concurrency.compute(make) if computes else make()
            try:
                result = await self._tried(request, reception, deadline)
            except TensorRoundError as error:
                if error.request_id is None:
                    error.request_id = request.id
                seconds = self._retries.pause(error, retries, deadline)
            else:
                self._retries.budget.succeeded(retries)
                return result
            retries += 1
            await self._concurrency.pause(seconds, deadline)

    def _tried(self, request: Request, reception: Reception[T], deadline: Deadline) -> Awaitable[T]:
        """What an answer ends in, tried once."""
        return self._concurrency.within(
            deadline, lambda: self._answered(request, reception, deadline)
        )

    async def _answered(self, request: Request, reception: Reception[T], deadline: Deadline) -> T:
        reply = await self._transport.send(request, deadline)
        try:
            intake = reception(reply.status, reply.fields)
            await reply.pour(intake, deadline)
            return intake.end()
        except TensorRoundError as error:
            if error.is_foreign:
                where = self._settings.url
                error.restate(f"no tensor-round service answers at {where}: {error.detail}")
            raise
        finally:
            await reply.close()


def _check_progress(progress: object) -> None:
    if not (isinstance(progress, bool) or callable(progress)):
        raise InvalidArgumentType("progress must be True, False or a function of two integers")


def _lie_askew(source: arrays.Array, target: arrays.Array) -> bool:
    """Whether the two share memory in any way but element by element."""
    return np.may_share_memory(source, target) and not (
        source.ctypes.data == target.ctypes.data
        and source.strides == target.strides
        and source.dtype == target.dtype
    )
