"""The calls of both clients, written once: tiles, requests, retries.

Requests change nothing in the service, and rounding a result again does not change it. So every
request may be sent again; the retry policy decides whether that can succeed.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from urllib.parse import urlencode

import numpy as np

from ..arrays.device import library_of
from ..arrays.tiles import Preparing, Tile, cut
from ..contract.errors import (
    ConnectionFailed,
    DeadlineExceeded,
    DigestMismatch,
    InvalidArgument,
    InvalidArgumentType,
    NotFound,
    ProtocolViolation,
    RequestRefused,
    TensorRoundError,
)
from ..contract.host_memory import Array, bits, refuse_loss_of_mask
from ..contract.operators.operator import PreparedDescriptor, canonical_name
from ..contract.progress import Progress, counted
from ..contract.quoting import shown
from ..transport.address import Address
from ..transport.concurrency import Work
from ..transport.exchange import Deadline, DocumentExchange, Exchange, Request, RoundExchange
from .devices import DeviceRounder
from .options import Arguments

if TYPE_CHECKING:
    from ..arrays.parameters import Parameters
    from ..contract.differences.document import Differences
    from ..contract.dtypes import AnyDType
    from ..transport.concurrency import Concurrency, Transport
    from .execution import AnyDescriptor
    from .tensor_memory import Output, WholeTensor

#: Seconds before the first retry, which double with each further one, and their maximum.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
#: The longest pause between two attempts to connect to a service that is being replaced, and the
#: longest time for which a call without a timeout makes them.
LONGEST_RECONNECT_PAUSE, PATIENCE = 1.0, 60.0

#: The retries that a new client may spend.
BUDGET = 100
#: The retries that a success at the first try earns: one for each ten requests.
EARNED = 0.1


class Retries:
    """The policy of one client: at most ``limit`` retries of each request.

    All calls share a budget of retries, so that these do not worsen an outage: each retry spends
    one. A success after retries returns them, and a success at the first try earns a tenth of one.
    There is no lock, which a fork could leave locked; concurrent threads may make the count
    slightly wrong, which does no harm.

    With ``verified`` (Content-Digest) garbled messages count as transient errors too.
    """

    def __init__(self, limit: int, *, verified: bool, budget: float = BUDGET) -> None:
        self._limit = limit
        self._verified = verified
        self._budget = self._left = budget
        #: Whether a service has ever answered: then one that refuses connections is expected back.
        self._has_answered = False

    def record_success(self, retries: int) -> None:
        """Record a request that succeeded, and the number of its retries."""
        self._has_answered = True
        self._left = min(self._budget, self._left + (retries or EARNED))

    def reconnect_pause(
        self, error: TensorRoundError, reconnects: int, deadline: Deadline
    ) -> float | None:
        """Seconds to wait before connecting again; None if ``error`` is another matter.

        A service that has answered before and is not there now is being replaced. Connecting again
        does not load it, so this is limited by the deadline alone, and spends no retry. The wait
        doubles with each of the ``reconnects`` made so far, up to
        :data:`LONGEST_RECONNECT_PAUSE`, or is a gateway's Retry-After.
        """
        if not (error.is_unavailable and self._has_answered and self._limit):
            return None
        if not deadline.is_limited and reconnects * LONGEST_RECONNECT_PAUSE > PATIENCE:
            return None
        seconds = _seconds(error, reconnects, LONGEST_RECONNECT_PAUSE)
        return seconds if deadline.allows(seconds) else None

    def backoff(self, error: TensorRoundError, retries: int, deadline: Deadline) -> float:
        """Seconds to wait before the next try; raises ``error`` if there must be no further try.

        The wait doubles with each of the ``retries`` made so far, from :data:`FIRST_PAUSE`, with
        random jitter of up to one half. The service's Retry-After is added. There is no next try
        that the deadline does not allow.
        """
        garbled = self._verified and isinstance(error, DigestMismatch | ProtocolViolation)
        if not (error.transient or garbled) or retries >= self._limit:
            raise error
        seconds = _seconds(error, retries, LONGEST_PAUSE)
        if not deadline.allows(seconds) or self._left < 1:
            raise error
        self._left -= 1
        return seconds


def _seconds(error: TensorRoundError, tries: int, longest: float) -> float:
    seconds = min(FIRST_PAUSE * 2.0 ** min(tries, 16), longest) * random.uniform(0.5, 1)
    stated = error.retry_after if isinstance(error, RequestRefused) else None
    return seconds + (stated or 0.0)


T = TypeVar("T")
#: From this size on, a digest or a copy takes longer than starting a thread for it.
LARGE_BYTES = 256 << 10

#: The most bytes of a quantization's tile in this process: each is copied, with its parameters
#: behind it, and a copy of this size stays in a core's cache.
_COPIED_BYTES = 1 << 20

#: Ends of URLs that name a path of a service, and not where it begins.
_PATHS = frozenset({"/round", "/compare", "/operators", "/conformance", "/readyz", "/docs", "/v2"})


#: What a progress bar says.
_DOING = {
    "round": "rounding",
    "cast": "casting",
    "quantize": "quantizing",
    "dequantize": "dequantizing",
    "fake_quantize": "quantizing",
}


class Applied(Preparing, Protocol):
    """What is done to an array: an operator of any kind, or fake quantization by two."""

    @property
    def kind(self) -> str:
        """The name of the client's method."""


