"""TLS: the service's certificate, and whose certificates its callers must have."""

from __future__ import annotations

import ssl
from pathlib import Path


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


def _no_password() -> str:
    # Without this OpenSSL would ask the terminal, and a service has none.
    raise ValueError("the key is encrypted; give it decrypted, in a file only the service can read")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not PEM").lower().replace("_", " ")
    return getattr(error, "strerror", None) or str(error)
