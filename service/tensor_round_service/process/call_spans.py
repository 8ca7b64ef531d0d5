"""The span of a call of gRPC, by OpenTelemetry's conventions for it (version 1.37).

Later versions rename the attributes, and are not stable yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import IntEnum

from opentelemetry.trace import Span, StatusCode, Tracer
from opentelemetry.trace import Status as SpanStatus
from opentelemetry.util.types import AttributeValue

from ..content.sources import ClientDisconnected
from ..engine.job import Observer
from ..http2.serving import ServedStream
from .spans import JobSpans, start_span

#: The statuses that say that the server has failed, of those that this one has.
_FAILURES = frozenset({"DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE"})


def begin_call(tracer: Tracer, route_of: Callable[[str], str], stream: ServedStream) -> CallSpan:
    """The span of a stream's call; ``route_of`` gives the route of a path, out of a few."""
    # All times of a span are by one clock: the two may be read some time apart.
    started = time.time_ns()
    epoch = started - time.perf_counter_ns()
    path = stream.head.path
    service, _, method = path.removeprefix("/").partition("/")
    attributes: dict[str, AttributeValue] = {
        "rpc.system": "grpc",
        "rpc.service": service,
        "rpc.method": method,
        "network.protocol.version": "2",
    }
    if stream.client is not None:
        attributes["client.address"] = stream.client[0]
    stream.head = stream.head.copy()
    route = route_of(path)
    name = "grpc" if route == "other" else route.removeprefix("/")
    return CallSpan(tracer, start_span(tracer, stream.head, name, attributes, started), epoch)


class CallSpan:
    """A span that ends with its call."""

    def __init__(self, tracer: Tracer, span: Span, epoch: int) -> None:
        self._tracer = tracer
        self._span = span
        self._epoch = epoch

    def observing(self, observer: Observer) -> Observer:
        """See :class:`~..grpc.service.CallSpan`."""
        if not self._span.is_recording():
            return observer
        return JobSpans(self._tracer, self._span, self._epoch, observer)

    def end(self, status: IntEnum | None, code: str) -> None:
        """See :class:`~..grpc.service.CallSpan`."""
        span = self._span
        failure = ClientDisconnected.__qualname__
        if status is not None:
            span.set_attribute("rpc.grpc.status_code", int(status))
            failure = status.name if status.name in _FAILURES else ""
            if code:
                span.set_attribute("tensor_round.code", code)
        if failure:
            span.set_attribute("error.type", failure)
            span.set_status(SpanStatus(StatusCode.ERROR))
        span.end(self._epoch + time.perf_counter_ns())
