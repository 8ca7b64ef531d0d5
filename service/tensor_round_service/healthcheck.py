"""Exit 0 if the service on this host's settings is ready: the image's HEALTHCHECK."""

from __future__ import annotations

import os
import socket
import sys
from http.client import HTTPConnection


def main() -> int:
    """Ask ``/readyz``, over the Unix socket or port that the environment names."""
    connection = HTTPConnection("127.0.0.1", int(os.environ.get("TENSOR_ROUND_PORT", "8000")), 2)
    if path := os.environ.get("TENSOR_ROUND_UDS"):
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(path)
    try:
        connection.request("GET", "/readyz")
        return 0 if connection.getresponse().status == 200 else 1
    except OSError as error:
        print(f"no answer: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
