"""Answers on their way out: heads as bytes, large bodies from where they lie in memory.

A transport pauses its protocol here as soon as a byte waits, and lets it go on when none
does: only then may the memory that the byte lay in be another request's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from .direct import Header, Parts

if TYPE_CHECKING:
    from .http_protocol import DirectHttpProtocol

#: What of an answer TLS gets to encrypt at a time.
TLS_PIECE_BYTES = 64 << 10


def head_bytes(status: int, headers: Sequence[Header], *, close: bool) -> bytes:
    """An answer's head as it goes over the wire."""
    lines = [STATUS_LINE[status]]
    for name, value in headers:
        lines += (name, b": ", value, b"\r\n")
    lines.append(b"connection: close\r\n\r\n" if close else b"\r\n")
    return b"".join(lines)


def is_encrypted(transport: asyncio.BaseTransport) -> bool:
    """Whether TLS lies between the transport and the socket."""
    return transport.get_extra_info("ssl_object") is not None


def pause_when_anything_waits(transport: asyncio.WriteTransport) -> None:
    """Set a transport's limits as all here rely on them."""
    # With a limit of 0 TLS would wait for ever to be emptier than empty.
    transport.set_write_buffer_limits(high=1 if is_encrypted(transport) else 0, low=0)


async def write_through(protocol: DirectHttpProtocol, parts: Parts) -> None:
    """Write; on return no byte waits in memory that the next request may be given."""
    if is_encrypted(protocol.transport):
        await _encrypt_through(protocol, parts)
    else:
        _write_together(protocol.transport, parts)
        if protocol.flow.write_paused:
            await protocol.flow.drain()


async def _encrypt_through(protocol: DirectHttpProtocol, parts: Parts) -> None:
    """Write a little at a time, as TLS encrypts at once all that it is given.

    What it has encrypted goes to a transport of its own, whose buffer nobody can look
    into: so it gets the next piece only when the last has gone on from there.
    """
    taker = protocol.taker
    taker.ahead = sum(map(len, parts))
    try:
        for part in parts:
            for begin in range(0, len(part), TLS_PIECE_BYTES):
                piece = part[begin : begin + TLS_PIECE_BYTES]
                taker.ahead -= len(piece)
                protocol.transport.write(piece)
                await protocol.flow.drain()
                if protocol.is_lost:
                    return
    finally:
        taker.ahead = 0
        taker.release()


def _write_together(transport: Any, parts: Parts) -> None:
    """Write with one system call where that takes no copy: each may wake who reads."""
    if type(transport).writelines is asyncio.WriteTransport.writelines:  # it joins them
        for part in parts:
            transport.write(part)
    else:
        transport.writelines(parts)
