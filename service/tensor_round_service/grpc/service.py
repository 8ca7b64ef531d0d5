"""gRPC: checks each call, has its method answer it, and says what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Protocol

from tensor_round.contract.errors import (
    Draining,
    HeadersTooLarge,
    NotOffered,
    RequestRefused,
    UnsupportedMediaType,
)
from tensor_round.contract.quoting import shown

from ..access_log import Entry, log
from ..auth.api_keys import Authenticator
from ..auth.origins import HostCheck
from ..content.sources import ClientDisconnected
from ..engine.job import Job, Observer
from ..engine.memory import Memory
from ..engine.threads import CallerGone
from ..failures import refusal_for
from ..http1.head import traceparent_of
from ..http1.response import request_id_field
from ..http2.fields import encoded
from ..http2.serving import ServedStream
from ..metrics.recorder import ABANDONED, Metrics
from .call import Call, Method
from .deadlines import seconds_of
from .status import Status, outcome, status_of

_CONTENT_TYPE = b"application/grpc"
#: What a call takes of the budget while its request is not whole: its stream and its task.
_WAITING_BYTES = 8 << 10
#: ``:status: 200`` of HPACK's table, and the type of every response.
_OPENING = b"\x88" + encoded((b"content-type", _CONTENT_TYPE))


class CallSpan(Protocol):
    """The span of a call."""

    def observing(self, observer: Observer) -> Observer:
        """Return the observer of the call's jobs, which tells the other one, too."""

    def end(self, status: Status | None, code: str) -> None:
        """Note the end of the call; ``status`` is None if the caller has left before."""


class Service:
    """The handler of all streams. ``methods`` are by their paths."""

    def __init__(
        self,
        methods: Mapping[str, Method],
        memory: Memory,
        check_host: HostCheck | None,
        authenticator: Authenticator | None,
        metrics: Metrics,
        *,
        logs_access: bool,
    ) -> None:
        self._methods = methods
        self._memory = memory
        self._check_host = check_host
        self._authenticator = authenticator
        self._metrics = metrics
        self._logs_access = logs_access
        #: Begins the span of a call; None if there are no traces.
        self.begin_span: Callable[[ServedStream], CallSpan] | None = None

    async def serve(self, stream: ServedStream) -> None:
        """Respond to a stream; errors become statuses."""
        began = perf_counter()
        request_id = request_id_field(stream.head)
        call = Call(stream, _OPENING + encoded(request_id), self._metrics)
        span = None if self.begin_span is None else self.begin_span(stream)
        if span is not None:
            call.observer = span.observing(call.observer)
        job = Job(self._memory, stream)
        refusal: RequestRefused | None = None
        is_sent, is_cancelled = False, False
        timer: asyncio.TimerHandle | None = None
        try:
            try:
                method = self._checked(stream)
                if (timeout := stream.head.values.get(b"grpc-timeout")) is not None:
                    loop = asyncio.get_running_loop()
                    timer = loop.call_later(seconds_of(timeout), stream.expire)
                if not stream.is_ended:
                    job.reserve(_WAITING_BYTES)
                is_sent = await method(call, job)
            except (CallerGone, ClientDisconnected):
                # Counted as a caller who has left: that is what its client takes the call for.
                if not stream.is_expired:
                    raise ClientDisconnected from None
                await call.end_expired()
            except asyncio.CancelledError:  # the drain timeout has passed
                is_cancelled = True
                refusal = Draining("the service stopped before the response", retry_after=1)
                is_sent = await call.refuse(refusal)
            except Exception as error:  # every error becomes a status
                refusal = refusal_for(error, request_id[1].decode())
                is_sent = await call.refuse(refusal)
        finally:
            if timer is not None:
                timer.cancel()
            status, code = outcome(refusal) if is_sent else ABANDONED
            is_whole = is_sent and refusal is None
            if not (is_whole and (call.is_counted or job.observer is not None)):
                path = stream.head.path
                self._metrics.responded(path, int(status), code, stream.received, call.sent)
            # A thread may still use the buffers of a call that was cancelled, and the kernel those
            # of an incomplete response.
            job.end(reusable=not (is_cancelled or stream.holds_memory), is_sent=is_whole)
            if span is not None:
                ended = Status.OK if refusal is None else status_of(refusal)
                span.end(ended if is_sent else None, code)
            if self._logs_access:
                self._log(call, status, code, perf_counter() - began, request_id[1])

    def _checked(self, stream: ServedStream) -> Method:
        """The method of a call that may be served."""
        head = stream.head
        if head.is_cut:
            raise HeadersTooLarge("the call has too many or too long header fields")
        if not head.values.get(b"content-type", b"").startswith(_CONTENT_TYPE):
            raise UnsupportedMediaType("over HTTP/2 this service speaks gRPC alone")
        if self._check_host is not None:
            self._check_host(head.authority)
        if self._authenticator is not None:
            self._authenticator.check(head)
        method = self._methods.get(head.path)
        if method is None:
            raise NotOffered(f"there is no method {shown(head.path)}")
        return method

    def _log(self, call: Call, status: str, code: str, seconds: float, request_id: bytes) -> None:
        stream = call.stream
        client = None if stream.client is None else stream.client[0]
        log(
            Entry(
                stream.head.method,
                stream.head.path,
                status,
                code,
                stream.received,
                call.sent,
                seconds,
                client,
                request_id.decode(),
                traceparent_of(stream.head),
            )
        )
