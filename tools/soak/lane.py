"""One caller of the service: its chances, its connections, its clients."""

from __future__ import annotations

import contextlib
import http.client
import random
import socket
import time
from collections.abc import Iterable, Mapping
from types import TracebackType

import tensor_round as tr
from support.clients import SteppedClient
from support.http.native_form import ieee754
from support.services.server import Reply, Service

from .cases import Case, Wrong
from .ledger import Ledger

#: Bytes of a tile of the clients that cut tensors.
TILE_BYTES = 192 << 10


class Lane:
    """A context manager that closes what it opened."""

    def __init__(self, service: Service, ledger: Ledger, chance: random.Random) -> None:
        self.service = service
        self.ledger = ledger
        self.chance = chance
        self._plain: http.client.HTTPConnection | None = None
        url = service.url
        self._clients = contextlib.ExitStack()
        open_client = self._clients.enter_context
        self.sync = open_client(tr.Client(url, retries=0))
        self.tiled = open_client(tr.Client(url, retries=0, tile_bytes=TILE_BYTES, digest=True))
        self.asynchronous = open_client(SteppedClient(url, retries=0))

    def ask(
        self,
        path: str,
        body: bytes | Iterable[bytes] | None,
        headers: Mapping[str, str],
        method: str = "POST",
        *,
        chunked: bool = False,
    ) -> Reply:
        """One request, on the connection that the last one left, or a fresh one."""
        if self._plain is None:
            self._plain = self.service.connection()
            # Else a body waits for the kernel's acknowledgement of its head, 40 ms.
            self._plain.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = self._plain
        # Refused early, a body is not taken to its end; the answer says why.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, path, body, dict(headers), encode_chunked=chunked)
        try:
            reply = Reply.read(connection)
        except (OSError, http.client.HTTPException):
            self.hang_up()
            raise
        self.ledger.answered(reply.status)
        if connection.sock is None:
            self.hang_up()
        return reply

    def hang_up(self) -> None:
        """Go on with a fresh connection."""
        if self._plain is not None:
            self._plain.close()
            self._plain = None

    def good(self, reply: Reply) -> Reply:
        """The reply, if it is one with a result; else :class:`Wrong`."""
        if reply.status != 200:
            raise Wrong(f"status {reply.status}: {reply.content[:300]!r}")
        return reply

    def check_service(self) -> None:
        """A sound request, as it comes after a bad one, must be served at once."""
        case = Case.drawn(self.chance, 4096, "float32")
        descriptor = ieee754("float32", [case.x.size], case.rounding)
        began = time.monotonic()
        reply = self.ask("/round", case.payload, {"Operator-Descriptor": descriptor})
        case.check(self.good(reply).content)
        self.ledger.took("after a bad one", time.monotonic() - began)

    def __enter__(self) -> Lane:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.hang_up()
        self._clients.close()
