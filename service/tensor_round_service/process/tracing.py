"""OpenTelemetry traces, exported if OpenTelemetry's own variables name a collector.

Without them the path of a request has no code for traces: :mod:`.spans` is not even imported.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec

from ..grpc.service import Service
from ..http1.context import RequestHandler

NAME = "tensor-round"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
#: Time to export the last spans when the server has drained. The process exits soon after it.
FLUSH_SECONDS = 1.0


class CannotTrace(Exception):
    """OpenTelemetry's variables contradict each other, or are out of range."""


def is_configured(environ: Mapping[str, str]) -> bool:
    """Whether the environment names a collector of traces, and does not turn traces off."""
    return (
        any(map(environ.get, _ENDPOINTS))
        and environ.get("OTEL_TRACES_EXPORTER") != "none"
        and environ.get("OTEL_SDK_DISABLED", "").strip().lower() != "true"
    )


def is_installed() -> bool:
    """Whether the extra ``telemetry`` is installed."""
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False


@contextmanager
def traced(
    handler: RequestHandler,
    grpc: Service | None,
    route_of: Callable[[str], str],
    environ: Mapping[str, str],
) -> Iterator[RequestHandler]:
    """The handler, with a span for each request if that is configured and installed.

    Then ``grpc`` makes one for each call. ``route_of`` gives the route of a path, out of a few. At
    the end the last spans are exported, which takes ``FLUSH_SECONDS`` at most. Raises
    :class:`CannotTrace`.
    """
    if not (is_configured(environ) and is_installed()):
        yield handler
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from .call_spans import begin_call
    from .spans import TracedHandler

    resource = Resource.create({"service.version": version(NAME)})
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: NAME}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    # It has a thread and a bounded queue: a collector that is slow or dead costs spans, not time.
    try:
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    except ValueError as error:
        raise CannotTrace(f"the variables OTEL_*: {error}") from None
    tracer = provider.get_tracer(NAME, version(NAME))
    if grpc is not None:
        grpc.begin_span = partial(begin_call, tracer, route_of)
    try:
        yield TracedHandler(handler, tracer, route_of)
    finally:
        # The SDK would wait for half a minute.
        flush = threading.Thread(target=provider.shutdown, name="tensor-round-flush", daemon=True)
        flush.start()
        flush.join(FLUSH_SECONDS)