class CallOptions(NamedTuple):
    """The options of one call that its steps share."""

    deadline: Deadline
    progress: Progress


class Session:
    """The calls of one client over one transport."""

    def __init__(
        self, transport: Transport, concurrency: Concurrency, arguments: Arguments
    ) -> None:
        options = arguments.options
        self.transport = transport
        self.concurrency = concurrency
        #: The most bytes of a tile.
        self.tile_bytes = options["tile_bytes"]
        #: Whether payloads are verified.
        self.digest = options["digest"] and not transport.is_in_process
        self.is_closed = False
        self._url = arguments.url
        self._timeout = options["timeout"]
        self._connections = options["connections"]
        self._retries = Retries(options["retries"], verified=self.digest)
        self._devices = DeviceRounder(self)

    async def round(
        self,
        x: Any,
        operator: Applied,
        out: Any,
        progress: Progress,
        make_parameters: Callable[[str], Parameters] | None = None,
    ) -> Any:
        """Round ``x``, cast or quantize it; see the methods of :class:`Client`.

        ``make_parameters`` makes those of a quantization, for the dtype of ``x``.
        """
        from ..contract.array_forms import read_array, writable_array  # at first use

        with self._call(operator.kind, progress) as options:
            library = None if isinstance(x, np.ndarray) else library_of(x)
            if library is not None:
                return await self._devices.round(
                    library, x, operator, out, options, make_parameters
                )
            operand = read_array(x)
            source = operand.array
            parameters = make_parameters and make_parameters(operand.dtype)
            types = () if parameters is None else parameters.types
            prepared = operator.prepare(operand.dtype, source.shape, *types)
            to = prepared.call.output.dtype
            if out is None:
                made = source.dtype if operand.dtype == to.name else to.numpy
                target = results = np.empty_like(source, made)
            else:
                refuse_loss_of_mask(x, out)
                target = results = writable_array(out, source.shape, to.name)
                if _overlap_out_of_step(source, target):
                    # Written at once, results would overwrite elements that are still to be sent.
                    results = np.empty_like(target)
            is_fresh = out is None or results is not target
            await self.round_tiles(
                operator, prepared, source, results, options, parameters, is_fresh=is_fresh
            )
            if results is not target:
                bits(target)[...] = bits(results)
            return operand.wrap(target) if out is None else out

    async def compare(self, x: Any, progress: Progress) -> Differences:
        """Compare the rounding directions on ``x``; see :meth:`Client.compare`."""
        from ..contract.array_forms import read_array
        from .execution import compare  # at first use, with pydantic

        with self._call("compare", progress) as options:
            operand = read_array(x)
            return await compare(self, operand.array, operand.dtype, options)

    async def execute(
        self, descriptor: AnyDescriptor, data: Any, out: Any, progress: Progress
    ) -> Output:
        """Execute a descriptor; see :meth:`Client.execute`."""
        from .execution import execute  # likewise

        with self._call("execute", progress) as options:
            return await execute(self, descriptor, data, out, options)

    async def document(self, path: str) -> dict[str, Any]:
        """The JSON object at a path, which may have a query."""
        with self._call(path.partition("?")[0].strip("/")) as options:
            return await self.send(DocumentExchange(path), options.deadline)

    async def conformance(
        self, operator: str, dtype: AnyDType | None, to: AnyDType | None
    ) -> dict[str, Any]:
        """The digests of the service's results; see :meth:`Client.conformance`."""
        types = {"dtype": dtype, "to": to}
        asked = {name: canonical_name(given) for name, given in types.items() if given is not None}
        return await self.document(f"/conformance?{urlencode({'operator': operator, **asked})}")

    async def ready(self) -> bool:
        """Whether a service is reachable and ready, by one request without retries."""
        with self._call("ready") as options:
            deadline, exchange = options.deadline, DocumentExchange("/readyz")
            attempt = partial(self._attempt, exchange.request(), exchange, deadline)
            try:
                await self.concurrency.within(deadline, attempt)
            except (ConnectionFailed, DeadlineExceeded):
                return False
            except (ProtocolViolation, RequestRefused) as error:
                if not error.transient:
                    raise
                return False
            return True

    async def close(self) -> None:
        """Close the transport; further calls of this method do nothing."""
        if not self.is_closed:
            self.is_closed = True
            await self.transport.close()

    def _call(self, name: str, progress: Progress = False) -> AbstractContextManager[CallOptions]:
        """The context of one call, with its options."""
        if self.is_closed:
            raise InvalidArgument("the client is closed")
        if not (isinstance(progress, bool) or callable(progress)):
            raise InvalidArgumentType("progress must be True, False or a function of two integers")
        return nullcontext(CallOptions(Deadline(self._timeout), progress))

    async def round_tiles(
        self,
        operator: Applied,
        prepared: PreparedDescriptor,
        source: Array,
        target: Array,
        options: CallOptions,
        parameters: Parameters | None = None,
        *,
        is_fresh: bool = False,
    ) -> None:
        """Round every tile of ``source`` into ``target``, which may be the same memory.

        ``is_fresh``: the target is new and shares no memory.
        """
        aliased = not is_fresh and np.may_share_memory(source, target)
        if parameters is None:
            tiles = cut(operator, prepared, source, target, self.tile_bytes, aliased=aliased)
        else:
            most = self.tile_bytes
            if self.transport.is_in_process:
                most = min(most, _COPIED_BYTES)
            tiles = parameters.cut(operator, prepared, source, target, most, aliased=aliased)
        deadline, progress = options
        if isinstance(tiles, Tile) and progress is False:
            await self.round_tile(tiles, deadline)
            return
        with counted(progress, source.nbytes, _DOING[operator.kind]) as add:

            async def work(tile: Tile) -> None:
                await self.round_tile(tile, deadline)
                add(tile.nbytes)

            if isinstance(tiles, Tile):
                await work(tiles)
            else:
                await self.for_each(work, tiles, deadline)

    async def for_each(self, work: Work[T], items: Iterator[T], deadline: Deadline) -> None:
        """Work on every item, several at a time; the first error cancels the rest."""
        await self.concurrency.for_each(work, items, self._connections, deadline)

    def round_tile(self, tile: Tile | WholeTensor, deadline: Deadline) -> Awaitable[None]:
        """Round one tile by one request; one of fake quantization by two, but in this process."""
        if tile.prepared.steps and not self.transport.is_in_process:
            assert isinstance(tile, Tile)
            return self._round_by_steps(tile, deadline)
        exchange = RoundExchange(tile, self.digest, can_tear=not self.transport.is_in_process)
        return self.send(exchange, deadline, computes=self.digest and tile.nbytes >= LARGE_BYTES)

    async def _round_by_steps(self, tile: Tile, deadline: Deadline) -> None:
        quantized, dequantized = tile.prepared.steps
        codes = np.empty(tile.source.shape, quantized.call.output.dtype.numpy)
        given = tile.parameters
        await self.round_tile(Tile(quantized, tile.source, codes, False, given), deadline)
        await self.round_tile(Tile(dequantized, codes, tile.target, False, given), deadline)

    async def send(self, exchange: Exchange[T], deadline: Deadline, *, computes: bool = False) -> T:
        """Send an exchange's request with retries, and return its reader's result.

        ``computes``: making the request takes much CPU time.
        """
        concurrency, make = self.concurrency, exchange.request
        retries = reconnects = 0
        failure: TensorRoundError | None = None
        while True:
            request = await concurrency.compute(make) if computes else make()
            try:
                attempt = partial(self._attempt, request, exchange, deadline)
                result = await concurrency.within(deadline, attempt)
            except TensorRoundError as error:
                if error.request_id is None:
                    error.request_id = request.id
                if failure is not None and isinstance(error, DeadlineExceeded):
                    error.restate(f"{error.detail}; the try before: {failure.detail}")
                failure = error
                pause = self._retries.reconnect_pause(error, reconnects, deadline)
                if pause is not None:
                    reconnects += 1
                else:
                    pause = self._retries.backoff(error, retries, deadline)
                    retries += 1
            else:
                self._retries.record_success(retries)
                return result
            self._record_retry(failure, pause)
            await concurrency.sleep(pause, deadline)

    def _record_retry(self, error: TensorRoundError, pause: float) -> None:
        """Called before each pause; traces record it."""

    async def _attempt(self, request: Request, exchange: Exchange[T], deadline: Deadline) -> T:
        """Send the request once, and return the result of the reader of its response."""
        response = await self.transport.send(request, deadline)
        try:
            reader = exchange.reader(response.status, response.fields)
            await response.receive(reader, deadline)
            return reader.finish()
        except TensorRoundError as error:
            if isinstance(error, NotFound):
                error.restate(f"{error.detail}{_where(self._url, request.path)}")
            if error.is_foreign:
                # Servers of TLS, this one's and nginx, answer HTTP without it so.
                is_plain = (
                    self._url.startswith("http:") and response.status == HTTPStatus.BAD_REQUEST
                )
                hint = "; the service may speak https://" if is_plain else ""
                where = f"no tensor-round service answers at {self._url}"
                error.restate(f"{where}: {error.detail}{hint}")
            raise
        finally:
            await response.close()


def _where(url: str, path: str) -> str:
    """Which path was not found, and where the URL should end, if its end is a service's path."""
    prefix = Address.parse(url).prefix
    last = prefix[prefix.rfind("/") :]
    hint = f"; the URL should end before {last}" if last in _PATHS else ""
    return f": {shown(prefix + path)}{hint}"


def _overlap_out_of_step(source: Array, target: Array) -> bool:
    """Whether the arrays share memory, but some element has different places in the two."""
    return np.may_share_memory(source, target) and not (
        source.ctypes.data == target.ctypes.data
        and source.strides == target.strides
        and source.dtype == target.dtype
    )
