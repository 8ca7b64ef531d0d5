r"""The service under TLS, and the certificates of tests/support/services/certificates.

The certificates are for tests alone, and valid for a century; nothing in them is secret. Made by::

    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 \
        -subj "/CN=tensor-round tests" -addext "keyUsage=critical,keyCertSign,cRLSign" \
        -keyout ca.key -out ca.pem
    printf 'authorityKeyIdentifier=keyid\nsubjectAltName=DNS:localhost\n' > extensions
    for name in server client; do
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$name" \
            -keyout key.pem -out request.pem
        openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -days 36500 \
            -extfile extensions -out cert.pem
        cat cert.pem key.pem > $name.pem
    done

    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 \
        -subj "/CN=stranger" -addext "subjectAltName=DNS:localhost" -keyout key.pem -out cert.pem
    cat cert.pem key.pem > stranger.pem
    openssl pkcs8 -topk8 -in key.pem -passout pass:secret | cat cert.pem - > encrypted.pem
    # expired.pem, likewise, by openssl ca -selfsign with -startdate and -enddate

The CA's key was thrown away.
"""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

from support.services.server import Service

_FOLDER = Path(__file__).parent / "certificates"
#: Of one authority; each but the first has its key with it.
CA, SERVER, CLIENT = (_FOLDER / f"{name}.pem" for name in ("ca", "server", "client"))
#: Of nobody but itself; and the same with its key encrypted.
STRANGER, ENCRYPTED = (_FOLDER / f"{name}.pem" for name in ("stranger", "encrypted"))
#: Valid on the first day of 2020.
EXPIRED = _FOLDER / "expired.pem"


def caller_context(certificate: Path | None = None) -> ssl.SSLContext:
    """What a caller trusts, and who it is."""
    context = ssl.create_default_context(cafile=CA)
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


class TlsService(Service):
    """The service with a certificate; ``caller`` is how tests connect to it."""

    def __init__(
        self, *options: str, certificate: Path = SERVER, caller: ssl.SSLContext | None = None
    ) -> None:
        super().__init__("--ssl-certfile", str(certificate), *options)
        self.caller = caller or caller_context()

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def connect(self, timeout: float = 60) -> socket.socket:
        plug = super().connect(timeout)
        if plug.family != socket.AF_UNIX:
            plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.caller.wrap_socket(plug, server_hostname="localhost")
