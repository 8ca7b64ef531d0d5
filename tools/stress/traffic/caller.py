"""One caller of the service: its random numbers, its connection, its clients."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, suppress
from types import TracebackType

import tensor_round as tr
from http_requests.draw import Source
from http_requests.message import Request
from http_requests.reader import ResponseReader
from http_requests.valid import small
from support.clients import SteppedClient
from support.services.server import Service

from .record import Record

#: Bytes of a tile of the client that cuts tensors.
TILE_BYTES = 192 << 10


class Caller:
    """A context manager that closes what it opened."""

    def __init__(self, service: Service, record: Record, source: Source) -> None:
        self.service = service
        self.record = record
        self.source = source
        self._sock: socket.socket | None = None
        url = service.url
        self._clients = ExitStack()
        open_client = self._clients.enter_context
        self.sync = open_client(tr.Client(url, retries=0))
        self.tiled = open_client(tr.Client(url, retries=0, tile_bytes=TILE_BYTES, digest=True))
        self.asynchronous = open_client(SteppedClient(url, retries=0))

    def exchange(self, request: Request) -> None:
        """Send a request on the kept connection or a new one; raise if its response is wrong."""
        if self._sock is None:
            self._sock = self.service.connect()
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = ResponseReader([request])
        # Refused early, a body is not received to its end; the response says why.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._sock.sendall(request.wire)
        try:
            while not reader.statuses:
                if not (data := self._sock.recv(1 << 18)):
                    raise ConnectionError(f"the connection ended before {reader.missing()}")
                reader.feed(data)
        except BaseException:
            self.disconnect()
            raise
        self.record.responded(reader.statuses[0])
        if reader.closed:
            self.disconnect()

    def disconnect(self) -> None:
        """Go on with a new connection."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def check_service(self) -> None:
        """A valid request, as it comes after a bad one, must be served at once."""
        began = time.monotonic()
        self.exchange(small(self.source))
        self.record.took("after a bad one", time.monotonic() - began)

    def __enter__(self) -> Caller:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.disconnect()
        self._clients.close()
