"""Traces: from an application through its client, over HTTP and gRPC, to a collector."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from support.http.grpc_client import Client, connected, framed, infer_request, made
from support.http.inference_form import OF_X, document
from support.http.inference_form import X as FP32
from support.http.native_form import ieee754, message, post
from support.http.proxy import FAULTLESS, Fault, Proxy
from support.keys import needing
from support.services.collector import Collector, Span
from support.services.server import Service, until
from tensor_round_service.failures import CannotStart
from tensor_round_service.gate import Gate
from tensor_round_service.telemetry import exported_traces

X = np.linspace(-9, 9, 256, dtype="<f4")
ROUND = ieee754("float32", [X.size])
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
PHASES = ["receive", "queue", "execute", "send"]

#: An application that exports its own spans, and those of its clients.
APPLICATION = """
import asyncio, sys
import numpy as np
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
import tensor_round as tr

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
X = np.array([0.5, 1.5, -2.5], "<f4")
TILED = np.resize(X, 3000)
URL = sys.argv[1]

def check(y, x=X):
    assert y.tobytes() == np.rint(x).tobytes()

"""


def run(program: str, url: str, collector: Collector) -> None:
    environment = {**os.environ, **collector.environment, "OTEL_SERVICE_NAME": "application"}
    command = [sys.executable, "-c", f"{APPLICATION}{program}\nprovider.shutdown()\n", url]
    subprocess.run(command, check=True, timeout=60, env=environment)


def is_server(span: Span) -> bool:
    return span.kind == "SERVER"


def is_request(path: str) -> Callable[[Span], bool]:
    return lambda span: is_server(span) and span.attributes["url.path"] == path


def test_call_and_its_requests_belong_to_the_trace_of_the_application() -> None:
    """Tiles go to both workers: all their spans belong to the call, which belongs to a span."""
    program = """
with trace.get_tracer("test").start_as_current_span("outer"):
    for _ in range(30):
        with tr.Client(URL, tile_bytes=4000, connections=4) as client:
            check(client.round(TILED), TILED)
"""
    with Collector() as collector:
        with Service("--workers", "2", environment=collector.environment) as service:
            run(program, service.url, collector)
            servers = collector.wait(is_request("/round"), 90)
        (outer,) = [span for span in collector.spans if span.name == "outer"]
        calls = [span for span in collector.spans if span.kind == "CLIENT"]
        phases = collector.wait(lambda span: span.name in PHASES, 360)
    assert [call.name for call in calls] == ["tensor_round.round"] * 30
    assert {call.parent for call in calls} == {outer.id}
    assert {span.parent for span in servers} == {call.id for call in calls}
    assert {span.trace for span in collector.spans if not is_probe(span)} == {outer.trace}
    assert len({span.instance for span in servers}) == 2, "one worker had all requests"
    by_id = {span.id: span for span in servers}
    for phase in phases:
        whole = by_id[phase.parent]
        assert whole.start <= phase.start <= phase.end <= whole.end, (phase, whole)
    one = [phase.name for phase in phases if phase.parent == servers[0].id]
    assert one == PHASES
    assert servers[0].attributes == {
        "http.request.method": "POST",
        "http.route": "/round",
        "http.response.status_code": 200,
        "http.request.body.size": 4000,
        "http.response.body.size": 4000,
        "url.path": "/round",
        "url.scheme": "http",
        "network.protocol.version": "1.1",
        "client.address": "127.0.0.1",
        "tensor_round.dialect": "ieee754",
        "tensor_round.dtype": "float32",
        "tensor_round.rounding": "ties_to_even",
        "tensor_round.backend": "numpy",
        "tensor_round.element_count": 1000,
    }
    assert servers[0].service == "tensor-round"
    assert calls[0].attributes["server.port"] == service.port


def is_probe(span: Span) -> bool:
    return span.attributes.get("url.path") == "/readyz"


@pytest.mark.slow
def test_retries_are_events_and_each_try_has_the_context() -> None:
    """Synchronous and asynchronous; a context of the caller's own wins; in this process there is
    only the span of the call.
    """
    program = f"""
