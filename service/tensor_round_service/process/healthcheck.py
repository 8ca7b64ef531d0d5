"""Exit 0 if the service on this host's settings is ready: the image's HEALTHCHECK."""

from __future__ import annotations

import os
import socket
import ssl
import sys
from http.client import HTTPConnection, HTTPException

_SECONDS = 2
#: Where a service on every address is reached.
_NEAR = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


def main() -> int:
    """Ask ``/readyz``, over the Unix socket or port, and by TLS where the environment says so."""
    try:
        # Whatever address it is reached at: this host is one that every service is for.
        connection = HTTPConnection("localhost")
        connection.sock = _secured(_connected())
        connection.request("GET", "/readyz")
        return 0 if connection.getresponse().status == 200 else 1
    except (OSError, HTTPException) as error:
        print(f"no answer: {error}", file=sys.stderr)
        return 1


def _connected() -> socket.socket:
    if path := os.environ.get("TENSOR_ROUND_UDS"):
        plug = socket.socket(socket.AF_UNIX)
        plug.settimeout(_SECONDS)
        plug.connect(path)
        return plug
    port = int(os.environ.get("TENSOR_ROUND_PORT", "8000"))
    host = os.environ.get("TENSOR_ROUND_HOST", "127.0.0.1")
    return socket.create_connection((_NEAR.get(host, host), port), _SECONDS)


def _secured(plug: socket.socket) -> socket.socket:
    """The connection under TLS, with the service's own certificate where callers need one."""
    certificate = os.environ.get("TENSOR_ROUND_SSL_CERTFILE")
    if not certificate:
        return plug
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Whether this host's own service has another name is not the question here.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if os.environ.get("TENSOR_ROUND_SSL_CA_CERTS"):
        context.load_cert_chain(certificate, os.environ.get("TENSOR_ROUND_SSL_KEYFILE"))
    return context.wrap_socket(plug)


if __name__ == "__main__":
    sys.exit(main())
