"""The loopback's own times, the lower bound for any service: bytes sent and returned."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

#: The most bytes of one call on a socket.
_PIECE = 256 << 10


@contextlib.contextmanager
def echoing() -> Iterator[socket.socket]:
    """Yield a loopback connection to a thread that returns every byte."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        here = socket.create_connection(listener.getsockname())
        there, _ = listener.accept()
    for end in (here, there):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    thread = threading.Thread(target=_echo, args=(there,), daemon=True)
    thread.start()
    try:
        yield here
    finally:
        here.close()
        thread.join()


def round_trip(sock: socket.socket, source: memoryview, target: memoryview) -> None:
    """Send ``source`` to the other end, and receive as many bytes into ``target``."""
    sender = threading.Thread(target=sock.sendall, args=(source,))
    is_large = len(source) > _PIECE
    if is_large:
        sender.start()
    else:
        sock.sendall(source)
    got = 0
    while got < len(target):
        got += sock.recv_into(target[got:])
    if is_large:
        sender.join()


def _echo(sock: socket.socket) -> None:
    piece = memoryview(bytearray(_PIECE))
    with sock:
        while count := sock.recv_into(piece):
            sock.sendall(piece[:count])
