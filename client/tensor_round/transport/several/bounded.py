"""Work on one of several addresses in bounded time, so that the others have the rest of it."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ...errors import ConnectionFailed, DeadlineExceeded
from ...messages.request import document_reader, get_request
from ..address import Address
from ..concurrency import Concurrency
from ..deadline import Deadline
from ..interface import Transport
from ..streams import Opener, Stream

T = TypeVar("T")

#: The most seconds for a connection with TLS: a host that drops packets refuses nothing.
CONNECT_SECONDS = 2.0
#: The most seconds for a small document: a directory, or an address's readiness.
DOCUMENT_SECONDS = 1.0
#: The most of a call's remaining time.
_SHARE = 0.25


async def within(
    seconds: float,
    deadline: Deadline,
    concurrency: Concurrency,
    work: Callable[[Deadline], Coroutine[Any, Any, T]],
) -> T:
    """The result of work that may take so many seconds, and a quarter of the remaining time.

    Raises :class:`ConnectionFailed` if it takes longer, and the errors of the work.
    """
    left = deadline.remaining()
    limit = seconds if left is None else min(seconds, left * _SHARE)
    part = Deadline(limit)
    try:
        return await concurrency.within(part, lambda: work(part))
    except (DeadlineExceeded, TimeoutError) as error:
        deadline.remaining()
        raise ConnectionFailed(f"no answer within {limit:.2g} seconds") from error


def bounded(opener: Opener, concurrency: Concurrency) -> Opener:
    """The opener, which raises :class:`ConnectionFailed` after :data:`CONNECT_SECONDS`."""

    async def open_stream(
        address: Address, tls: ssl.SSLContext | None, deadline: Deadline
    ) -> Stream:
        async def connect(part: Deadline) -> Stream:
            return await opener(address, tls, part)

        return await within(CONNECT_SECONDS, deadline, concurrency, connect)

    return open_stream


async def get_document(transport: Transport, path: str, deadline: Deadline) -> dict[str, Any]:
    """The JSON object at a path, by one request; raises the errors of a transport's user."""
    response = await transport.send(get_request(path), deadline)
    try:
        reader = document_reader(response.status, response.fields)
        await response.receive(reader, deadline)
        return reader.finish()
    finally:
        await response.close()
