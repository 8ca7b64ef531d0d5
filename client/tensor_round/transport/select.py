"""Selects a client's transport: its own, the engine in this process, or an httpx2 transport."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import InvalidArgument
from ..messages.request import Headers
from .address import LOCAL, Address
from .connection import Connection
from .http_transport import HTTPTransport
from .interface import Transport
from .local_transport import LocalTransport
from .pools import AsyncPool, Pool
from .streams.asynchronous import open_stream as open_async_stream
from .streams.blocking import open_stream as open_blocking_stream
from .tls import Cert, Verify, tls_context

if TYPE_CHECKING:
    import httpx2

# httpx2 is imported only where it is used: its import takes as long as NumPy's.


def blocking_transport(
    address: Address,
    common: Headers,
    given: httpx2.BaseTransport | None,
    *,
    connections: int,
    verify: Verify,
    cert: Cert | None,
) -> Transport:
    """The synchronous client's transport: ``given``, or one for the address.

    ``common`` are the headers of all requests.
    """
    if address.scheme == LOCAL:
        return _local_transport(given, is_async=False)
    if given is not None:
        from .httpx2_transport import Httpx2Transport, Requests

        return Httpx2Transport(given, Requests(address, common))
    tls = tls_context(verify, cert) if address.scheme == "https" else None
    pool = Pool(lambda: Connection(address, tls, open_blocking_stream), connections)
    return HTTPTransport(address, common, pool)


def async_transport(
    address: Address,
    common: Headers,
    given: httpx2.AsyncBaseTransport | None,
    *,
    connections: int,
    verify: Verify,
    cert: Cert | None,
) -> Transport:
    """The asynchronous client's transport; see :func:`blocking_transport`."""
    if address.scheme == LOCAL:
        return _local_transport(given, is_async=True)
    if given is not None:
        from .httpx2_transport import AsyncHttpx2Transport, Requests

        return AsyncHttpx2Transport(given, Requests(address, common))
    tls = tls_context(verify, cert) if address.scheme == "https" else None
    pool = AsyncPool(lambda: Connection(address, tls, open_async_stream), connections)
    return HTTPTransport(address, common, pool)


def _local_transport(given: object, *, is_async: bool) -> Transport:
    if given is not None:
        raise InvalidArgument("local: sends nothing, so it accepts no transport")
    return LocalTransport(is_async=is_async)
