"""The span of a request, and the spans of its phases.

Spans have no payloads, descriptors, keys or queries.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ..engine.job import PHASES, Job, Observer
from ..gate import Attributes
from ..net.bodies import ClientDisconnected
from ..net.head import TRACEPARENT, Head, traceparent_of

_CONTEXT = TraceContextTextMapPropagator()


class _Fields(Getter[Head]):
    """Reads the fields of a head, for the propagators that OTEL_PROPAGATORS names."""

    def get(self, carrier: Head, key: str) -> list[str] | None:
        name = key.lower().encode("latin-1")
        if name == TRACEPARENT:
            traceparent = traceparent_of(carrier)
            return None if traceparent is None else [traceparent]
        value = carrier.values.get(name)
        return None if value is None else [value.decode("latin-1")]

    def keys(self, carrier: Head) -> list[str]:
        return [name.decode("latin-1") for name in carrier.values]


_FIELDS = _Fields()


class RequestSpan:
    """The span of a request, in its caller's trace; see :class:`~..gate.Span`.

    A head without ``traceparent``, or with that of another trace, gets that of the span, for the
    log and problem documents.
    """

    def __init__(self, tracer: Tracer, head: Head, name: str, attributes: Attributes) -> None:
        # All times of a span are by one clock: the two may be read some time apart.
        started = time.time_ns()
        self.tracer = tracer
        #: What time.perf_counter_ns() is to be increased by, to become the time since 1970.
        self.epoch = started - time.perf_counter_ns()
        context = propagate.extract(head, Context(), _FIELDS)
        self.span: Span = tracer.start_span(
            name, context, SpanKind.SERVER, {**attributes}, start_time=started
        )
        trace = f"{self.span.get_span_context().trace_id:032x}"
        if trace not in (traceparent_of(head) or ""):
            fields: dict[str, str] = {}
            _CONTEXT.inject(fields, set_span_in_context(self.span, Context()))
            head.values[TRACEPARENT] = fields["traceparent"].encode()

    def observing(self, observer: Observer, ends: tuple[Attributes, str] | None = None) -> Observer:
        """See :class:`~..gate.Span`."""
        if self.span.is_recording():
            return _JobSpans(self, observer, ends)
        if ends is not None:
            self.end(*ends)
        return observer

    def end(self, attributes: Attributes, failure: str = "") -> None:
        """See :class:`~..gate.Span`."""
        self.span.set_attributes({**attributes})
        if failure:
            self.span.set_attribute("error.type", failure)
            self.span.set_status(Status(StatusCode.ERROR))
        self.span.end(self.epoch + time.perf_counter_ns())


@dataclass(frozen=True, slots=True)
class _JobSpans:
    """Observes the end of a job: makes the spans of its phases within that of its request.

    The phases are laid end to end, by the seconds that were measured: what was rounded while the
    body was being received counts as ``execute`` alone.
    """

    request: RequestSpan
    observer: Observer
    ends: tuple[Attributes, str] | None

    def job_ended(self, job: Job) -> None:
        """See :class:`Observer`."""
        self.observer.job_ended(job)
        request, epoch = self.request, self.request.epoch
        now = epoch + time.perf_counter_ns()
        sending = epoch + int(job.sending_since * 1e9)
        executing = sending - int(job.execute_seconds * 1e9)
        queueing = executing - int(job.queue_seconds * 1e9)
        receiving = queueing - int(job.receive_seconds * 1e9)
        times = (receiving, queueing, executing, sending, now)
        context = set_span_in_context(request.span, Context())
        for name, start, end in zip(PHASES, times, times[1:], strict=False):
            request.tracer.start_span(name, context, start_time=start).end(end)
        attributes: dict[str, str | int] = {"tensor_round.backend": job.executed_by}
        if job.call is not None:  # it is None for /compare
            attributes["tensor_round.dialect"] = job.dialect
            attributes["tensor_round.dtype"] = job.call.input.dtype.name
            attributes["tensor_round.rounding"] = job.call.rounding.value
            attributes["tensor_round.element_count"] = job.call.input.element_count
        request.span.set_attributes(attributes)
        if self.ends is not None:
            ends, failure = self.ends
            request.end(ends, failure if job.is_sent else ClientDisconnected.__qualname__)
