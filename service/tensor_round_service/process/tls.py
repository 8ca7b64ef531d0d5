"""TLS: the service's certificate, and whose certificates its callers must have."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

#: Seconds that a caller has to take the last of an answer and say goodbye in its turn.
FAREWELL_SECONDS = 5.0


class CertificateError(Exception):
    """A file of the TLS settings cannot be used; says which and why."""


def server_context(
    certfile: Path, keyfile: Path | None = None, ca_certs: Path | None = None
) -> ssl.SSLContext:
    """TLS 1.2 and 1.3 with Python's ciphers, which are forward secret all.

    With ``ca_certs`` a caller without a certificate of one of these authorities does not
    get past the handshake. Raises :class:`CertificateError`.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certfile, keyfile, password=_no_password)
    except (OSError, ValueError) as error:
        name = certfile if keyfile is None else f"{certfile} and {keyfile}"
        raise CertificateError(f"no certificate and key in {name}: {_reason(error)}") from None
    if ca_certs is not None:
        try:
            context.load_verify_locations(cafile=ca_certs)
        except OSError as error:
            raise CertificateError(f"no certificates in {ca_certs}: {_reason(error)}") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def timed_loop(
    new_loop: Callable[[], asyncio.AbstractEventLoop], handshake_seconds: float
) -> asyncio.AbstractEventLoop:
    """An event loop whose TLS servers do not wait for a silent caller.

    The defaults are 60 s for the handshake, before which no protocol sees the connection,
    and 30 s for the end: as long as a stopping service would be held up by an idle caller.
    """
    loop = new_loop()
    times: dict[str, Any] = {
        "ssl_handshake_timeout": handshake_seconds,
        "ssl_shutdown_timeout": FAREWELL_SECONDS,
    }
    # uvicorn passes neither on, and a loop has no other place to say it.
    loop.create_server = partial(loop.create_server, **times)  # type: ignore[method-assign]
    loop.create_unix_server = partial(loop.create_unix_server, **times)  # type: ignore[method-assign]
    return loop


def _no_password() -> str:
    # Without this OpenSSL would ask the terminal, and a service has none.
    raise ValueError("the key is encrypted; give it decrypted, in a file only the service can read")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "must be there as PEM").lower().replace("_", " ")
    return getattr(error, "strerror", None) or str(error)
