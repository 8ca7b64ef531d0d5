"""Selects a client's transport: its own, for one address or several, the engine, or httpx2's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from ..contract.errors import InvalidArgument
from ..messages.request import Headers
from .address import FLEET, LOCAL, Address, is_spread
from .concurrency import Concurrency
from .connection import Connection
from .http_transport import HTTPTransport
from .interface import Transport
from .local_transport import LocalTransport
from .pools import AsyncPool, Pool
from .several.directory import Directory
from .several.transport import SeveralTransport
from .streams import Opener, bounded
from .streams.asynchronous import open_stream as open_async_stream
from .streams.blocking import open_stream as open_blocking_stream
from .tls import Cert, Verify, tls_context


def client_transport(
    addresses: Sequence[Address],
    common: Headers,
    given: Any,  # an httpx2 transport of the client's kind, whose signature says so
    concurrency: Concurrency,
    *,
    is_async: bool,
    connections: int,
    verify: Verify,
    cert: Cert | None,
) -> Transport:
    """A client's transport: ``given``, or one for the addresses.

    ``common`` are the headers of all requests.
    """
    first, has_several = addresses[0], is_spread(addresses)
    if given is not None:
        if has_several or first.scheme == LOCAL:
            raise InvalidArgument("with a transport, url must be one http, https or unix URL")
        # Imported only here: the import of httpx2 takes as long as NumPy's.
        from .httpx2_transport import AsyncHttpx2Transport, Httpx2Transport, Requests

        adapter = AsyncHttpx2Transport if is_async else Httpx2Transport
        return adapter(given, Requests(first, common))
    if first.scheme == LOCAL:
        return LocalTransport(is_async=is_async)
    opener: Opener = open_async_stream if is_async else open_blocking_stream
    if has_several:
        opener = bounded(opener, concurrency)
    tls = cache(lambda: tls_context(verify, cert))

    def connect(address: Address) -> Transport:
        context = tls() if address.scheme == "https" else None
        make_pool = AsyncPool if is_async else Pool
        pool = make_pool(lambda: Connection(address, context, opener), connections)
        return HTTPTransport(address, common, pool)

    if not has_several:
        return connect(first)
    if first.scheme == FLEET:
        directory = Directory(first.url, connect(replace(first, scheme="http")))
        return SeveralTransport([], connect, concurrency, directory)
    return SeveralTransport(addresses, connect, concurrency)
