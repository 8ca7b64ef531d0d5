"""The floor: what a Python process can do at best between two system calls. No HTTP.

A connection begins with eight bytes, the length of every tensor that follows on it; a
tensor of float32 is received into one reused buffer, rounded there and sent back.
"""

from __future__ import annotations

import socket
import struct
import sys
from contextlib import suppress

import numpy as np

LENGTH = struct.Struct("<Q")


def serve_one_by_one(listener: socket.socket) -> None:
    """Blocking calls only, one connection after the other: the least there can be to do."""
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            start = connection.recv(LENGTH.size, socket.MSG_WAITALL)
            if len(start) == LENGTH.size:
                with suppress(ConnectionError):
                    serve(connection, LENGTH.unpack(start)[0])


def serve(connection: socket.socket, nbytes: int) -> None:
    """Every tensor of one connection."""
    tensor = np.empty(nbytes // 4, np.float32)
    memory = tensor.data.cast("B")
    while receive_whole(connection, memory):
        np.rint(tensor, out=tensor)
        connection.sendall(memory)


def receive_whole(connection: socket.socket, memory: memoryview) -> bool:
    """Fill the memory; False if the sender hung up."""
    filled = connection.recv_into(memory)
    while 0 < filled < len(memory):
        count = connection.recv_into(memory[filled:])
        if not count:
            return False
        filled += count
    return filled > 0


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listening:
        serve_one_by_one(listening)
