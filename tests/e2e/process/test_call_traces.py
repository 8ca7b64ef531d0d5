"""Traces of calls of gRPC: from their metadata to a collector."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.http.grpc_client import Client, connected, framed, infer_request, made
from support.http.inference_form import OF_X, X, document
from support.services.collector import Collector, Span
from support.services.server import Service

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
LAWFUL = ("traceparent", f"00-{TRACE}-{PARENT}-01")
SERVICE = "inference.GRPCInferenceService"
PHASES = ["receive", "queue", "execute", "send"]
REQUEST = infer_request(document(OF_X), X.tobytes())


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


@pytest.fixture(scope="module")
def service(collector: Collector) -> Iterator[Service]:
    options = ("--access-log", "true")
    with Service(*options, environment=collector.environment) as running:
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with connected(service) as made:
        yield made


def span_of(collector: Collector, name: str, **attributes: object) -> Span:
    """The call's span, which has these attributes, with dots for underscores."""
    wanted = {key.replace("__", "."): value for key, value in attributes.items()}

    def is_it(span: Span) -> bool:
        return span.name == name and wanted.items() <= span.attributes.items()

    return collector.wait(is_it)[0]


def phases_of(collector: Collector, span: Span, count: int = len(PHASES)) -> list[Span]:
    return collector.wait(lambda each: each.parent == span.id, count)


def test_a_call_belongs_to_the_trace_of_its_metadata(
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
        "tensor_round.element_count": X.size,
    }
    assert (span.service, span.is_error) == ("tensor-round", False)
    phases = phases_of(collector, span)
    assert [phase.name for phase in phases] == PHASES
    assert all(span.start <= phase.start <= phase.end <= span.end for phase in phases)


def test_a_stream_has_the_phases_of_its_messages(client: Client, collector: Collector) -> None:
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
def test_refusals(
    client: Client, collector: Collector, path: str, status: int, name: str, failure: str | None
) -> None:
    """Only what the conventions say is the server's fault is an error."""
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
def test_without_a_lawful_parent_a_call_begins_a_trace(
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


def test_calls_with_the_same_head_have_their_own_traces(
    client: Client, collector: Collector
) -> None:
    """A client of gRPC sends the same bytes for each: fields that are in its table by then."""
    for _ in range(4):
        assert client.call("ServerMetadata", b"").status == 0
    name = f"{SERVICE}/ServerMetadata"
    spans = collector.wait(lambda span: span.name == name, 4)
    assert {span.parent for span in spans} == {""}
    assert len({span.trace for span in spans}) == 4


def test_an_unlawful_state_is_ignored(client: Client, collector: Collector) -> None:
    for state in ("odd member", "a=1,a=2", "k=" + "v" * 600):
        assert client.call("ServerLive", b"", LAWFUL, ("tracestate", state)).status == 0
    name = f"{SERVICE}/ServerLive"
    spans = collector.wait(lambda span: span.name == name, 3)
    assert {(span.parent, span.state) for span in spans} == {(PARENT, "")}


def test_a_caller_who_leaves(service: Service, collector: Collector) -> None:
    with connected(service) as client:
        stream = client.begin("ModelInfer", LAWFUL)
        client.send(stream, framed(REQUEST)[:-1])
        assert client.call("ServerLive", b"").status == 0
    span = span_of(collector, f"{SERVICE}/ModelInfer", error__type="ClientDisconnected")
    assert span.is_error
    assert "rpc.grpc.status_code" not in span.attributes
