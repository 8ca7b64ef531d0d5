"""The image's HEALTHCHECK: exits with 0 if the service with these settings is ready."""

from __future__ import annotations

import os
import socket
import ssl
import sys
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException

_SECONDS = 2
#: The loopback address for a service that listens on all addresses.
_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


def main() -> int:
    """Check the service with the settings in the environment; return the exit code."""
    try:
        return 0 if is_ready(os.environ) else 1
    except (OSError, HTTPException) as error:
        print(f"no response: {error}", file=sys.stderr)
    except ValueError:
        print("no check: TENSOR_ROUND_PORT must be an integer", file=sys.stderr)
    return 1


def is_ready(environment: Mapping[str, str]) -> bool:
    """Request ``/readyz`` over the Unix socket or port in ``environment``, with TLS if set.

    Raises :class:`OSError` and :class:`http.client.HTTPException`.
    """
    # The host check allows localhost for every service.
    connection = HTTPConnection("localhost")
    with _with_tls(_connected(environment), environment) as connection.sock:
        connection.request("GET", "/readyz")
        with connection.getresponse() as response:
            return response.status == 200


def _connected(environment: Mapping[str, str]) -> socket.socket:
    if path := environment.get("TENSOR_ROUND_UDS"):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(_SECONDS)
        sock.connect(path)
        return sock
    port = int(environment.get("TENSOR_ROUND_PORT", "8000"))
    host = environment.get("TENSOR_ROUND_HOST", "127.0.0.1")
    return socket.create_connection((_LOOPBACK.get(host, host), port), _SECONDS)


def _with_tls(sock: socket.socket, environment: Mapping[str, str]) -> socket.socket:
    """Add TLS if the service has it, with the service's own certificate as the client's."""
    certificate = environment.get("TENSOR_ROUND_SSL_CERTFILE")
    if not certificate:
        return sock
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The certificate need not be for localhost.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if environment.get("TENSOR_ROUND_SSL_CA_CERTS"):
        context.load_cert_chain(certificate, environment.get("TENSOR_ROUND_SSL_KEYFILE"))
    return context.wrap_socket(sock)


if __name__ == "__main__":
    sys.exit(main())
