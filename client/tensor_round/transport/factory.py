"""Makes a client's transport: its own, for one address or several, the engine's, or httpx2's."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ..contract.errors import InvalidArgument
from .address import FLEETS, LOCAL, Address, is_spread
from .exchange import Headers
from .http import Connection, HTTPTransport, Transport, Waits, bounded

#: As in httpx and requests: True, False, a file or folder of certificates, or a context.
Verify = bool | str | Path | ssl.SSLContext
#: A file with certificate and key, or a tuple of their two files and perhaps the key's password.
Cert = str | Path | tuple[str | Path, str | Path] | tuple[str | Path, str | Path, str]


def tls_context(verify: Verify, cert: Cert | None) -> ssl.SSLContext:
    """The context that verifies the service's certificate and presents the client's.

    Raises :class:`InvalidArgument` if a file cannot be read.
    """
    import httpx2  # only here: its import takes as long as NumPy's

    given: object = verify
    try:
        if isinstance(verify, bool):
            context = httpx2.create_ssl_context(verify)
        elif isinstance(verify, ssl.SSLContext):
            context = verify
        elif Path(verify).is_dir():
            context = ssl.create_default_context(capath=verify)
        else:
            context = ssl.create_default_context(cafile=verify)
        given = cert[:2] if isinstance(cert, tuple) else cert
        if isinstance(cert, tuple):
            context.load_cert_chain(*cert)
        elif cert is not None:
            context.load_cert_chain(cert)
    except OSError as error:
        files = map(str, given if isinstance(given, tuple) else (given,))
        raise InvalidArgument(
            f"verify or cert cannot be used: {' and '.join(files)}: {error.strerror or error}"
        ) from error
    return context


def client_transport(
    addresses: Sequence[Address],
    common: Headers,
    given: Any,  # an httpx2 transport of the client's kind, whose signature says so
    waits: Waits,
    *,
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
        from .httpx2_transport import Httpx2Transport, Requests

        return Httpx2Transport(given, Requests(first, common), is_async=waits.is_async)
    if first.scheme == LOCAL:
        from .local_transport import LocalTransport

        return LocalTransport(is_async=waits.is_async)
    opener, concurrency = waits.open_stream, waits.concurrency
    if has_several:
        opener = bounded(opener, concurrency)
    tls = cache(lambda: tls_context(verify, cert))

    def connect(address: Address) -> Transport:
        context = tls() if address.scheme == "https" else None
        pool = waits.make_pool(lambda: Connection(address, context, opener), connections)
        return HTTPTransport(address, common, pool)

    if not has_several:
        return connect(first)
    from .several import Directory, SeveralTransport

    if first.scheme in FLEETS:
        # A caller's own headers may be secrets as the API key is.
        has_secrets = any(name != b"User-Agent" for name, _ in common)
        read_by = connect(replace(first, scheme=FLEETS[first.scheme]))
        directory = Directory(first, read_by, has_secrets=has_secrets)
        return SeveralTransport([], connect, concurrency, directory)
    return SeveralTransport(addresses, connect, concurrency)
