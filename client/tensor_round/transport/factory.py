"""Makes a client's transport: its own, the engine's, or httpx2's."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from ..contract.errors import InvalidArgument
from .address import LOCAL, Address
from .exchange import Headers
from .http import Connection, HTTPTransport, Transport, Waits

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
    address: Address,
    common: Headers,
    given: Any,  # an httpx2 transport of the client's kind, whose signature says so
    waits: Waits,
    *,
    connections: int,
    verify: Verify,
    cert: Cert | None,
) -> Transport:
    """A client's transport: ``given``, or one for the address.

    ``common`` are the headers of all requests.
    """
    if given is not None:
        if address.scheme == LOCAL:
            raise InvalidArgument("with a transport, url must be an http, https or unix URL")
        # Imported only here: the import of httpx2 takes as long as NumPy's.
        from .httpx2_transport import Httpx2Transport, Requests

        return Httpx2Transport(given, Requests(address, common), is_async=waits.is_async)
    if address.scheme == LOCAL:
        from .local_transport import LocalTransport

        return LocalTransport(is_async=waits.is_async)
    context = tls_context(verify, cert) if address.scheme == "https" else None
    pool = waits.make_pool(lambda: Connection(address, context, waits.open_stream), connections)
    return HTTPTransport(address, common, pool)
