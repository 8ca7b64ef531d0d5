"""The common part of all tensor routes: jobs, request content and digests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

from tensor_round.contract.wire import http_fields

from ..engine.engine import ON_A_THREAD, Engine
from ..engine.job import Job, Observer
from ..net.bodies import ByteSource
from ..net.codings import (
    DECODING_BYTES,
    Decoded,
    Runner,
    Verified,
    decoder_for,
    digest_of,
    run_inline,
)
from ..net.head import Head
from ..net.request import Request
from ..net.response import Response, field_name

DESCRIPTOR = field_name(http_fields.OPERATOR_DESCRIPTOR)
_CONTENT_ENCODING = field_name(http_fields.CONTENT_ENCODING)
_CONTENT_DIGEST = field_name(http_fields.CONTENT_DIGEST)
_WANT_CONTENT_DIGEST = field_name(http_fields.WANT_CONTENT_DIGEST)
#: The content of a request without these fields is its body.
CODED = frozenset({_CONTENT_DIGEST, _CONTENT_ENCODING})

#: Reads a request and returns the response; raises refusals.
Handler = Callable[[Request, Job], Awaitable[Response]]


class TensorRoute:
    """A route: a handler, the jobs of its requests, and the digests of its responses."""

    def __init__(self, handler: Handler, engine: Engine) -> None:
        self._handler = handler
        self._engine = engine

    async def __call__(self, request: Request, observer: Observer | None) -> Response:
        """Return the response to a request; it owns the job's memory until it is sent.

        ``observer`` observes the job's end.
        """
        job = Job(self._engine.memory, request)
        try:
            response = await self._handler(request, job)
            if _WANT_CONTENT_DIGEST in request.head.values:
                await self._state_digest(request.head, response, job)
        except asyncio.CancelledError:
            # The server stops. A thread may still use the buffers, so they are not pooled.
            job.end(reusable=False)
            raise
        except BaseException:
            job.end(reusable=True)
            raise
        response.owner = job
        job.observer = observer
        job.route, job.request_bytes = request.head.path, request.received
        job.request_began = request.began
        job.response_bytes = sum(map(len, response.parts))
        job.sending_since = time.perf_counter()
        return response

    async def _state_digest(self, head: Head, response: Response, job: Job) -> None:
        """Add the digest of the content (RFC 9530) if the request asks for one."""
        algorithm = http_fields.wanted_digest([text(head, _WANT_CONTENT_DIGEST)])
        if algorithm is not None:
            parts = response.parts
            nbytes = sum(map(len, parts))
            digest = await self._engine.run_slowly(
                partial(digest_of, algorithm, parts), nbytes, job
            )
            response.headers.append(
                (_CONTENT_DIGEST, http_fields.content_digest(algorithm, digest).encode())
            )


def content_of(
    request: Request, job: Job, engine: Engine | None = None
) -> tuple[ByteSource, int | None]:
    """The content of a request, verified and decoded, and its length in bytes.

    The length is None if it is unknown: the body is chunked or encoded. Without an engine, all of
    it is decoded on the event loop. Raises :class:`DigestMismatch` for a malformed Content-Digest,
    :class:`UnsupportedEncoding`, and :class:`Overloaded` if there is no memory for decoding.
    """
    head = request.head
    source: ByteSource = request
    length = head.length
    if _CONTENT_DIGEST in head.values:
        stated = http_fields.parse_content_digest([text(head, _CONTENT_DIGEST)])
        if stated:
            source = Verified(source, stated, runner_for(engine, job))
    if _CONTENT_ENCODING in head.values:
        decoder = decoder_for(text(head, _CONTENT_ENCODING))
        if decoder is not None:
            job.reserve(DECODING_BYTES)
            source, length = Decoded(source, decoder, runner_for(engine, job)), None
    return source, length


def runner_for(engine: Engine | None, job: Job) -> Runner:
    """How work of a job runs: on threads for slow work, or without an engine on the event loop."""
    if engine is None:
        return run_inline
    return partial(engine.run_slowly, cost=ON_A_THREAD, job=job)


def text(head: Head, name: bytes) -> str:
    """The value of a field; empty if it is missing."""
    return head.values.get(name, b"").decode("latin-1")
