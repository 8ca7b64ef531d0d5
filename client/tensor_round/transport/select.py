"""Selects a client's transport: its own, for one address or several, the engine, or httpx2's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from ..errors import InvalidArgument
from ..messages.request import Headers
from .address import FLEET, LOCAL, Address
from .concurrency import Concurrency
from .concurrency.tasks import Tasks
from .concurrency.threads import Threads
from .connection import Connection
from .http_transport import HTTPTransport
from .interface import Transport
from .local_transport import LocalTransport
from .pools import AsyncPool, Pool
from .several.bounded import bounded
from .several.directory import Directory
from .several.transport import SeveralTransport
from .streams import Opener
from .streams.asynchronous import open_stream as open_async_stream
from .streams.blocking import open_stream as open_blocking_stream
from .tls import Cert, Verify, tls_context

if TYPE_CHECKING:
    import httpx2

# httpx2 is imported only where it is used: its import takes as long as NumPy's.


def blocking_transport(
    addresses: Sequence[Address],
    common: Headers,
    given: httpx2.BaseTransport | None,
    *,
    connections: int,
    verify: Verify,
    cert: Cert | None,
) -> Transport:
    """The synchronous client's transport: ``given``, or one for the addresses.

    ``common`` are the headers of all requests.
    """
    if given is not None:
        from .httpx2_transport import Httpx2Transport, Requests

        return Httpx2Transport(given, Requests(_only(addresses), common))
    if addresses[0].scheme == LOCAL:
        return LocalTransport(is_async=False)

    def connect(address: Address, opener: Opener) -> Transport:
        tls = context() if address.scheme == "https" else None
        pool = Pool(lambda: Connection(address, tls, opener), connections)
        return HTTPTransport(address, common, pool)

    context = cache(lambda: tls_context(verify, cert))
    return _spread(addresses, connect, open_blocking_stream, Threads())


def async_transport(
    addresses: Sequence[Address],
    common: Headers,
    given: httpx2.AsyncBaseTransport | None,
    *,
    connections: int,
    verify: Verify,
    cert: Cert | None,
) -> Transport:
    """The asynchronous client's transport; see :func:`blocking_transport`."""
    if given is not None:
        from .httpx2_transport import AsyncHttpx2Transport, Requests

        return AsyncHttpx2Transport(given, Requests(_only(addresses), common))
    if addresses[0].scheme == LOCAL:
        return LocalTransport(is_async=True)

    def connect(address: Address, opener: Opener) -> Transport:
        tls = context() if address.scheme == "https" else None
        pool = AsyncPool(lambda: Connection(address, tls, opener), connections)
        return HTTPTransport(address, common, pool)

    context = cache(lambda: tls_context(verify, cert))
    return _spread(addresses, connect, open_async_stream, Tasks())


def _spread(
    addresses: Sequence[Address],
    connect: Callable[[Address, Opener], Transport],
    opener: Opener,
    concurrency: Concurrency,
) -> Transport:
    """The transport of one address, or the one of several addresses."""
    first = addresses[0]
    if len(addresses) == 1 and first.scheme != FLEET:
        return connect(first, opener)
    opener = bounded(opener, concurrency)
    directory = None
    if first.scheme == FLEET:
        at = replace(first, scheme="http")
        directory, addresses = Directory(first.url, connect(at, opener)), ()
    return SeveralTransport(addresses, lambda a: connect(a, opener), concurrency, directory)


def _only(addresses: Sequence[Address]) -> Address:
    """The one address of a client with a transport of its caller's."""
    if len(addresses) > 1 or addresses[0].scheme in (FLEET, LOCAL):
        raise InvalidArgument("with a transport, url must be one http, https or unix URL")
    return addresses[0]
