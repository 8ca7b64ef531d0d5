"""TLS: the service's certificate, client certificates, and timeouts."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Timeout of the TLS shutdown: for the rest of a response and the peer's close_notify.
SHUTDOWN_SECONDS = 5.0


class CertificateError(Exception):
    """A file in the TLS settings is unusable; the message names it and says why."""


def server_context(
    certfile: Path, keyfile: Path | None = None, ca_certs: Path | None = None
) -> ssl.SSLContext:
    """A context with TLS 1.2 and 1.3, and Python's cipher suites, which have forward secrecy.

    With ``ca_certs``, the handshake fails for clients without a certificate of one of these
    authorities. Raises :class:`CertificateError`.
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


def loop_with_tls_timeouts(
    new_loop: Callable[[], asyncio.AbstractEventLoop], handshake_seconds: float
) -> asyncio.AbstractEventLoop:
    """A new event loop whose TLS servers have short timeouts for handshake and shutdown.

    The defaults are 60 s and 30 s. Silent clients would use a connection that long without any
    protocol that could limit them, and would delay the end of the service.
    """
    loop = new_loop()

    def with_timeouts(create: Callable[..., Any]) -> Callable[..., Any]:
        def create_server(*arguments: Any, **options: Any) -> Any:
            if options.get("ssl") is not None:  # METRICS_PORT has no TLS
                options["ssl_handshake_timeout"] = handshake_seconds
                options["ssl_shutdown_timeout"] = SHUTDOWN_SECONDS
            return create(*arguments, **options)

        return create_server

    # uvicorn has no options for these arguments, so the methods of the loop are replaced.
    loop.create_server = with_timeouts(loop.create_server)  # type: ignore[method-assign]
    loop.create_unix_server = with_timeouts(loop.create_unix_server)  # type: ignore[method-assign]
    return loop


def _no_password() -> str:
    # Without a callback, OpenSSL would prompt on the terminal.
    raise ValueError("the key is encrypted; store it decrypted, readable for the service only")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "is not PEM").lower().replace("_", " ")
    return getattr(error, "strerror", None) or str(error)
