"""A collector of traces: an HTTP server that accepts OTLP, and keeps the spans."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ReceivedSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status


@dataclass(frozen=True)
class Span:
    """A span as it was received. Ids are hex, times nanoseconds since 1970."""

    name: str
    kind: str
    trace: str
    id: str
    parent: str
    state: str
    start: int
    end: int
    attributes: dict[str, Any]
    events: list[str]
    is_error: bool
    service: str
    instance: str


class Collector:
    """A collector on a port of its own; a context manager."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        #: The bodies, to look for what must not be in them.
        self.bodies: list[bytes] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                assert self.path == "/v1/traces"
                collector.receive(body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that have spans sent here, soon."""
        url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "100"}

    def receive(self, body: bytes) -> None:
        self.bodies.append(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            of = {pair.key: _value(pair.value) for pair in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [_span(span, of) for span in scope.spans]

    def wait(self, is_there: Callable[[Span], bool], count: int = 1) -> list[Span]:
        """The spans for which that holds, once there are so many."""
        deadline = time.monotonic() + 20
        while len(found := [span for span in self.spans if is_there(span)]) < count:
            assert time.monotonic() < deadline, self.spans
            time.sleep(0.02)
        return found

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, *fault: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


def _span(span: ReceivedSpan, resource: dict[str, Any]) -> Span:
    return Span(
        span.name,
        ReceivedSpan.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.trace_state,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        {pair.key: _value(pair.value) for pair in span.attributes},
        [event.name for event in span.events],
        span.status.code == Status.STATUS_CODE_ERROR,
        resource["service.name"],
        resource.get("service.instance.id", ""),
    )


def _value(value: AnyValue) -> Any:
    return getattr(value, value.WhichOneof("value"))
