"""The synchronous and the asynchronous client."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack

from ..contract.operators.operator import (
    CastOperator,
    LinearOperator,
    RoundOperator,
    as_cast,
    as_operator,
)
from ..contract.progress import ProgressCallback
from ..contract.rounding import Rounding, RoundingName
from ..transport.blocking import Threads, run
from .base import BaseClient
from .options import Arguments, Options, names_options

if TYPE_CHECKING:
    import httpx2

    from ..contract.differences.document import Differences
    from ..contract.dtypes import AnyDType
    from ..contract.operators.registry import OperatorWord
    from .execution import AnyDescriptor
    from .quantization import Quantization
    from .tensor_memory import Output


#: The type of an array argument, and of its result.
A = TypeVar("A")


class Client(BaseClient):
    """Rounds arrays through a service; threads may share it.

    ``url`` is ``http://``, ``https://``, ``unix://`` with a socket's path, or ``local:``. It
    defaults to the environment variable TENSOR_ROUND_URL, then to http://127.0.0.1:8000.
    ``api_key``, sent as a bearer token, defaults to TENSOR_ROUND_API_KEY. ``headers`` are added to
    every request.

    ``verify`` selects the trusted certificates: True for the system's, a file, a folder or an
    ``ssl.SSLContext``; False trusts all. ``cert`` is the client's certificate: a file, or a pair
    with its key.

    ``timeout`` limits a whole call in seconds, tiles and retries included; None means no limit.
    ``retries`` limits how often a request (each tile is one) is sent again after a connection
    error, a response cut short, 408, 429, 502, 503 or 504; it respects Retry-After. Once the
    service has answered, the client retries until ``timeout`` while connections are refused or a
    gateway answers 500, 502, 503 or 504, unless ``retries`` is 0.

    ``connections`` limits the tiles that are sent at once; arrays over ``tile_bytes`` bytes are cut
    into tiles. ``digest`` verifies payloads end to end by SHA-256 (RFC 9530). ``transport``, an
    ``httpx2.BaseTransport``, replaces ``verify`` and ``cert``, and is closed with the client.

    A copy has the same settings and new connections, as has a forked child. A pickle contains the
    API key. A client with a ``transport`` can be neither copied nor pickled.
    """

    @names_options
    def __init__(
        self,
        url: str | None = None,
        *,
        transport: httpx2.BaseTransport | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(Arguments.of(url, transport, options), Threads())

    def round(
        self,
        x: A,
        operator: RoundOperator | OperatorWord | RoundingName | Rounding | str | None = None,
        *,
        rounding: RoundingName | Rounding | None = None,
        out: A | None = None,
        progress: bool | ProgressCallback = False,
        decimals: Literal[0] = 0,
    ) -> A:
        """Round every element of ``x``; returns an array of the same type, dtype and shape.

        ``x`` is a NumPy, torch, CuPy, pandas, polars, xarray or dask array, a list, a tuple or a
        number, or exports ``__array_interface__``, the buffer protocol or CPU DLPack. A GPU array
        is rounded in GPU memory if the service is on the same host and has CUDA shared memory
        enabled; otherwise the client copies it, and logs that once.

        ``operator`` is an object, or one word: a direction of IEEE 754 (``ties_to_even``, the
        default, ``ties_to_away``, ``toward_zero``, ``toward_positive``, ``toward_negative``), or a
        dialect with its attributes, such as ``onnx:13``. ``rounding`` is a direction too; give one
        of the two.

        ``out``, of the same shape and dtype, is filled and returned. It may be ``x``: after an
        error its elements then have their old or new values, so you can repeat the call. Any other
        ``out`` is then undefined.

        ``progress`` is True for a bar on stderr, or a function of the bytes done and in total.
        ``decimals`` must be 0.

        Raises :class:`InvalidArgument`, and :class:`InvalidDescriptor` for a tensor that the
        operator does not accept, before anything is sent; :class:`ConnectionFailed`,
        :class:`DeadlineExceeded`, :class:`ProtocolViolation` and :class:`RequestRefused`.
        """
        by = as_operator(operator, rounding, decimals)
        if "dask" in sys.modules:
            from .lazy import by_blocks, is_lazy

            if is_lazy(x):
                lazy: A = by_blocks(partial(self.round, operator=by), x, by, out, progress)
                return lazy
        rounded: A = run(self._session.round(x, by, out, progress))
        return rounded

    def cast(
        self,
        x: Any,
        to: AnyDType | None = None,
        operator: CastOperator | RoundingName | Rounding | str | None = None,
        *,
        rounding: RoundingName | Rounding | None = None,
        saturate: bool | None = None,
        out: Any = None,
        progress: bool | ProgressCallback = False,
    ) -> Any:
        """Convert every element of ``x`` to the type ``to``; returns an array of that type.

        ``to`` is a name, as ``"float8_e4m3fn"``, or a dtype of NumPy, ml_dtypes or torch. Without
        an ``operator`` the elements are rounded as IEEE 754's convertFormat does, in the direction
        ``rounding``, ties to even by default, to integers too. With ``saturate`` a result beyond
        the range is the largest number, else infinity, or NaN in a type without infinities.

        ``operator`` is a dialect's, by whose rules the types are accepted and the elements rounded:
        an object, which has the target type, or one word, as ``onnx:24``, to which ``saturate`` can
        be added.

        The result has the form of ``x`` if that can have its type, and is else a NumPy array.
        ``out``, of the shape of ``x`` and the target type, is filled and returned; it may share
        memory with ``x``, and is undefined after an error. Forms of ``x``, ``progress`` and the
        errors are as for :meth:`round`.
        """
        by = as_cast(to, operator, rounding, saturate)
        if "dask" in sys.modules:
            from .lazy import by_blocks, is_lazy

            if is_lazy(x):
                return by_blocks(partial(self.cast, operator=by), x, by, out, progress)
        return run(self._session.round(x, by, out, progress))

    def quantize(
        self,
        x: Any,
        scale: Any = None,
        zero_point: Any = None,
        *,
        to: AnyDType | None = None,
        axis: int | None = None,
        block_size: int | None = None,
        saturate: bool | None = None,
        operator: LinearOperator | str = "onnx",
        out: Any = None,
        progress: bool | ProgressCallback = False,
    ) -> Any:
        """Quantize every element of ``x``: ``saturate(round(x / scale) + zero_point)``, as ONNX.

        ``scale`` and ``zero_point`` are arrays, or Python's numbers, alone or in lists. As a number
        or an array of one element they are for all of ``x``, as a vector for the indices of
        ``axis``, 1 by default, and with the dimensions of ``x`` for blocks of ``block_size``. A
        number beside an array is repeated. Python's numbers become of the types that the operator
        needs: a scale that of ``x``, or ``float32`` if that is no type of scales. Arrays must have
        such a type. A scale that is 0, negative, infinite or NaN is computed with as IEEE 754 says.

        ``to`` is by default the type of ``zero_point`` if that is an array, else ``int8``.
        ``saturate`` is for floats of 8 bits. ``operator`` is a dialect's: one word, as ``onnx:21``,
        or an object, which has its own attributes.

        A tensor over ``tile_bytes`` is cut in tiles, each with its scales: with one scale anywhere,
        else along its leading dimensions, between or within blocks. StableHLO's type has the
        scales: omit both; with several it is sent whole. The form of the result, ``out``,
        ``progress`` and the errors are as for :meth:`cast`; a dask array takes one scale.
        """
        from .quantization import quantizing  # at first use

        attributes = {"axis": axis, "block_size": block_size, "saturate": saturate}
        by = quantizing(scale, zero_point, to, operator, **attributes)
        return self._quantize(x, by, out, progress)

    def dequantize(
        self,
        x: Any,
        scale: Any = None,
        zero_point: Any = None,
        *,
        to: AnyDType | None = None,
        axis: int | None = None,
        block_size: int | None = None,
        operator: LinearOperator | str = "onnx",
        out: Any = None,
        progress: bool | ProgressCallback = False,
    ) -> Any:
        """Dequantize every element of ``x``: ``(x - zero_point) * scale``, rounded once to ``to``.

        ``to`` is a float type, by default ``float32``. Python's numbers become of the types that
        the operator needs: a scale that of the result, a zero point that of ``x``. The other
        arguments and the errors are as for :meth:`quantize`.
        """
        from .quantization import dequantizing  # at first use

        by = dequantizing(scale, zero_point, to, operator, axis=axis, block_size=block_size)
        return self._quantize(x, by, out, progress)

    def fake_quantize(
        self,
        x: Any,
        scale: Any,
        zero_point: Any = None,
        *,
        through: AnyDType | None = None,
        axis: int | None = None,
        block_size: int | None = None,
        operator: str = "onnx",
        out: Any = None,
        progress: bool | ProgressCallback = False,
    ) -> Any:
        """Quantize every element of ``x`` to the type ``through``, and dequantize it again.

        The result has the type of ``x``, or ``float32`` if that is an integer. ``local:`` computes
        it by one kernel; a service quantizes each tile and dequantizes it, by two requests. The
        arguments and the errors are as for :meth:`quantize`, ``through`` for ``to``.
        """
        from .quantization import faking  # at first use

        by = faking(scale, zero_point, through, operator, axis=axis, block_size=block_size)
        return self._quantize(x, by, out, progress)

    def _quantize(
        self, x: Any, by: Quantization, out: Any = None, progress: bool | ProgressCallback = False
    ) -> Any:
        if "dask" in sys.modules:
            from .lazy import by_blocks, is_lazy

            if is_lazy(x):
                parameters = by.parameters(str(x.dtype))
                method = partial(self._quantize, by=by)
                return by_blocks(method, x, by.operator, out, progress, parameters)
        return run(self._session.round(x, by.operator, out, progress, by.parameters))

    def compare(self, x: object, *, progress: bool | ProgressCallback = False) -> Differences:
        """Show where the dialects' operators, and the rounding directions, differ on ``x``.

        ``x``, in host memory, ``progress`` and the errors are as for :meth:`round`. Masked elements
        count too. ``tensor_round.compare`` needs no service, and can explain a second array.
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

        ``descriptor`` is an object such as :class:`OnnxDescriptor`, a mapping of the same fields,
        or JSON text. ``data`` is the input's buffer as bytes, or an array of its dtype and shape.
        An array with the input's strides is sent without a copy, the bytes between its elements
        included; any other is copied into the stated layout.

        ``out`` is a writable buffer of the output's length, or an array of its dtype and shape;
        the memory between an array's elements is not changed. ``out`` may be the input's memory if
        both layouts have the same strides and length; any other overlap is an error.

        A tensor over ``tile_bytes`` is sent in tiles if both layouts are the same, without gaps;
        any other must be within the service's limit.

        Raises :class:`MalformedJSON`, :class:`PayloadSizeMismatch` and the errors of :meth:`round`.
        ``progress``, and ``out`` after an error, are as for :meth:`round`.
        """
        return run(self._session.execute(descriptor, data, out, progress))

    def operators(self) -> dict[str, Any]:
        """The service's operators as JSON values: dialects, versions, modes, dtypes and limits."""
        return run(self._session.document("/operators"))

    def conformance(
        self,
        operator: Literal["round", "cast", "quantize", "dequantize"] = "round",
        *,
        dtype: AnyDType | None = None,
        to: AnyDType | None = None,
    ) -> dict[str, Any]:
        """The digests of the results for all patterns, by backend, as JSON values.

        With ``operator="cast"``, ``"quantize"`` or ``"dequantize"`` those of this operator, too,
        from the type ``dtype`` and to the type ``to``, by default all: a service without a GPU
        computes them in seconds, and once.
        """
        return run(self._session.conformance(operator, dtype, to))

    def ready(self) -> bool:
        """Whether the service is reachable and ready to serve."""
        return run(self._session.ready())

    def close(self) -> None:
        """Close every connection; later calls raise :class:`InvalidArgument`."""
        run(self._session.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncClient(BaseClient):
    """:class:`~tensor_round.Client` for asyncio: the same arguments, and the same calls, awaited.

    It belongs to one event loop. ``transport`` is an ``httpx2.AsyncBaseTransport``, such as
    ``httpx2.ASGITransport``.
    """

    @names_options
    def __init__(
        self,
        url: str | None = None,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
        **options: Unpack[Options],
    ) -> None:
        from ..transport.asynchronous import Tasks  # imports asyncio, which is slow

        super().__init__(Arguments.of(url, transport, options), Tasks())

    async def round(
        self,
        x: A,
        operator: RoundOperator | OperatorWord | RoundingName | Rounding | str | None = None,
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

    async def cast(
        self,
        x: Any,
        to: AnyDType | None = None,
        operator: CastOperator | RoundingName | Rounding | str | None = None,
        *,
        rounding: RoundingName | Rounding | None = None,
        saturate: bool | None = None,
        out: Any = None,
        progress: bool | ProgressCallback = False,
    ) -> Any:
        """Convert every element of ``x`` to the type ``to``; see :meth:`Client.cast`."""
        by = as_cast(to, operator, rounding, saturate)
        return await self._session.round(x, by, out, progress)

    async def quantize(
        self,
        x: Any,
        scale: Any = None,
        zero_point: Any = None,
        *,
        to: AnyDType | None = None,
        axis: int | None = None,
        block_size: int | None = None,
        saturate: bool | None = None,
        operator: LinearOperator | str = "onnx",
        out: Any = None,
        progress: bool | ProgressCallback = False,
    ) -> Any:
        """Quantize every element of ``x``; see :meth:`Client.quantize`."""
        from .quantization import quantizing  # at first use

        attributes = {"axis": axis, "block_size": block_size, "saturate": saturate}
        by = quantizing(scale, zero_point, to, operator, **attributes)
        return await self._session.round(x, by.operator, out, progress, by.parameters)

    async def dequantize(
        self,
        x: Any,
        scale: Any = None,
        zero_point: Any = None,
        *,
        to: AnyDType | None = None,
        axis: int | None = None,
        block_size: int | None = None,
        operator: LinearOperator | str = "onnx",
        out: Any = None,
        progress: bool | ProgressCallback = False,
    ) -> Any:
        """Dequantize every element of ``x``; see :meth:`Client.dequantize`."""
        from .quantization import dequantizing  # at first use

        by = dequantizing(scale, zero_point, to, operator, axis=axis, block_size=block_size)
        return await self._session.round(x, by.operator, out, progress, by.parameters)

    async def fake_quantize(
        self,
        x: Any,
        scale: Any,
        zero_point: Any = None,
        *,
        through: AnyDType | None = None,
        axis: int | None = None,
        block_size: int | None = None,
        operator: str = "onnx",
        out: Any = None,
        progress: bool | ProgressCallback = False,
    ) -> Any:
        """Quantize every element of ``x``, and dequantize it; see :meth:`Client.fake_quantize`."""
        from .quantization import faking  # at first use

        by = faking(scale, zero_point, through, operator, axis=axis, block_size=block_size)
        return await self._session.round(x, by.operator, out, progress, by.parameters)

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

    async def conformance(
        self,
        operator: Literal["round", "cast", "quantize", "dequantize"] = "round",
        *,
        dtype: AnyDType | None = None,
        to: AnyDType | None = None,
    ) -> dict[str, Any]:
        """The digests of the results for all patterns; see :meth:`Client.conformance`."""
        return await self._session.conformance(operator, dtype, to)

    async def ready(self) -> bool:
        """Whether the service is reachable and ready to serve."""
        return await self._session.ready()

    async def close(self) -> None:
        """Close every connection; later calls raise :class:`InvalidArgument`."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
