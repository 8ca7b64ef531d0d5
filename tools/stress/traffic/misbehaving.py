"""Clients that are slow, that disconnect, and that speak no HTTP."""

from __future__ import annotations

import contextlib
import socket
import time

from fuzz.mixes.sockets import RESET
from support.cases.drawn_tensors import DrawnTensor, WrongResult
from support.http.native_form import ieee754

from .caller import Caller

#: Of the service, so that many slow clients fit into a run.
RECEIVE_TIMEOUT = 1.0
OPTIONS = ("--receive-timeout", str(RECEIVE_TIMEOUT), "--max-tensor-bytes", "64MiB")
#: Seconds beyond it in which a slow sender must have its response.
TOLERANCE = 4.0
#: Seconds beyond it in which a client that reads nothing must have been cut off.
STOPPED_SECONDS = 3.0
_NO_HTTP = (b"\x16\x03\x01\x02\0", b"\0\0\0", b"HELO you\r\n", b"{}\r\n")


def slow_sender(caller: Caller) -> None:
    """A head, or a body, byte by byte: 408, soon."""
    head = _head("float32", 40_000)
    first = caller.source.choice((len(b"POST /"), len(head), len(head) + 1000))
    began = time.monotonic()
    with contextlib.closing(caller.service.connect(timeout=0.05)) as sock:
        sock.sendall((head + bytes(1000))[:first])
        response = b""
        while not response and time.monotonic() - began < RECEIVE_TIMEOUT + TOLERANCE:
            with contextlib.suppress(TimeoutError):
                response = sock.recv(1 << 16)
                break
            with contextlib.suppress(ConnectionError):
                sock.sendall(b"a")
    _expect(caller, response, 408)


def slow_reader(caller: Caller) -> None:
    """A response read in small pieces, at a fair rate, comes complete."""
    tensor = _drawn(caller)
    received = bytearray()
    with contextlib.closing(caller.service.connect(timeout=10)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)
        sock.sendall(_request(tensor, "Connection: close\r\n"))
        while piece := sock.recv(caller.source.randrange(1, 256 << 10)):
            received += piece
            time.sleep(0.002)
    caller.record.responded(int(received[9:12] or 0))
    tensor.check(bytes(received).partition(b"\r\n\r\n")[2])


def stopped_reader(caller: Caller) -> None:
    """A client that requests much and reads nothing is cut off."""
    nbytes = 24 << 20
    with contextlib.closing(caller.service.connect(timeout=10)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)
        sock.sendall(_head("uint8", nbytes) + bytes(nbytes))
        time.sleep(RECEIVE_TIMEOUT + STOPPED_SECONDS)
        received = len(_read_all(sock))
    caller.record.responded(0)
    if received >= nbytes:
        raise WrongResult("a client that read nothing for seconds got its complete response")


def disconnecting(caller: Caller) -> None:
    """Disconnects at any byte of a request or of its response."""
    message = _request(_drawn(caller))
    with contextlib.closing(caller.service.connect(timeout=10)) as sock:
        if caller.source.random() < 0.7:
            sock.sendall(message[: caller.source.randrange(len(message))])
        else:
            sock.sendall(message)
            sock.recv(caller.source.randrange(1, len(message)))
        if caller.source.random() < 0.5:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def no_http(caller: Caller) -> None:
    """Bytes that are no HTTP: 400, and the end."""
    more = caller.source.randbytes(caller.source.randrange(200))
    with contextlib.closing(caller.service.connect(timeout=10)) as sock:
        sock.sendall(caller.source.choice(_NO_HTTP) + more + b"\r\n\r\n")
        response = _read_all(sock)
    _expect(caller, response, 400)


def _expect(caller: Caller, response: bytes, status: int) -> None:
    caller.record.responded(int(response[9:12] or 0))
    if not response.startswith(b"HTTP/1.1 %d " % status):
        raise WrongResult(f"not {status}: {response[:200]!r}")


def _read_all(sock: socket.socket) -> bytes:
    received = bytearray()
    with contextlib.suppress(ConnectionError):
        while piece := sock.recv(1 << 20):
            received += piece
    return bytes(received)


def _drawn(caller: Caller) -> DrawnTensor:
    return DrawnTensor.drawn(caller.source, caller.source.max_bytes, "float32")


def _request(tensor: DrawnTensor, more: str = "") -> bytes:
    return _head("float32", tensor.x.nbytes, tensor.rounding, more) + tensor.payload


def _head(dtype: str, nbytes: int, rounding: str = "ties_to_even", more: str = "") -> bytes:
    shape = [nbytes // (1 if dtype == "uint8" else 4)]
    return (
        f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: {nbytes}\r\n{more}"
        f"Operator-Descriptor: {ieee754(dtype, shape, rounding)}\r\n\r\n"
    ).encode()
