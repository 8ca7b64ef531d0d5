"""The synchronous client."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ..messages.differences import Differences
from ..names import RoundingName
from ..operators.objects import RoundOperator, as_operator
from ..progress import ProgressCallback
from ..rounding import Rounding
from ..transport.address import Address
from ..transport.concurrency import run
from ..transport.concurrency.threads import Threads
from ..transport.select import blocking_transport
from ..transport.tls import Cert, Verify
from .common_headers import headers_from
from .configured import Configured
from .execution import AnyDescriptor
from .output import Output
from .session import Session
from .settings import Settings, with_environment

if TYPE_CHECKING:
    import httpx2

#: Any array; what comes back is of its kind.
A = TypeVar("A")


class Client(Configured):
    """Rounds arrays through a service; safe to share between threads.

    ``url`` is ``http://``, ``https://`` or ``unix://`` with a socket's path, or ``local:``
    for the service's engine in this process, and defaults to the environment's
    TENSOR_ROUND_URL; ``api_key`` to TENSOR_ROUND_API_KEY.

    ``verify`` is whether, or by which certificates (a file, a folder or an
    ``ssl.SSLContext``), the service's certificate is checked; ``cert`` is the client's
    own, one file or a pair with its key.

    ``timeout`` is the seconds a call may take in all, tiles and retries included; None
    is for ever. ``retries`` is how often a request, or a tile, is sent again when the
    connection fails, the answer is cut short, or the service is busy (429, 502, 503,
    504; its Retry-After is kept to). ``connections`` is how many there are at most, and
    so how many tiles travel at once. ``tile_bytes`` is above which arrays are cut.

    ``digest`` has every byte verified end to end by SHA-256 (RFC 9530). ``headers`` go
    with every request. ``transport`` is an ``httpx2.BaseTransport`` to use instead of the
    client's own, for a proxy, say; it is closed with the client, and certificates and
    connections are its own affair.

    In a child that was forked off, the client opens connections of its own. A copy, or what is
    unpickled, is a new client of the same settings: a pickle holds the API key. With a
    ``transport`` there is neither.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        verify: Verify = True,
        cert: Cert | None = None,
        timeout: float | None = 30.0,
        retries: int = 3,
        connections: int = 4,
        tile_bytes: int = 64 << 20,
        headers: Mapping[str, str] | None = None,
        transport: httpx2.BaseTransport | None = None,
        digest: bool = False,
    ) -> None:
        where, key = with_environment(url, api_key)
        self._settings = Settings(
            where,
            key,
            verify,
            cert,
            timeout,
            retries,
            connections,
            tile_bytes,
            headers,
            transport,
            digest,
        )
        chosen = blocking_transport(
            Address.parse(where),
            headers_from(key, headers),
            verify=verify,
            cert=cert,
            connections=connections,
            foreign=transport,
        )
        self._session = Session(chosen, Threads(), self._settings)

    def round(
        self,
        x: A,
        operator: RoundOperator | RoundingName | Rounding | None = None,
        *,
        rounding: RoundingName | Rounding | None = None,
        out: A | None = None,
        progress: bool | ProgressCallback = False,
    ) -> A:
        """Round every element of ``x``, and return an array of the same kind, dtype and shape.

        ``x`` is a NumPy array, a torch tensor, a CuPy array, or anything that exports
        ``__array_interface__``, the buffer protocol or CPU DLPack. Arrays on a GPU stay there
        where the service is on the same host and has CUDA shared memory on; else they are
        copied, which the log says once. A masked array keeps its mask.

        ``operator`` is an operator object or an IEEE 754 rounding direction: ``ties_to_even``
        (which is meant where neither is given), ``ties_to_away``, ``toward_zero``,
        ``toward_positive``, ``toward_negative``. ``rounding`` is the direction by its own name;
        give one of the two.

        ``out``, of the same shape and dtype, is filled and returned; it may be ``x``.
        After an error, elements of ``x`` itself are old or new ones, never torn, and
        rounding them again is right; another array's content is undefined then.

        ``progress`` shows a bar on stderr, or is called with bytes done and bytes in all.

        Raises :class:`InvalidDescriptor` for a tensor that the operator does not take,
        before anything is sent, :class:`InvalidArgument`, :class:`ConnectionFailed`,
        :class:`DeadlineExceeded`, :class:`ProtocolViolation`, and the other refusals
        under :class:`RequestRefused`.
        """
        rounded: A = run(self._session.round(x, as_operator(operator, rounding), out, progress))
        return rounded

    def compare(self, x: object, *, progress: bool | ProgressCallback = False) -> Differences:
        """Where the dialects' operators, and the rounding directions, differ on ``x``.

        ``x`` is an array in main memory as :meth:`round` takes it; elements under a mask count
        too. Counts are by pair of directions and by class of elements, with the first elements of
        each. Arrays over ``tile_bytes`` travel in tiles. ``progress`` is as in :meth:`round`.
        :func:`tensor_round.compare` does the same without a service, and tells what turned one
        array into another.

        Raises as :meth:`round` does.
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
        """Execute an operator descriptor as it is, with every layout that it states.

        ``descriptor`` is any dialect's model, such as :class:`OnnxDescriptor`, a mapping of the
        same fields, or JSON text. ``data`` is the bytes that lie as its input says, or an array
        of its input's dtype and shape; one that has the strides too is sent from where it lies,
        with what is between its elements, any other is laid out as stated.

        ``out`` is writable bytes of the output's length, or an array of its dtype and shape,
        between whose elements nothing is touched. It may be the input's own memory, where both
        layouts have the same strides and length; any other overlap is refused, as DirectML does.
        After an error it is as :meth:`round` leaves it. A refused call changes nothing.

        A tensor over ``tile_bytes`` travels in tiles if input and output lie alike without
        gaps; all others go whole, and the service's limit is theirs. ``progress`` is as in
        :meth:`round`.

        Raises :class:`InvalidDescriptor`, :class:`MalformedJSON`,
        :class:`PayloadSizeMismatch` and :class:`InvalidArgument` before anything is sent,
        and what :meth:`round` raises.
        """
        return run(self._session.execute(descriptor, data, out, progress))

    def operators(self) -> dict[str, Any]:
        """What the service takes: dialects, versions, modes, dtypes and limits."""
        return run(self._session.document("/operators"))

    def conformance(self) -> dict[str, Any]:
        """The service's proof of exactness: digests of its results for all bit patterns."""
        return run(self._session.document("/conformance"))

    def ready(self) -> bool:
        """Whether the service can be reached and would serve now."""
        return run(self._session.ready())

    def close(self) -> None:
        """Close every connection; calls after it raise :class:`InvalidArgument`."""
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
