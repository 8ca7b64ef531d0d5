"""The synchronous and the asynchronous client."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack

from ..contract.errors import InvalidArgument
from ..contract.operators.operator import RoundOperator, as_operator
from ..contract.progress import ProgressCallback
from ..contract.rounding import Rounding, RoundingName
from ..transport.address import LOCAL, Address
from ..transport.blocking import BLOCKING
from ..transport.concurrency import run
from ..transport.http import Connection, HTTPTransport, Transport, Waits
from ..transport.tls import tls_context
from .options import Arguments, Options, headers_from, names_options
from .session import Session

if TYPE_CHECKING:
    import httpx2

    from ..contract.differences.document import Differences
    from ..contract.operators.registry import OperatorWord
    from .execution import AnyDescriptor
    from .tensors import Output


class BaseClient:
    """What both clients have: their arguments and their session. Copies are new clients."""

    def __init__(self, arguments: Arguments, waits: Waits) -> None:
        """Make the session; nothing is connected yet."""
        transport = _transport(arguments, waits)
        self._arguments = arguments
        make_session = Session
        if "opentelemetry.trace" in sys.modules:
            from .tracing import TracedSession as make_session
        self._session = make_session(transport, waits.concurrency, arguments)

    def __repr__(self) -> str:
        state = "closed" if self._session.is_closed else "open"
        return f"<tensor_round.{type(self).__name__} {self._arguments.url} {state}>"

    def __copy__(self) -> Self:
        make: Callable[..., Any] = type(self)
        copy: Self = make(self._arguments.url, **self._arguments.copied_options())
        return copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        make: Callable[..., Any] = type(self)
        options = self._arguments.copied_options(may_leave_process=True)
        return partial(make, **options), (self._arguments.url,)


def _transport(arguments: Arguments, waits: Waits) -> Transport:
    """The caller's transport, the engine's, or the client's own."""
    options, address = arguments.options, Address.parse(arguments.url)
    common = headers_from(options["api_key"], options["headers"])
    if arguments.transport is not None:
        if address.scheme == LOCAL:
            raise InvalidArgument("with a transport, url must be an http, https or unix URL")
        # Imported only here: the import of httpx2 takes as long as NumPy's.
        from ..transport.httpx2_transport import Httpx2Transport

        return Httpx2Transport(arguments.transport, address, common, is_async=waits.is_async)
    if address.scheme == LOCAL:
        from ..transport.local_transport import LocalTransport

        return LocalTransport(is_async=waits.is_async)
    tls = tls_context(options["verify"], options["cert"]) if address.scheme == "https" else None
    pool = waits.make_pool(
        lambda: Connection(address, tls, waits.open_stream), options["connections"]
    )
    return HTTPTransport(address, common, pool)


#: The type of an array argument, and of its result.
A = TypeVar("A")


