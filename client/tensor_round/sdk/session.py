"""The calls of both clients, written once: tiles, requests, retries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from ..arrays.device import library_of
from ..arrays.tiles import Tile, cut
from ..contract.differences.document import Differences
from ..contract.errors import (
    ConnectionFailed,
    DeadlineExceeded,
    InvalidArgument,
    InvalidArgumentType,
    ProtocolViolation,
    RequestRefused,
    TensorRoundError,
)
from ..contract.host import (
    Array,
    bits,
    empty_like,
    read_array,
    refuse_loss_of_mask,
    writable_array,
)
from ..contract.operators import PreparedDescriptor, RoundOperator
from ..contract.progress import ProgressCallback, counted
from ..cuda.device_rounding import DeviceRounder
from ..transport.concurrency import Concurrency, Deadline, Work
from ..transport.exchange import (
    Request,
    ResponseReader,
    document_reader,
    get_request,
    tensor_reader,
    tensor_request,
)
from ..transport.http import Transport
from .comparisons import Comparisons
from .execution import AnyDescriptor, DescriptorExecutor
from .output import Output
from .retries import Retries
from .settings import Settings

T = TypeVar("T")
#: The most tiles under way at several addresses, unless ``connections`` is more.
MAX_PARTS = 16
#: From this size on, computing a digest takes longer than starting a thread for it.
LARGE_DIGEST_BYTES = 256 << 10

#: Makes the reader of a response from its status and headers.
MakeReader = Callable[[int, Mapping[str, str]], ResponseReader[T]]


class Session:
    """The calls of one client over one transport."""

    def __init__(self, transport: Transport, concurrency: Concurrency, settings: Settings) -> None:
        self._transport = transport
        self._concurrency = concurrency
        self._settings = settings
        self._digest = settings.digest and not transport.is_in_process
        self._retries = Retries(settings.retries, verified=self._digest)
        self.is_closed = False
        self._comparisons = Comparisons(
            self._send, self._for_each, settings.tile_bytes, digest=self._digest
        )
        self._devices = DeviceRounder(
            self._send_for_document, self._round_tiles, is_spread=transport.addresses != 1
        )
        self._executor = DescriptorExecutor(
            self._send, self._round_tiles, concurrency, settings.tile_bytes, digest=self._digest
        )

    async def round(
        self,
        x: Any,
        operator: RoundOperator,
        out: Any,
        progress: bool | ProgressCallback,
    ) -> Any:
        """Round ``x``; see :meth:`Client.round`."""
        deadline = self._start()
        _check_progress(progress)
        if (library := library_of(x)) is not None:
            return await self._devices.round(library, x, operator, out, progress, deadline)
        operand = read_array(x)
        source = operand.array
        prepared = operator.prepare(operand.dtype, source.shape)
        if out is None:
            target = empty_like(source)
            await self._round_tiles(
                operator, prepared, source, target, progress, deadline, is_fresh=True
            )
            return operand.wrap(target)
        refuse_loss_of_mask(x, out)
        target = writable_array(out, operand)
        if _overlap_out_of_step(source, target):
            # Written at once, results would overwrite elements that are still to be sent.
            copy = empty_like(target)
            await self._round_tiles(
                operator, prepared, source, copy, progress, deadline, is_fresh=True
            )
            bits(target)[...] = bits(copy)
        else:
            await self._round_tiles(operator, prepared, source, target, progress, deadline)
        return out

    async def compare(self, x: Any, progress: bool | ProgressCallback) -> Differences:
        """Compare the rounding directions on ``x``; see :meth:`Client.compare`."""
        deadline = self._start()
        _check_progress(progress)
        operand = read_array(x)
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
        return await self._executor.execute(descriptor, data, out, progress, deadline)

    async def document(self, path: str) -> dict[str, Any]:
        """The JSON object at a path."""
        deadline = self._start()
        return await self._send_for_document(lambda: get_request(path), deadline)

    async def ready(self) -> bool:
        """Whether a service is reachable and ready, by one request to each, without retries."""
        deadline = self._start()
        tries = 0
        while tries < max(1, self._transport.addresses):  # the first try may read them
            tries += 1
            try:
                await self._send_once(get_request("/readyz"), document_reader, deadline)
                return True
            except (ConnectionFailed, DeadlineExceeded):
                continue
            except (ProtocolViolation, RequestRefused) as error:
                if not error.transient and self._transport.addresses == 1:
                    raise
        return False

    async def close(self) -> None:
        """Close the transport; further calls of this method do nothing."""
        if not self.is_closed:
            self.is_closed = True
            await self._transport.close()

    def _start(self) -> Deadline:
        if self.is_closed:
            raise InvalidArgument("the client is closed")
        return Deadline(self._settings.timeout)

    async def _round_tiles(
        self,
        operator: RoundOperator,
        prepared: PreparedDescriptor,
        source: Array,
        target: Array,
        progress: bool | ProgressCallback,
        deadline: Deadline,
        *,
        is_fresh: bool = False,
    ) -> None:
        """Round every tile of ``source`` into ``target``, which may be the same memory.

        ``is_fresh`` tells that the target is new and shares no memory.
        """
        aliased = not is_fresh and np.may_share_memory(source, target)
        tile_bytes = self._settings.tile_bytes
        tiling = cut(operator, prepared, source, target, tile_bytes, aliased=aliased)
        if tiling.is_whole and progress is False:
            (tile,) = tiling.tiles
            await self._round_tile(tile, deadline)
            return
        with counted(progress, source.nbytes) as add:

            async def work(tile: Tile) -> None:
                await self._round_tile(tile, deadline)
                add(tile.nbytes)

            if tiling.is_whole:
                (tile,) = tiling.tiles
                await work(tile)
            else:
                await self._for_each(work, iter(tiling.tiles), deadline)

    async def _for_each(self, work: Work[T], items: Iterator[T], deadline: Deadline) -> None:
        """Work on every item, several at a time; the first error cancels the rest."""
        connections = self._settings.connections
        most = max(connections, MAX_PARTS)
        # The number of addresses is 0 while it is not known.
        workers = min(connections * self._transport.addresses or most, most)
        await self._concurrency.for_each(work, items, workers, deadline)

    def _round_tile(self, tile: Tile, deadline: Deadline) -> Awaitable[None]:
        digest, can_tear = self._digest, not self._transport.is_in_process
        return self._send(
            lambda: tensor_request(tile.prepared, tile.payload(), digest=digest),
            lambda status, fields: tensor_reader(
                status,
                fields,
                tile.prepared,
                lambda: tile.sink(verified=digest, can_tear=can_tear),
                digest=digest,
            ),
            deadline,
            computes=digest and tile.nbytes >= LARGE_DIGEST_BYTES,
        )

    def _send_for_document(
        self, make_request: Callable[[], Request], deadline: Deadline
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        return self._send(make_request, document_reader, deadline)

    async def _send(
        self,
        make_request: Callable[[], Request],
        make_reader: MakeReader[T],
        deadline: Deadline,
        *,
        computes: bool = False,
    ) -> T:
        """Send a request with retries, and return the reader's result.

        Each try makes its request anew: some elements of an operand that is rounded in place may
        be results already, and rounding them again does not change them. ``computes`` tells that
        making the request takes much CPU time.
        """
        retries = knocks = 0
        while True:
            request = await self._concurrency.compute(make_request) if computes else make_request()
            try:
                result = await self._send_once(request, make_reader, deadline)
            except TensorRoundError as error:
                if error.request_id is None:
                    error.request_id = request.id
                pause = self._retries.knock(error, knocks, deadline)
                if pause is not None:
                    knocks += 1
                else:
                    pause = self._retries.backoff(error, retries, deadline)
                    retries += 1
            else:
                self._retries.has_answered = True
                self._retries.budget.record_success(retries)
                return result
            await self._concurrency.sleep(pause, deadline)

    def _send_once(
        self, request: Request, make_reader: MakeReader[T], deadline: Deadline
    ) -> Awaitable[T]:
        return self._concurrency.within(
            deadline, lambda: self._send_and_read(request, make_reader, deadline)
        )

    async def _send_and_read(
        self, request: Request, make_reader: MakeReader[T], deadline: Deadline
    ) -> T:
        response = await self._transport.send(request, deadline)
        try:
            reader = make_reader(response.status, response.fields)
            await response.receive(reader, deadline)
            return reader.finish()
        except TensorRoundError as error:
            url = self._transport.record_failure(response, error)
            if error.is_foreign:
                url = url or self._settings.url
                error.restate(f"no tensor-round service answers at {url}: {error.detail}")
            elif url is not None:
                error.restate(f"{url}: {error.detail}")
            raise
        finally:
            await response.close()


def _check_progress(progress: object) -> None:
    if not (isinstance(progress, bool) or callable(progress)):
        raise InvalidArgumentType("progress must be True, False or a function of two integers")


def _overlap_out_of_step(source: Array, target: Array) -> bool:
    """Whether the arrays share memory, but some element has different places in the two."""
    return np.may_share_memory(source, target) and not (
        source.ctypes.data == target.ctypes.data
        and source.strides == target.strides
        and source.dtype == target.dtype
    )
