"""gRPC: each call passes the gate, and its method answers it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from time import perf_counter

from tensor_round.contract.errors import Draining, NotOffered, RequestRefused
from tensor_round.contract.quoting import shown

from ..engine.job import Job
from ..engine.memory import Memory
from ..failures import refusal_for
from ..gate import ABANDONED, Gate, Span
from ..net.bodies import ClientDisconnected
from ..net.head import Head
from ..net.http2.fields import encoded
from ..net.http2.serving import ServedStream
from ..net.response import request_id_field
from .call import Call, Method
from .status import EXPIRED, Status, outcome, seconds_of, status_of

#: The types of gRPC's requests with Protocol Buffers.
_CONTENT_TYPES = re.compile(rb"application/grpc(?:\+proto)?[ \t]*(?:;.*)?", re.IGNORECASE)
#: What a call takes of the budget while its request is not whole: its stream and its task.
_WAITING_BYTES = 8 << 10
#: The statuses that say that the server has failed, of those that this one has.
_FAILURES = frozenset(
    {Status.DEADLINE_EXCEEDED, Status.UNIMPLEMENTED, Status.INTERNAL, Status.UNAVAILABLE}
)
#: ``:status: 200`` of HPACK's table, and the type of every response.
_OPENING = b"\x88" + encoded((b"content-type", b"application/grpc"))


class Service:
    """The handler of all streams. ``methods`` are by their paths."""

    def __init__(self, methods: Mapping[str, Method], memory: Memory, gate: Gate) -> None:
        self._methods = methods
        self._memory = memory
        self._gate = gate

    def takes(self, head: Head) -> bool:
        """Whether a request is a call of gRPC."""
        content_type = head.values.get(b"content-type", b"")
        return head.method == "POST" and _CONTENT_TYPES.fullmatch(content_type) is not None

    async def serve(self, stream: ServedStream) -> None:
        """Respond to a stream; errors become statuses."""
        request_id = request_id_field(stream.head)
        gate = self._gate
        span = None if gate.begin_span is None else self._begin_span(stream)
        call = Call(stream, _OPENING + encoded(request_id), gate, span)
        job = Job(self._memory, stream)
        refusal: RequestRefused | None = None
        is_sent, is_cancelled = False, False
        timer: asyncio.TimerHandle | None = None
        try:
            try:
                method = self._checked(stream)
                if (timeout := stream.head.values.get(b"grpc-timeout")) is not None:
                    left = seconds_of(timeout) - (perf_counter() - stream.began)
                    if left <= 0:
                        stream.expire()
                        raise ClientDisconnected
                    timer = asyncio.get_running_loop().call_later(left, stream.expire)
                if not stream.is_ended:
                    job.reserve(_WAITING_BYTES)
                is_sent = await method(call, job)
            except ClientDisconnected:
                # Counted as a caller who has left: that is what its client takes the call for.
                if not stream.is_expired:
                    raise ClientDisconnected from None
                await call.respond([], EXPIRED)
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
            found = outcome(refusal) if is_sent else ABANDONED
            is_whole = is_sent and refusal is None
            seconds = perf_counter() - stream.began
            if not (is_whole and (call.is_counted or job.observer is not None)):
                gate.count(stream.head.path, found, stream.received, call.sent, seconds)
            # A thread may still use the buffers of a call that was cancelled, and the kernel those
            # of an incomplete response.
            job.end(reusable=not (is_cancelled or stream.holds_memory), is_sent=is_whole)
            if span is not None:
                _end_span(span, refusal if is_sent else ClientDisconnected())
            if gate.logs_access:
                gate.log(
                    stream.head,
                    stream.head.path,
                    found,
                    received=stream.received,
                    sent=call.sent,
                    seconds=seconds,
                    client=None if stream.client is None else stream.client[0],
                    key=stream.key,
                    request_id=request_id[1],
                )

    def _checked(self, stream: ServedStream) -> Method:
        """The method of a call that may be served."""
        head = stream.head
        stream.key = self._gate.check(head)
        method = self._methods.get(head.path)
        if method is None:
            raise NotOffered(f"there is no method {shown(head.path)}")
        return method

    def _begin_span(self, stream: ServedStream) -> Span:
        """Begin a span by OpenTelemetry's conventions for gRPC (version 1.37).

        Later versions rename the attributes, and are not stable yet.
        """
        assert self._gate.begin_span is not None
        path = stream.head.path
        service, _, method = path.removeprefix("/").partition("/")
        attributes: dict[str, str | int] = {
            "rpc.system": "grpc",
            "rpc.service": service,
            "rpc.method": method,
            "network.protocol.version": "2",
        }
        client = self._gate.client_of(stream.head, stream.client[0] if stream.client else None)
        if client is not None:
            attributes["client.address"] = client
        stream.head = stream.head.copy()
        route = self._gate.route_of(path)
        name = "grpc" if route == "other" else route.removeprefix("/")
        return self._gate.begin_span(stream.head, name, attributes)


def _end_span(span: Span, end: RequestRefused | ClientDisconnected | None) -> None:
    """End the span of a call that was refused, or whose caller has left, or that succeeded."""
    if isinstance(end, ClientDisconnected):
        span.end({}, ClientDisconnected.__qualname__)
        return
    status = Status.OK if end is None else status_of(end)
    attributes: dict[str, str | int] = {"rpc.grpc.status_code": int(status)}
    if end is not None and end.code:
        attributes["tensor_round.code"] = end.code
    span.end(attributes, status.name if status in _FAILURES else "")
