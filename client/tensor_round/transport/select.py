"""Which transport a client gets: its own, or the one it was given."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from ..errors import InvalidArgument
from ..messages.request import Headers
from .address import LOCAL, Address
from .connection import Connection
from .local import LocalTransport
from .own import OwnTransport
from .pools import AsyncPool, Pool
from .tls import Cert, Verify, tls_context
from .transports import Transport
from .wires.asynchronous import open_wire as open_async_wire
from .wires.blocking import open_wire as open_blocking_wire

if TYPE_CHECKING:
    import httpx2

# httpx2 is imported only where it is used: it takes as long to import as NumPy.


def blocking_transport(
    address: Address,
    common: Headers,
    *,
    verify: Verify,
    cert: Cert | None,
    connections: int,
    foreign: httpx2.BaseTransport | None,
) -> Transport:
    """What the synchronous client sends by; ``common`` are the headers of all its requests."""
    if address.scheme == LOCAL:
        return _local(foreign, is_async=False)
    if foreign is not None:
        from .foreign import ForeignTransport, Requests

        return ForeignTransport(foreign, Requests(address, common))
    tls = _tls(address, verify, cert)
    pool = Pool(lambda: Connection(address, tls, open_blocking_wire), connections)
    return OwnTransport(address, common, pool)


def async_transport(
    address: Address,
    common: Headers,
    *,
    verify: Verify,
    cert: Cert | None,
    connections: int,
    foreign: httpx2.AsyncBaseTransport | None,
) -> Transport:
    """What the asynchronous client sends by; ``common`` are the headers of all its requests."""
    if address.scheme == LOCAL:
        return _local(foreign, is_async=True)
    if foreign is not None:
        from .foreign import AsyncForeignTransport, Requests

        return AsyncForeignTransport(foreign, Requests(address, common))
    tls = _tls(address, verify, cert)
    pool = AsyncPool(lambda: Connection(address, tls, open_async_wire), connections)
    return OwnTransport(address, common, pool)


def _local(foreign: object, *, is_async: bool) -> Transport:
    if foreign is not None:
        raise InvalidArgument("local: sends nothing, and takes no transport")
    return LocalTransport(is_async=is_async)


def _tls(address: Address, verify: Verify, cert: Cert | None) -> ssl.SSLContext | None:
    return tls_context(verify, cert) if address.scheme == "https" else None