class Client(BaseClient):
    """Rounds arrays through a service; threads may share it.

    ``url`` is ``http://``, ``https://``, ``unix://`` with a socket's path, or ``local:`` for the
    service's engine in this process. It defaults to the environment variable TENSOR_ROUND_URL, and
    without it to http://127.0.0.1:8000; ``api_key`` defaults to TENSOR_ROUND_API_KEY.

    ``verify`` selects the trusted certificates: True for the system's, a file, a folder or an
    ``ssl.SSLContext``; False turns verification off. ``cert`` is the client's own certificate: a
    file, or a pair with its key.

    ``timeout`` limits a whole call in seconds, tiles and retries included; None means no limit.
    ``retries`` is the number of times that a request (each tile is one) is sent again after a
    connection error, a response cut short, or a busy service (408, 429, 502, 503, 504; its
    Retry-After is respected). After a first answer, the client waits for a service that refuses
    connections, or whose gateway answers 500, 502, 503 or 504, for as long as ``timeout`` allows,
    unless ``retries`` is 0. ``connections`` limits the connections, and so the tiles that
    are sent at once. Arrays of more than ``tile_bytes`` bytes are cut into tiles.

    ``digest`` verifies every payload end to end by SHA-256 (RFC 9530). ``headers`` are added to
    every request. ``transport`` is an ``httpx2.BaseTransport`` to use in place of the client's
    own, for a proxy, say. It is closed with the client; ``verify``, ``cert`` and ``connections``
    have no effect on it.

    In a forked child the client opens new connections. A copied or unpickled client is a
    new client with the same settings; a pickle contains the API key. A client with a
    ``transport`` can be neither copied nor pickled.
    """

    @names_options
    def __init__(
        self,
        url: str | None = None,
        *,
        transport: httpx2.BaseTransport | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(Arguments.of(url, transport, options), BLOCKING)

    def round(
        self,
        x: A,
        operator: RoundOperator | OperatorWord | RoundingName | Rounding | None = None,
        *,
        rounding: RoundingName | Rounding | None = None,
        out: A | None = None,
        progress: bool | ProgressCallback = False,
        decimals: Literal[0] = 0,
    ) -> A:
        """Round every element of ``x``; returns an array of the same type, dtype and shape.

        ``x`` is a NumPy array, a torch tensor, a CuPy array, a pandas Series or DataFrame of one
        dtype, a polars Series, an array of xarray, a list, a tuple or a number, or an object that
        exports ``__array_interface__``, the buffer protocol or CPU DLPack. A masked array keeps its
        mask, a Series its index and name, an array of xarray its coordinates. A dask array stays
        lazy: its blocks are rounded when they are computed.
        A GPU array is rounded in GPU memory if the service is on the same host and has CUDA shared
        memory enabled. Otherwise it is copied through host memory, and the client logs that once.

        ``operator`` is an operator object, or one word: an IEEE 754 rounding direction
        (``ties_to_even``, the default, ``ties_to_away``, ``toward_zero``, ``toward_positive`` or
        ``toward_negative``), or a dialect with its operator's attributes, such as ``onnx:13`` or
        ``directml:TOWARD_INFINITY``. ``rounding`` is a direction too; give one of the two.

        ``out``, of the same shape and dtype, is filled and returned; it may be ``x``. After an
        error each element of an ``out`` that is ``x`` has its old or its new value, so the call
        can be repeated. The content of any other ``out`` is then undefined.

        ``progress`` is True for a bar on stderr, or a function that is called with the bytes done
        and the bytes in total. ``decimals`` must be 0: rounding is to integers.

        Raises :class:`InvalidDescriptor` for a tensor that the operator does not accept, before
        anything is sent; :class:`InvalidArgument`, :class:`ConnectionFailed`,
        :class:`DeadlineExceeded`, :class:`ProtocolViolation`, and the other subclasses of
        :class:`RequestRefused`.
        """
        by = as_operator(operator, rounding, decimals)
        if "dask" in sys.modules:
            from .lazy import is_lazy, round_lazily

            if is_lazy(x):
                lazy: A = round_lazily(self.round, x, by, out, progress)
                return lazy
        rounded: A = run(self._session.round(x, by, out, progress))
        return rounded

    def compare(self, x: object, *, progress: bool | ProgressCallback = False) -> Differences:
        """Show where the dialects' operators, and the rounding directions, differ on ``x``.

        ``x`` is an array in host memory, as for :meth:`round`; masked elements count too. The
        result has the number of differing elements, and the first of them, for each pair of
        directions and class of elements. Arrays over ``tile_bytes`` are sent in tiles.
        ``progress`` is as in :meth:`round`. :func:`tensor_round.compare` does the same without a
        service, and can also explain the difference of two arrays.

        Raises the errors of :meth:`round`.
        """
        return run(self._session.compare(x, progress))

    def execute(
        self,
        descriptor: AnyDescriptor,
        data: object,
        *,
        out: object = None,
        progress: bool | ProgressCallback = False,
    ) -> Output:
        """Execute an operator descriptor, with the layouts that it states.

        ``descriptor`` is a model of any dialect, such as :class:`OnnxDescriptor`, a mapping of the
        same fields, or JSON text. ``data`` is the input's buffer as bytes, or an array of its dtype
        and shape. An array with the input's strides is sent without a copy, the bytes between its
        elements included; any other is copied into the stated layout.

        ``out`` is a writable buffer of the output's length, or an array of its dtype and shape;
        the memory between an array's elements is not changed. ``out`` may be the input's memory if
        both layouts have the same strides and length. Any other overlap is refused, as in
        DirectML. Its state after an error is as for :meth:`round`. A refused call changes nothing.

        A tensor over ``tile_bytes`` is sent in tiles if input and output have the same layout
        without gaps. Any other tensor is sent whole, and must be within the service's limit.
        ``progress`` is as in :meth:`round`.

        Raises :class:`InvalidDescriptor`, :class:`MalformedJSON`,
        :class:`PayloadSizeMismatch` and :class:`InvalidArgument` before anything is sent, and the
        errors of :meth:`round`.
        """
        return run(self._session.execute(descriptor, data, out, progress))

    def operators(self) -> dict[str, Any]:
        """The service's operators as JSON values: dialects, versions, modes, dtypes and limits."""
        return run(self._session.document("/operators"))

    def conformance(self) -> dict[str, Any]:
        """The digests of the service's results for all patterns, by backend, as JSON values."""
        return run(self._session.document("/conformance"))

    def ready(self) -> bool:
        """Whether the service is reachable and ready to serve."""
        return run(self._session.ready())

    def close(self) -> None:
        """Close every connection; later calls raise :class:`InvalidArgument`."""
        run(self._session.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClient(BaseClient):
    """:class:`~tensor_round.Client` for asyncio: the same arguments, and the same calls, awaited.

    ``transport`` is an ``httpx2.AsyncBaseTransport``; ``httpx2.ASGITransport`` calls an ASGI
    application in this process. A client belongs to one event loop.
    """

    @names_options
    def __init__(
        self,
        url: str | None = None,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
        **options: Unpack[Options],
    ) -> None:
        from ..transport.asynchronous import ASYNCHRONOUS  # imports asyncio, which is slow

        super().__init__(Arguments.of(url, transport, options), ASYNCHRONOUS)

    async def round(
        self,
        x: A,
        operator: RoundOperator | OperatorWord | RoundingName | Rounding | None = None,
        *,
        rounding: RoundingName | Rounding | None = None,
        out: A | None = None,
        progress: bool | ProgressCallback = False,
        decimals: Literal[0] = 0,
    ) -> A:
        """Round every element of ``x``; see :meth:`Client.round`."""
        by = as_operator(operator, rounding, decimals)
        rounded: A = await self._session.round(x, by, out, progress)
        return rounded

    async def compare(self, x: object, *, progress: bool | ProgressCallback = False) -> Differences:
        """Where operators and directions differ on ``x``; see :meth:`Client.compare`."""
        return await self._session.compare(x, progress)

    async def execute(
        self,
        descriptor: AnyDescriptor,
        data: object,
        *,
        out: object = None,
        progress: bool | ProgressCallback = False,
    ) -> Output:
        """Execute an operator descriptor; see :meth:`Client.execute`."""
        return await self._session.execute(descriptor, data, out, progress)

    async def operators(self) -> dict[str, Any]:
        """The service's operators as JSON values: dialects, versions, modes, dtypes and limits."""
        return await self._session.document("/operators")

    async def conformance(self) -> dict[str, Any]:
        """The digests of the service's results for all patterns, by backend, as JSON values."""
        return await self._session.document("/conformance")

    async def ready(self) -> bool:
        """Whether the service is reachable and ready to serve."""
        return await self._session.ready()

    async def close(self) -> None:
        """Close every connection; later calls raise :class:`InvalidArgument`."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
