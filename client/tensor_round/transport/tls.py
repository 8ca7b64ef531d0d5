"""The TLS context of a client: the certificates that it trusts, and its own."""

from __future__ import annotations

import ssl
from pathlib import Path

from ..contract.errors import InvalidArgument

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