with tr.Client(URL) as client:
    check(client.round(X))
async def main():
    async with tr.AsyncClient(URL) as client:
        check(await client.round(X))
asyncio.run(main())
with tr.Client(URL, headers={{"Traceparent": "{TRACEPARENT}"}}) as client:
    check(client.round(X))
with tr.Client("local:") as client:
    check(client.round(client.cast(X, "float32")))
    try:
        client.execute({{"dialect": "ieee754", "secret": 1}}, X)
    except tr.InvalidDescriptor:
        pass
"""
    reset = Fault(answer=b"", reset=True)
    with Collector() as collector, Service(environment=collector.environment) as service:
        with Proxy(service.port, lambda number: FAULTLESS if number % 2 else reset) as proxy:
            run(program, proxy.url, collector)
            sent = [seen.headers()["traceparent"].split("-") for seen in proxy.seen]
        servers = collector.wait(is_request("/round"), 3)
    calls = [span for span in collector.spans if span.kind == "CLIENT"]
    sync, tasks, _, _, local, refused = calls
    assert [span.events for span in (sync, tasks, local)] == [["retry"], ["retry"], []]
    assert [(trace, parent) for _, trace, parent, _ in sent] == [
        *((span.trace, span.id) for span in (sync, sync, tasks, tasks)),
        *[(TRACE, PARENT)] * 2,
    ]
    assert [span.parent for span in servers] == [sync.id, tasks.id, PARENT]
    assert [call.name[12:] for call in calls[3:]] == [".cast", ".round", ".execute"]
    assert (refused.attributes["error.type"], refused.is_error) == ("invalid_descriptor", True)
    assert (local.attributes, local.is_error) == ({}, False)


@contextlib.contextmanager
def locked(collector: Collector, folder: Path) -> Iterator[Service]:
    """A service with a key and a line a request, whose spans go there."""
    options = (*needing(folder, "key-of-mine"), "--access-log", "true")
    with Service(*options, environment=collector.environment) as service:
        yield service


def test_spans_name_refusals_and_paths_but_no_payload_key_or_query(tmp_path: Path) -> None:
    fields = {"X-API-Key": "key-of-mine", "traceparent": TRACEPARENT}
    payload, descriptor = b"payload-of-mine.", ieee754("float32", [4])
    with Collector() as collector:
        with locked(collector, tmp_path) as service:
            both = {**fields, "Operator-Descriptor": descriptor}
            assert service.request("POST", "/round", payload, both).status == 200
            assert service.request("POST", "/round", payload[:5], both).status == 400
            assert service.request("GET", "/operators?query-of-mine", None, fields).status == 200
            lost = service.request("GET", "/lost", None, {"X-API-Key": "key-of-mine"})
            assert lost.status == 404
            assert service.request("GET", "/%ff%00%f0", None, fields).status == 404
            assert service.request("PURGE", "/v2", None, fields).status == 501
        (refused,) = collector.wait(
            lambda span: span.attributes.get("http.response.status_code") == 400
        )
    spans = {span.name: span for span in collector.spans if is_server(span)}
    assert refused.attributes["tensor_round.code"] == "payload_size_mismatch"
    assert not refused.is_error, "a 4xx is the client's fault"
    assert spans["GET /operators"].attributes["http.route"] == "/operators"
    assert spans["_OTHER /v2"].attributes["tensor_round.code"] == "unimplemented"
    assert all(s.trace == TRACE for s in spans.values() if s.name not in ("GET", "GET /readyz"))
    # A request without a context begins a trace: its id is in the log, and in the refusal.
    paths = {span.attributes["url.path"]: span for span in collector.spans if is_server(span)}
    assert paths["/lost"].trace in service.logged(" /lost ")
    assert paths["/lost"].trace in lost.json()["traceparent"]
    assert "/\ufffd\0\ufffd" in paths
    sent = b"".join(collector.bodies)
    for secret in (b"of-mine", descriptor.encode(), b"byte_length"):
        assert secret not in sent


def test_lawful_tracestate_is_passed_on_and_none_is_logged(tmp_path: Path) -> None:
    """Callers without a key leave no line, whatever they send, control characters of C1 too."""
    unlawful = [b"\x9b31m\x85" * 2000, b"odd member", b"k=v," * 9, b"a=1,a=2", b"k=" + b"v" * 600]
    parent = TRACEPARENT.encode()
    asked = [(b"/unlawful/%d" % number, parent, state) for number, state in enumerate(unlawful)]
    asked += [(b"/no/parent", b"x" * 600, b"k=v"), (b"/lawful", parent, b"vendor=of-mine, t@v=2")]
    with Collector() as collector, locked(collector, tmp_path) as service:
        for values in asked:
            with service.connect() as plug:
                plug.sendall(
                    b"GET %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\ntraceparent: %b\r\n"
                    b"tracestate: %b\r\n\r\n" % values
                )
                assert plug.recv(1 << 16).startswith(b"HTTP/1.1 401 ")
        found = collector.wait(lambda span: span.attributes.get("http.route") != "/readyz", 7)
    states = {span.attributes["url.path"]: span.state for span in found}
    assert states.pop("/lawful") == "vendor=of-mine,t@v=2"
    assert set(states.values()) == {""}
    others = [line for line in service.log if "GET /" not in line]
    assert not any("racestate" in line or "member" in line.lower() for line in others)
    assert not any("v=" in line or "31m" in line or "raceparent header" in line for line in others)
    assert all(line.isascii() for line in service.log)


def test_failure_of_the_service_is_an_error_span() -> None:
    options = ("--max-bytes-in-flight", "64KiB", "--max-tensor-bytes", "32KiB")
    begun = message(np.zeros(8 << 10, "<f4"))[: -2 << 10]
    with Collector() as collector:
        with (
            Service(*options, environment=collector.environment) as service,
            service.connect() as first,
            service.connect() as second,
        ):
            first.sendall(begun)
            second.sendall(begun)
            time.sleep(0.2)
            reply = post(service, ieee754("float32", [1 << 10]), bytes(4 << 10))
            assert (reply.status, reply.json()["code"]) == (503, "overloaded")
        found = collector.wait(lambda span: span.is_error, 3)
    kinds = sorted(span.attributes["error.type"] for span in found)
    assert kinds == ["ClientDisconnected", "ClientDisconnected", "overloaded"]


@pytest.mark.parametrize("kind", ["closed", "silent"])
def test_dead_collector_delays_nothing(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/traces"
        if kind == "closed":
            listener.close()
        environment = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint}
        environment |= {"OTEL_BSP_SCHEDULE_DELAY": "10", "OTEL_BSP_MAX_QUEUE_SIZE": "512"}
        with Service(environment=environment) as service:
            began = time.monotonic()
            for _ in range(200):
                assert post(service, ROUND, X.tobytes()).status == 200
            assert time.monotonic() - began < 60
            began = time.monotonic()
            assert service.stop() == 0
            assert time.monotonic() - began < 25


COLLECTOR = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}


def test_missing_extra_is_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """FastAPI brings OpenTelemetry's API, but no exporter."""
    module = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    monkeypatch.setitem(sys.modules, module, None)
    with exported_traces(Gate(), COLLECTOR):
        pass
    (message,) = caplog.messages
    assert "pip install 'tensor-round[telemetry]'" in message


def test_variable_of_opentelemetry_out_of_range_stops_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "0")
    refused = pytest.raises(CannotStart, match=r"the variables OTEL_\*: max_queue_size")
    with refused, exported_traces(Gate(), COLLECTOR):
        pass


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
    ],
)
def test_unsupported_way_of_export_is_one_warning(
    caplog: pytest.LogCaptureFixture, variable: str, value: str
) -> None:
    sound = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_TRACES_EXPORTER": "otlp"}
    for environ in (sound, {variable: value}):
        with exported_traces(Gate(), COLLECTOR | environ):
            pass
    (message,) = (text for text in caplog.messages if "has no effect" in text)
    assert message.startswith(f"{variable}={value} has no effect")


OBEYED = {"none": False, "baggage": False, "tracecontext": True, "": True}


@pytest.mark.usefixtures("each_started")
@pytest.mark.parametrize(("names", "is_obeyed"), OBEYED.items())
def test_propagators_are_those_of_the_variable(names: str, is_obeyed: bool) -> None:
    """The trace in the log and in refusals is that of the span."""
    sent = {"/now": TRACEPARENT, "/later": f"cc-{TRACE}-{PARENT}-01-what-will-be"}
    with Collector() as collector:
        variables = {**collector.environment, "OTEL_PROPAGATORS": names}
        with Service("--access-log", "true", environment=variables) as service:
            told = {
                path: service.request("GET", path, None, {"traceparent": each, "baggage": "="})
                for path, each in sent.items()
            }
            for span in collector.wait(lambda span: span.attributes.get("url.path") in sent, 2):
                assert (span.parent == PARENT) == (span.trace == TRACE) == is_obeyed
                path = span.attributes["url.path"]
                context = told[path].json()["traceparent"]
                assert span.trace in context
                assert context in service.logged(f" {path} ")
            assert not any("aggage" in line for line in service.log)


def test_disabled_tracing_imports_and_does_nothing() -> None:
    """The gate makes no spans, and OpenTelemetry's SDK is not imported."""
    off: list[dict[str, str]] = [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://x"},
    ]
    code = (
        "import sys\nfrom tensor_round_service.gate import Gate\n"
        "from tensor_round_service.telemetry import exported_traces\n"
        f"for environment in {off!r}:\n"
        "    gate = Gate()\n"
        "    with exported_traces(gate, environment): assert gate.begin_span is None\n"
        "assert 'opentelemetry.sdk' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


SERVICE = "inference.GRPCInferenceService"
LAWFUL = ("traceparent", TRACEPARENT)
REQUEST = infer_request(document(OF_X), FP32.tobytes())


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


@pytest.fixture(scope="module")
def service(collector: Collector) -> Iterator[Service]:
    options = ("--access-log", "true", "--forwarded-allow-ips", "127.0.0.0/8")
    with Service(*options, environment=collector.environment) as running:
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with connected(service) as made:
        yield made


def test_caller_behind_a_trusted_proxy_is_in_log_and_spans(
    collector: Collector, service: Service, client: Client
) -> None:
    chain, caller = "198.51.100.9, 203.0.113.7, 127.0.0.2", "203.0.113.7"
    assert post(service, ROUND, X.tobytes(), X_Forwarded_For=chain).status == 200
    client.call("ServerLive", b"", ("forwarded", f"for={caller}"))
    found = collector.wait(lambda span: span.attributes.get("client.address") == caller, 2)
    assert {span.name for span in found} == {"POST /round", f"{SERVICE}/ServerLive"}
    until(lambda: service.counted(f" client={caller} ") == 2)


def span_of(collector: Collector, name: str, **attributes: object) -> Span:
    """The call's span, which has these attributes, with dots for underscores."""
    wanted = {key.replace("__", "."): value for key, value in attributes.items()}

    def is_it(span: Span) -> bool:
        return span.name == name and wanted.items() <= span.attributes.items()

    return collector.wait(is_it)[0]


def phases_of(collector: Collector, span: Span, count: int = len(PHASES)) -> list[Span]:
    return collector.wait(lambda each: each.parent == span.id, count)


def test_grpc_call_belongs_to_the_trace_of_its_metadata(
    service: Service, client: Client, collector: Collector
) -> None:
    state = ("tracestate", "vendor=of-mine, t@v=2")
    assert client.call("ModelInfer", REQUEST, LAWFUL, state).status == 0
    span = span_of(collector, f"{SERVICE}/ModelInfer")
    assert (span.kind, span.trace, span.parent) == ("SERVER", TRACE, PARENT)
    assert span.state == "vendor=of-mine,t@v=2"
    assert span.attributes == {
        "rpc.system": "grpc",
        "rpc.service": SERVICE,
        "rpc.method": "ModelInfer",
        "rpc.grpc.status_code": 0,
        "network.protocol.version": "2",
        "client.address": "127.0.0.1",
        "tensor_round.dialect": "ieee754",
        "tensor_round.dtype": "float32",
        "tensor_round.rounding": "ties_to_even",
        "tensor_round.backend": "numpy",
        "tensor_round.element_count": FP32.size,
    }
    assert (span.service, span.is_error) == ("tensor-round", False)
    phases = phases_of(collector, span)
    assert [phase.name for phase in phases] == PHASES
    assert all(span.start <= phase.start <= phase.end <= span.end for phase in phases)


def test_grpc_stream_has_the_phases_of_its_messages(client: Client, collector: Collector) -> None:
    stream = client.begin("ModelStreamInfer", LAWFUL)
    for count in (1, 2):
        client.send(stream, framed(REQUEST))
        client.wait(stream, count)
    client.send(stream, b"", ends=True)
    assert client.finish(stream).status == 0
    span = span_of(collector, f"{SERVICE}/ModelStreamInfer")
    assert span.parent == PARENT
    assert [phase.name for phase in phases_of(collector, span, 8)] == PHASES * 2


@pytest.mark.parametrize(
    ("path", "status", "name", "failure"),
    [
        ("ModelMetadata", 5, f"{SERVICE}/ModelMetadata", None),
        ("/no.Service/Method", 12, "grpc", "UNIMPLEMENTED"),
        ("/no.Service/other/Method", 12, "grpc", "UNIMPLEMENTED"),
    ],
)
def test_only_a_fault_of_the_server_is_an_error_of_a_grpc_call(
    client: Client, collector: Collector, path: str, status: int, name: str, failure: str | None
) -> None:
    request = made("ModelMetadataRequest", name="none")
    assert client.call(path, request, LAWFUL).status == status
    method = path.removeprefix("/no.Service/")
    span = span_of(collector, name, rpc__method=method)
    assert span.attributes["rpc.grpc.status_code"] == status
    assert span.attributes.get("tensor_round.code") == ("not_found" if status == 5 else None)
    assert span.attributes.get("error.type") == failure
    assert span.is_error == (failure is not None)


@pytest.mark.parametrize(
    "fields",
    [
        (),
        (("traceparent", f"00-{'0' * 32}-{PARENT}-01"), ("tracestate", "k=v")),
        (("traceparent", "x" * 600),),
    ],
)
def test_grpc_call_without_a_lawful_parent_begins_a_trace(
    service: Service, client: Client, collector: Collector, fields: tuple[tuple[str, str], ...]
) -> None:
    """Its id is in the log."""
    known = {span.id for span in collector.spans}
    answer = client.call("ServerReady", b"", *fields)
    (span,) = collector.wait(lambda each: each.id not in known and "rpc.method" in each.attributes)
    assert (span.parent, span.state) == ("", "")
    assert span.trace != TRACE
    line = service.logged(answer.fields["x-request-id"])
    assert f"traceparent=00-{span.trace}-{span.id}-" in line


def test_grpc_calls_with_the_same_head_have_their_own_traces(
    client: Client, collector: Collector
) -> None:
    """A client of gRPC sends the same bytes for each: fields that are in its table by then."""
    for _ in range(4):
        assert client.call("ServerMetadata", b"").status == 0
    name = f"{SERVICE}/ServerMetadata"
    spans = collector.wait(lambda span: span.name == name, 4)
    assert {span.parent for span in spans} == {""}
    assert len({span.trace for span in spans}) == 4


def test_grpc_caller_that_leaves_is_an_error_span(service: Service, collector: Collector) -> None:
    with connected(service) as client:
        stream = client.begin("ModelInfer", LAWFUL)
        client.send(stream, framed(REQUEST)[:-1])
        assert client.call("ServerLive", b"").status == 0
    span = span_of(collector, f"{SERVICE}/ModelInfer", error__type="ClientDisconnected")
    assert span.is_error
    assert "rpc.grpc.status_code" not in span.attributes
