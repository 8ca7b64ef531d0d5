"""The readers of request heads and bodies, fed whole and in pieces.

They raise what the service responds to with 400, 415 or 431, and AssertionError where the
pieces say something else than the whole.
"""

from __future__ import annotations

from tensor_round.contract.errors import RequestRefused
from tensor_round_service.http1.head import MalformedRequest, split_head
from tensor_round_service.http1.receiving import BodyReceiver

#: Into so many pieces input is cut at the most: time grows with them.
_PIECES = 100
_CHUNKED = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


def read_head(data: bytes) -> None:
    """As the head of a request is read."""
    whole = _head(data)
    step = 1 + len(data) // _PIECES
    parts = (_head(data[:length]) for length in range(step, len(data), step))
    part = next((part for part in parts if part is not None), whole)
    assert _says(part) == _says(whole), f"{_says(part)} in pieces of {step}, not {_says(whole)}"
    if isinstance(whole, Exception):
        raise whole


def read_body(data: bytes) -> None:
    """As a body in chunks is read."""
    whole = _body(data, len(data), 64 << 10)
    piece = 1 + len(data) // _PIECES
    for size in (piece, piece + 2, 64 << 10):
        part = _body(data, piece, size)
        assert _says(part) == _says(whole), f"{part} in pieces of {piece}, not {whole}"
    if isinstance(whole, Exception):
        raise whole


def _says(read: object) -> object:
    """Which of two errors is raised may depend on the pieces."""
    return "refused" if isinstance(read, Exception) else read


def _head(received: bytes) -> object:
    """Where a head ends, and what it says; None if it is not whole, or the error."""
    try:
        found = split_head(received)
    except (MalformedRequest, RequestRefused) as error:
        return error
    if found is None:
        return None
    head, end = found
    return head.fault or (end, head.target, head.path, head.authority, head.length, head.fields)


def _body(data: bytes, piece: int, size: int) -> object:
    """A body in targets of that size, and what follows it if it is whole; or the error."""
    found = split_head(_CHUNKED)
    assert found is not None
    body = BodyReceiver(found[0], memoryview(data[:piece]))
    data = data[piece:]
    content = b""
    try:
        while not body.is_at_end:
            target = memoryview(bytearray(size))
            is_enough = body.fill(target)
            while not is_enough and data:
                is_enough = body.feed(memoryview(data[:piece]))
                data = data[piece:]
            content += target[: body.filled]
            if not is_enough:
                return content, None
    except (MalformedRequest, RequestRefused) as error:
        return error
    return content, bytes(body.unread) + data
