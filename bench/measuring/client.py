"""The client that all servers are measured with: one socket, no library, no copy.

A request lies in one piece of memory, head before body; a response is received into
memory that is already there. What is left is what any client has to do.
"""

from __future__ import annotations

import re
import socket
import ssl
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
#: A port of 127.0.0.1, or the path of a Unix socket.
Address: TypeAlias = int | str

#: Room for the head of a request, and of a response.
HEAD_BYTES = 8 << 10
_LENGTH = re.compile(rb"\n[Cc]ontent-[Ll]ength: *(\d+)")


class Refused(Exception):
    """The server has no such route, or would not take the request."""


class Arena:
    """Memory for the largest request and response of a run, used for all of them."""

    def __init__(self, nbytes: int) -> None:
        self._request = np.empty(HEAD_BYTES + nbytes, np.uint8)
        generator = np.random.default_rng(1)
        values = generator.normal(scale=1000, size=min(nbytes // 4, 1 << 20)).astype(np.float32)
        # np.resize would repeat it too, over a copy of the whole.
        payload = self._request[HEAD_BYTES:].view(np.float32)
        for start in range(0, payload.size, values.size):
            piece = payload[start : start + values.size]
            piece[:] = values[: piece.size]
        self.response = bytearray(nbytes + HEAD_BYTES)

    def tensor(self, nbytes: int) -> npt.NDArray[np.float32]:
        """The payload of that many bytes."""
        return self._request[HEAD_BYTES:][:nbytes].view(np.float32)

    def request(self, head: bytes, nbytes: int) -> memoryview:
        """A request in one piece; it stands until the next one is asked for."""
        start = HEAD_BYTES - len(head)
        self._request[start:HEAD_BYTES] = np.frombuffer(head, np.uint8)
        return memoryview(self._request.data)[start : HEAD_BYTES + nbytes]


class Connection:
    """One connection, with TLS or without; responses are received into the arena."""

    def __init__(self, address: Address, arena: Arena, tls: ssl.SSLContext | None = None) -> None:
        self._socket = connected(address)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname="localhost")
        # A timeout makes every call a poll and a call.
        self._socket.settimeout(None)
        self._response = arena.response
        self._memory = memoryview(arena.response)

    def send(self, request: memoryview | bytes) -> None:
        self._socket.sendall(request)

    def receive(self, nbytes: int) -> memoryview:
        """A response of that many bytes, without a head."""
        self._receive(0, nbytes)
        return self._memory[:nbytes]

    def exchange(self, request: memoryview | bytes) -> memoryview:
        """Send a request; the body of the response. Raises :class:`Refused`."""
        self._socket.sendall(request)
        got = self._socket.recv_into(self._memory)
        while (end := self._response.find(b"\r\n\r\n", 0, got)) < 0:
            got += self._receive_some(got)
        start = end + 4
        length = _LENGTH.search(self._response, 0, start)
        if length is None or not self._response.startswith(b"HTTP/1.1 200"):
            raise Refused(bytes(self._memory[: self._response.find(b"\r\n")]).decode("latin-1"))
        end = start + int(length[1])
        if got < end:
            self._receive(got, end)
        return self._memory[start:end]

    def _receive(self, got: int, end: int) -> None:
        while got < end:
            got += self._receive_some(got, end)

    def _receive_some(self, got: int, end: int | None = None) -> int:
        count = self._socket.recv_into(self._memory[got:end])
        if not count:
            raise ConnectionError("the server hung up")
        return count

    def close(self) -> None:
        self._socket.close()


def connected(address: Address) -> socket.socket:
    """A socket that is connected, within a minute."""
    if isinstance(address, str):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(60)
        sock.connect(address)
        return sock
    sock = socket.create_connection(("127.0.0.1", address), 60)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock
