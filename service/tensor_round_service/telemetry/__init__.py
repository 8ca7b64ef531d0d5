"""OpenTelemetry traces, exported if OpenTelemetry's own variables name a collector.

Without them the path of a request has no code for traces: :mod:`.spans` is not even imported.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from tensor_round.contract.version import __version__

from ..failures import CannotStart
from ..features import Feature, FeatureContext
from ..gate import Gate

logger = logging.getLogger(__name__)

NAME = "tensor-round"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
#: The ways of export that the service has, by the variables that may name others.
_EXPORT = {
    "OTEL_TRACES_EXPORTER": "otlp",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
}
#: Libraries that warn of what callers send.
_LOUD = ("opentelemetry.trace", "opentelemetry.baggage", "opentelemetry.propagators")
#: Time to export the last spans when the server has drained. The process exits soon after it.
FLUSH_SECONDS = 1.0


def feature(_context: FeatureContext) -> Feature:
    """Traces, if OpenTelemetry's own variables name a collector."""
    return Feature(serving=lambda gate: exported_traces(gate, os.environ))


def is_configured(environ: Mapping[str, str]) -> bool:
    """Whether the environment names a collector of traces, and does not turn traces off."""
    return (
        any(map(environ.get, _ENDPOINTS))
        and environ.get("OTEL_TRACES_EXPORTER") != "none"
        and environ.get("OTEL_SDK_DISABLED", "").strip().lower() != "true"
    )


@contextmanager
def exported_traces(gate: Gate, environ: Mapping[str, str]) -> Iterator[None]:
    """Have the gate make a span of each request if that is configured and installed.

    At the end the last spans are exported, which takes ``FLUSH_SECONDS`` at most. Raises
    :class:`CannotStart` if OpenTelemetry's variables contradict each other or are out of range.
    """
    if not is_configured(environ):
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError:
        logger.warning("traces are not exported: pip install 'tensor-round[telemetry]'")
        yield
        return
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from .spans import RequestSpan

    for name, way in _EXPORT.items():
        if (wanted := environ.get(name, "").strip().lower() or way) != way:
            logger.warning("%s=%s has no effect: traces are exported by %s", name, wanted, way)
    for library in _LOUD:
        logging.getLogger(library).setLevel(logging.ERROR)
    resource = Resource.create({"service.version": __version__})
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: NAME}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    # It has a thread and a bounded queue: a collector that is slow or dead costs spans, not time.
    try:
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    except ValueError as error:
        raise CannotStart(f"the variables OTEL_*: {error}") from None
    gate.begin_span = partial(RequestSpan, provider.get_tracer(NAME, __version__))
    try:
        yield
    finally:
        # The SDK would wait for half a minute.
        flush = threading.Thread(target=provider.shutdown, name="tensor-round-flush", daemon=True)
        flush.start()
        flush.join(FLUSH_SECONDS)
