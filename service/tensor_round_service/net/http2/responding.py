"""Requests on streams: the handler of HTTP/1.1's requests responds to them, too.

A request means the same in either version (RFC 9113, section 8). Streams of a protocol on HTTP/2,
such as gRPC, go to that protocol.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from functools import cache, lru_cache
from typing import Any, Protocol

from tensor_round.contract.errors import Draining

from ..bodies import ClientDisconnected
from ..head import Head, Header, MalformedRequest
from ..response import NOT_MODIFIED, FixedFields, Response
from ..server import FinishedExchange, ServerContext
from .fields import STATIC, encoded
from .serving import ServedStream

logger = logging.getLogger(__name__)

_STATUS = b":status"
_CONTENT_LENGTH = b"content-length"
#: Blocks of the fields that many responses share.
_CACHED_BLOCKS = 1024
#: The end of a body: no trailers.
_END = b""


class StreamProtocol(Protocol):
    """A protocol on HTTP/2 whose requests are its own."""

    def takes(self, head: Head) -> bool:
        """Whether a request with this head is one of the protocol."""

    def serve(self, stream: ServedStream) -> Coroutine[Any, Any, None]:
        """Respond to a stream."""


class StreamServer:
    """Serves the streams of a server's connections."""

    def __init__(self, server: ServerContext, protocols: Sequence[StreamProtocol]) -> None:
        self._server = server
        self._protocols = protocols
        #: The fields of every response, and their block.
        self._common: list[Header] = []
        self._common_block = b""

    def serve(self, stream: ServedStream) -> Coroutine[Any, Any, None]:
        """Respond to a stream, by its protocol if it has one."""
        for protocol in self._protocols:
            if protocol.takes(stream.head):
                return protocol.serve(stream)
        return self._respond(stream)

    async def _respond(self, stream: ServedStream) -> None:
        """Run the application on one request, and send its response or a refusal."""
        handler = self._server.handler
        if handler.traces:  # equal requests of a connection may share a head
            stream.head = stream.head.copy()
        head = stream.head
        response: Response | None = None
        refusal: Response | None = None
        is_sent = is_cancelled = False
        try:
            try:
                answer = response = await handler.respond(stream)
            except asyncio.CancelledError:  # the drain timeout has passed
                is_cancelled = True
                draining = Draining("the service stopped before the response", retry_after=1)
                answer = refusal = handler.refuse(head.path, draining, stream)
            is_sent = await self._send(stream, answer)
        except (ClientDisconnected, MalformedRequest):
            raise ClientDisconnected from None
        except Exception as error:  # the response or its head could not be created
            refusal, _ = handler.preallocated_response(head.path, error)
            is_sent = await self._send(stream, refusal)
        finally:
            if response is not None and response.owner is not None:
                # A thread may still use the memory of a request that was cancelled, and the kernel
                # that of an incomplete response.
                reusable = not is_cancelled and (is_sent or not stream.holds_memory)
                response.owner.end(reusable=reusable, is_sent=is_sent and not refusal)
            sent = (refusal or response) if is_sent else None
            if sent is None or sent.is_uncounted or handler.logs_access:
                client = None if stream.client is None else stream.client[0]
                handler.finished(FinishedExchange.of(stream, client, sent))

    async def _send(self, stream: ServedStream, response: Response) -> bool:
        """Send a response; return whether the peer has all of it."""
        server = self._server
        if self._common is not server.state.default_headers:
            self._common = server.state.default_headers
            self._common_block = encoded(*self._common)
        own = response.headers
        if response.status != NOT_MODIFIED:
            length = sum(map(len, response.parts))
            own = [*own, (_CONTENT_LENGTH, b"%d" % length)]
        block = b"".join(
            (
                _status(response.status),
                _fixed(response.fixed),
                self._common_block,
                encoded(*own),
            )
        )
        parts = () if stream.head.method == "HEAD" else response.parts
        if not any(map(len, parts)):
            parts = ()
        if stream.is_ended:
            return await stream.send(parts, _END, head=block)
        # Some clients take a reset within their upload for a failure, whatever came before it. So
        # they get the response, and then time to end the upload, as in HTTP/1.1.
        await stream.send(parts, head=block)
        limits = server.limits
        await stream.discard(limits.linger_bytes, limits.linger_seconds)
        return await stream.send((), _END)


@cache
def _status(status: int) -> bytes:
    """The block of a status: an index, if HPACK's table has it."""
    field = _STATUS, b"%d" % status
    return bytes((0x80 | STATIC.index(field),)) if field in STATIC else encoded(field)


@lru_cache(_CACHED_BLOCKS)
def _fixed(fields: FixedFields) -> bytes:
    return encoded(*fields.fields)
