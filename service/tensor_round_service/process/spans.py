"""The span of a request, and the spans of its phases, by OpenTelemetry's conventions for HTTP.

Spans have no payloads, descriptors, keys or queries.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from ..content.sources import ClientDisconnected
from ..engine.job import PHASES, Job, Observer
from ..http1.context import RequestHandler
from ..http1.head import TRACEPARENT, Head, traceparent_of, tracestate_of
from ..http1.request import Request
from ..http1.response import Response

#: The methods that are a value of ``http.request.method``; others are ``_OTHER``.
_METHODS = frozenset(
    ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"]
)
_CONTEXT = TraceContextTextMapPropagator()


class TracedHandler:
    """A request handler that makes a span of each request to another handler."""

    def __init__(
        self, handler: RequestHandler, tracer: Tracer, route_of: Callable[[str], str]
    ) -> None:
        self._handler = handler
        self._tracer = tracer
        self._route_of = route_of
        self.refuse = handler.refuse
        self.preallocated_response = handler.preallocated_response
        self.abandoned = handler.abandoned
        self.logs_access = handler.logs_access
        self.log = handler.log

    async def respond(self, request: Request) -> Response:
        """The other handler's response; the span of a tensor's request ends when it is sent."""
        # All times of a span are by one clock: the two may be read some time apart.
        started = time.time_ns()
        epoch = started - time.perf_counter_ns()
        span = self._start(request, started)
        try:
            response = await self._handler.respond(request)
        except BaseException as error:
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(Status(StatusCode.ERROR))
            span.end()
            raise
        span.set_attributes(_response_attributes(request, response))
        if response.status >= 500:
            span.set_attribute("error.type", response.code or str(response.status))
            span.set_status(Status(StatusCode.ERROR))
        job = response.owner
        # A job without an observer has no phases: it holds an answer of FastAPI.
        if isinstance(job, Job) and job.observer is not None and span.is_recording():
            job.observer = _LastSpans(self._tracer, span, epoch, job.observer)
        else:
            span.end()
        return response

    def _start(self, request: Request, started: int) -> Span:
        head = request.head
        route = self._route_of(head.path)
        method = head.method if head.method in _METHODS else "_OTHER"
        attributes: dict[str, AttributeValue] = {
            "http.request.method": method,
            "url.path": head.path,
            "url.scheme": request.scheme,
            "network.protocol.version": head.version,
        }
        if route != "other":
            attributes["http.route"] = route
        if request.client is not None:
            attributes["client.address"] = request.client[0]
        name = f"{method} {route}" if "http.route" in attributes else method
        return start_span(self._tracer, head, name, attributes, started)


def start_span(
    tracer: Tracer, head: Head, name: str, attributes: dict[str, AttributeValue], started: int
) -> Span:
    """The span of a request, in its caller's trace; a head without one gets its ``traceparent``."""
    context = _CONTEXT.extract(_context_fields(head), Context())
    span = tracer.start_span(name, context, SpanKind.SERVER, attributes, start_time=started)
    if traceparent_of(head) is None:
        # For the log and problem documents, which have the traceparent of the request.
        fields: dict[str, str] = {}
        _CONTEXT.inject(fields, set_span_in_context(span, Context()))
        head.values[TRACEPARENT] = fields["traceparent"].encode()
    return span


class JobSpans:
    """Observes the end of a job: makes the spans of its phases within that of its request.

    The phases are laid end to end, by the seconds that were measured: what was rounded while the
    body was being received counts as ``execute`` alone.
    """

    def __init__(self, tracer: Tracer, span: Span, epoch: int, observer: Observer | None) -> None:
        self._tracer = tracer
        self._span = span
        #: What time.perf_counter_ns() is to be increased by, to become the time since 1970.
        self._epoch = epoch
        self._observer = observer

    def job_ended(self, job: Job) -> None:
        """See :class:`Observer`."""
        self._end_phases(job)

    def _end_phases(self, job: Job) -> int:
        """Make the spans; return their end."""
        if self._observer is not None:
            self._observer.job_ended(job)
        now = self._epoch + time.perf_counter_ns()
        sending = self._epoch + int(job.sending_since * 1e9)
        executing = sending - int(job.execute_seconds * 1e9)
        queueing = executing - int(job.queue_seconds * 1e9)
        receiving = queueing - int(job.receive_seconds * 1e9)
        times = (receiving, queueing, executing, sending, now)
        context = set_span_in_context(self._span, Context())
        for name, start, end in zip(PHASES, times, times[1:], strict=False):
            self._tracer.start_span(name, context, start_time=start).end(end)
        self._span.set_attributes(_job_attributes(job))
        return now


class _LastSpans(JobSpans):
    """The same of a job with which its request ends."""

    def job_ended(self, job: Job) -> None:
        """End the span of the request, too."""
        now = self._end_phases(job)
        if not job.is_sent:
            self._span.set_attribute("error.type", ClientDisconnected.__qualname__)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end(now)


def _context_fields(head: Head) -> dict[str, str]:
    """The lawful ones of the fields: OpenTelemetry logs a warning with what it cannot read."""
    fields = {"traceparent": traceparent_of(head), "tracestate": tracestate_of(head)}
    return {name: value for name, value in fields.items() if value is not None}


def _response_attributes(request: Request, response: Response) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        "http.response.status_code": response.status,
        "http.request.body.size": request.received,
        "http.response.body.size": sum(map(len, response.parts)),
    }
    if response.code:
        attributes["tensor_round.code"] = response.code
    return attributes


def _job_attributes(job: Job) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {"tensor_round.backend": job.executed_by}
    if job.call is not None:  # it is None for /compare
        attributes["tensor_round.dialect"], attributes["tensor_round.dtype"] = job.labels
        attributes["tensor_round.rounding"] = job.call.rounding.value
        attributes["tensor_round.element_count"] = job.call.input.element_count
    return attributes
