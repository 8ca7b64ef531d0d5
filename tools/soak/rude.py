"""Callers who are slow, who leave, and who speak something else."""

from __future__ import annotations

import contextlib
import socket
import struct
import time

from support.http.native_form import ieee754

from .cases import Case, Wrong
from .lane import Lane

#: What the service is started with, so that there are many slow ones in a run.
RECEIVE_TIMEOUT = 1.0
OPTIONS = ("--receive-timeout", str(RECEIVE_TIMEOUT), "--max-tensor-bytes", "64MiB")
#: Seconds beyond it in which a slow caller must have been let go.
TOLERANCE = 4.0
#: Seconds beyond it after which nothing more is taken of who takes nothing.
STUCK_SECONDS = 3.0
#: On close, send a reset at once.
_RESET = struct.pack("ii", 1, 0)


def slow_sender(lane: Lane) -> None:
    """A head, or a body, byte by byte: 408, soon."""
    head = (
        "POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: 40000\r\n"
        f"Operator-Descriptor: {ieee754('float32', [10_000])}\r\n\r\n"
    ).encode()
    first = lane.chance.choice((len(b"POST /"), len(head), len(head) + 1000))
    began = time.monotonic()
    with contextlib.closing(lane.service.connect(timeout=0.05)) as plug:
        plug.sendall((head + bytes(1000))[:first])
        answer = b""
        while not answer and time.monotonic() - began < RECEIVE_TIMEOUT + TOLERANCE:
            with contextlib.suppress(TimeoutError):
                answer = plug.recv(1 << 16)
                break
            with contextlib.suppress(ConnectionError):
                plug.sendall(b"a")
    lane.ledger.answered(int(answer[9:12] or 0))
    if not answer.startswith(b"HTTP/1.1 408 "):
        raise Wrong(f"a slow sender got {answer[:200]!r}")


def slow_taker(lane: Lane) -> None:
    """An answer taken in small pieces, at a fair pace, comes whole."""
    case = Case.drawn(lane.chance, dtype="float32")
    received = bytearray()
    with contextlib.closing(lane.service.connect(timeout=10)) as plug:
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)
        plug.sendall(_head(case, "Connection: close\r\n") + case.payload)
        while piece := plug.recv(lane.chance.randrange(1, 256 << 10)):
            received += piece
            time.sleep(0.002)
    lane.ledger.answered(int(received[9:12] or 0))
    case.check(bytes(received).partition(b"\r\n\r\n")[2])


def stuck_taker(lane: Lane) -> None:
    """Who asks for much and takes nothing is cut off."""
    nbytes = 24 << 20
    head = (
        f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: {nbytes}\r\n"
        f"Operator-Descriptor: {ieee754('uint8', [nbytes])}\r\n\r\n"
    )
    with contextlib.closing(lane.service.connect(timeout=10)) as plug:
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)
        plug.sendall(head.encode() + bytes(nbytes))
        time.sleep(RECEIVE_TIMEOUT + STUCK_SECONDS)
        taken = 0
        with contextlib.suppress(ConnectionError):
            while piece := plug.recv(1 << 20):
                taken += len(piece)
    lane.ledger.answered(0)
    if taken >= nbytes:
        raise Wrong("who took nothing for seconds got its answer whole after all")


def leaver(lane: Lane) -> None:
    """Hangs up at any byte of a request or of its answer."""
    case = Case.drawn(lane.chance, dtype="float32")
    message = _head(case) + case.payload
    with contextlib.closing(lane.service.connect(timeout=10)) as plug:
        if lane.chance.random() < 0.7:
            plug.sendall(message[: lane.chance.randrange(len(message))])
        else:
            plug.sendall(message)
            plug.recv(lane.chance.randrange(1, len(message)))
        if lane.chance.random() < 0.5:
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def stranger(lane: Lane) -> None:
    """Bytes that are no HTTP: 400, and the end."""
    first = lane.chance.choice((b"\x16\x03\x01\x02\0", b"\0\0\0", b"HELO you\r\n", b"{}\r\n"))
    with contextlib.closing(lane.service.connect(timeout=10)) as plug:
        plug.sendall(first + lane.chance.randbytes(lane.chance.randrange(200)) + b"\r\n\r\n")
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := plug.recv(1 << 16):
                answer += piece
    lane.ledger.answered(int(answer[9:12] or 0))
    if not answer.startswith(b"HTTP/1.1 400 "):
        raise Wrong(f"what is no HTTP got {answer[:200]!r}")


def _head(case: Case, more: str = "") -> bytes:
    return (
        f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: {case.x.nbytes}\r\n{more}"
        f"Operator-Descriptor: {ieee754('float32', [case.x.size], case.rounding)}\r\n\r\n"
    ).encode()
