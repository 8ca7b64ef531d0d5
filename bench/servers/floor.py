"""The floor: what a Python process can do at best between two system calls. No HTTP.

A connection begins with eight bytes, the length of every tensor that follows on it; a
tensor of float32 is received into one reused buffer, rounded there and sent back.
"""

from __future__ import annotations

import selectors
import socket
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass

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


@dataclass(slots=True)
class Sender:
    """One of many connections, and how much of its tensor has come."""

    connection: socket.socket
    tensor: np.ndarray[tuple[int], np.dtype[np.float32]]
    memory: memoryview
    filled: int = 0


def serve_many(listener: socket.socket) -> None:
    """One thread and epoll, any number of connections; responses are sent blocking."""
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.data is None:
                if sender := greet(listener):
                    selector.register(sender.connection, selectors.EVENT_READ, sender)
                continue
            sender = key.data
            try:
                serve_some(sender)
            except ConnectionError:
                selector.unregister(sender.connection)
                sender.connection.close()


def greet(listener: socket.socket) -> Sender | None:
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    start = connection.recv(LENGTH.size, socket.MSG_WAITALL)
    if len(start) < LENGTH.size:
        return None
    (nbytes,) = LENGTH.unpack(start)
    tensor = np.empty(nbytes // 4, np.float32)
    return Sender(connection, tensor, tensor.data.cast("B"))


def serve_some(sender: Sender) -> None:
    """Receive what is there of a tensor; send it back rounded once it is complete."""
    count = sender.connection.recv_into(sender.memory[sender.filled :])
    if not count:
        raise ConnectionResetError
    sender.filled += count
    if sender.filled == len(sender.memory):
        np.rint(sender.tensor, out=sender.tensor)
        sender.connection.sendall(sender.memory)
        sender.filled = 0


if __name__ == "__main__":
    how, port = sys.argv[1:]
    with socket.create_server(("127.0.0.1", int(port)), backlog=1024) as listening:
        {"one": serve_one_by_one, "many": serve_many}[how](listening)
