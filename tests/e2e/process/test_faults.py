"""Every stage of a request failing, once and always: the right refusal, nothing kept, no harm."""

from __future__ import annotations

import functools
import gzip
import http.client
import inspect
import json
import resource
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from support.http.inference_form import HEADER_LENGTH, binary, document, infer_path, tensor
from support.http.native_form import ieee754, npy, post
from support.services.hosted import HostedService
from support.services.server import Reply, Service
from tensor_round_service.backends.cpu import backend
from tensor_round_service.engine import receive
from tensor_round_service.engine.job import Job
from tensor_round_service.engine.memory import Memory
from tensor_round_service.net.http1 import connection
from tensor_round_service.net.http1.receiving import BodyReceiver, ReceivedRequest
from tensor_round_service.net.response import Response
from tensor_round_service.oip import infer_json
from tensor_round_service.oip.plan import InferencePlan
from tensor_round_service.routes import json_document, tensor_route
from tensor_round_service.routes.json_document import TensorDocument

#: A failure for ever.
ALWAYS = -1


class OutOfMemoryError(MemoryError):
    """What CuPy raises where a device has no memory: a MemoryError of its own."""


@dataclass(frozen=True)
class Point:
    """A function that can be made to fail, ``when`` its work is still to do or just done."""

    owner: Any
    name: str
    when: Literal["before", "after"] = "before"

    def __str__(self) -> str:
        return f"{self.when}-{self.owner.__name__.rpartition('.')[2]}.{self.name}"


#: Every stage of a request, in order.
STAGES: dict[str, list[Point]] = {
    "receive": [
        Point(ReceivedRequest, "receive_into"),
        Point(ReceivedRequest, "receive_into", "after"),
        Point(BodyReceiver, "fill", "after"),
        Point(json_document, "read_all", "after"),
    ],
    "admit": [
        Point(Job, "reserve"),
        Point(Job, "reserve", "after"),
        Point(receive, "admit", "after"),
    ],
    "allocate": [Point(Memory, "allocate"), Point(Memory, "allocate", "after")],
    "copy_in": [Point(backend.NumpyBackend, "round"), Point(backend, "copy_strided", "after")],
    "launch": [
        Point(backend.NumpyBackend, "_run"),
        Point(backend.NumpyBackend, "_run", "after"),
    ],
    "copy_out": [Point(backend.NumpyBackend, "round", "after")],
    "encode": [
        Point(tensor_route, "digest_of", "after"),
        Point(TensorDocument, "response", "after"),
        Point(InferencePlan, "header_with_data"),
        Point(infer_json, "write_response", "after"),
    ],
    "send": [Point(Response, "__init__"), Point(connection, "head_bytes", "after")],
}


class Fault:
    """What a point does while it fails: raises ``error`` so many ``times``, and counts."""

    def __init__(self, error: type[Exception], times: int) -> None:
        self._error = error
        self._left = times
        self.count = 0

    def strike(self) -> None:
        """Raise, unless that was often enough."""
        if self._left:
            self._left -= 1
            self.count += 1
            raise self._error("injected")


@contextmanager
def failing(point: Point, error: type[Exception], times: int = ALWAYS) -> Iterator[Fault]:
    """Make a point fail the next so many ``times``."""
    fault = Fault(error, times)
    original = inspect.getattr_static(point.owner, point.name)
    setattr(point.owner, point.name, _faulty(original, fault, point.when))
    try:
        yield fault
    finally:
        setattr(point.owner, point.name, original)


def _faulty(original: Callable[..., Any], fault: Fault, when: str) -> Callable[..., Any]:
    async def awaited(result: Awaitable[Any]) -> Any:
        found = await result
        fault.strike()
        return found

    @functools.wraps(original)
    def faulty(*values: Any, **named: Any) -> Any:
        if when == "before":
            fault.strike()
            return original(*values, **named)
        result = original(*values, **named)
        if inspect.iscoroutine(result):
            return awaited(result)
        fault.strike()
        return result

    return faulty


#: Where the failure is the device's, what it is called.
DEVICE = {"copy_in", "launch", "copy_out"}
PAGE = resource.getpagesize()
ERRORS = [OutOfMemoryError, RuntimeError]

X = np.linspace(-3, 3, 40, dtype="<f4")
LARGE = np.linspace(-1e4, 1e4, 3 << 18, dtype="<f4")


@dataclass(frozen=True)
class Form:
    """A sound request in one of the service's forms."""

    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    path: str = "/round"

    def send(self, service: Service) -> Reply:
        return service.request("POST", self.path, self.body, self.headers)


def of(x: np.ndarray, **layout: object) -> dict[str, str]:
    return {"Operator-Descriptor": ieee754("float32", [x.size], **layout)}


def spread(x: np.ndarray) -> bytes:
    """The elements with a gap after each."""
    return np.repeat(x, 2).tobytes()[:-4]


SMALL = of(X)
NUMBERS = {"descriptor": json.loads(ieee754("float32", [X.size])), "data": X.tolist()}
INLINE = json.dumps(document(tensor("FP32", [X.size], data=X.tolist()))).encode()
WISHED = {"parameters": {"binary_data_output": True}}
BINARY = json.dumps(document(binary("FP32", [X.size], X.nbytes), **WISHED)).encode()
INFER = infer_path("round")
FORMS = {
    "small": Form(X.tobytes(), SMALL),
    "large": Form(LARGE.tobytes(), of(LARGE)),
    "strided": Form(spread(X), of(X, strides=[2])),
    "strided-large": Form(spread(LARGE), of(LARGE, strides=[2])),
    "gzip": Form(gzip.compress(X.tobytes()), {**SMALL, "Content-Encoding": "gzip"}),
    "digest": Form(X.tobytes(), {**SMALL, "Want-Content-Digest": "sha-256=1"}),
    "npy": Form(npy(X), {"Content-Type": "application/x-npy"}),
    "json": Form(json.dumps(NUMBERS).encode(), {"Content-Type": "application/json"}),
    "inference-json": Form(INLINE, path=INFER),
    "inference-binary": Form(BINARY + X.tobytes(), {HEADER_LENGTH: str(len(BINARY))}, INFER),
}

POINTS = [
    pytest.param(stage, point, id=f"{stage}-{point}")
    for stage, points in STAGES.items()
    for point in points
]


@pytest.fixture(scope="module")
def hosted() -> Iterator[HostedService]:
    with HostedService() as running:
        yield running


@pytest.fixture(scope="module")
def right(hosted: HostedService) -> dict[str, bytes]:
    """The response to each form where nothing fails."""
    replies = {name: form.send(hosted) for name, form in FORMS.items()}
    assert {reply.status for reply in replies.values()} == {200}
    for name in ("small", "strided", "gzip", "digest", "npy", "inference-binary"):
        assert replies[name].content.endswith(np.rint(X).tobytes())
    return {name: reply.content for name, reply in replies.items()}


def check_refusal(reply: Reply, form: Form, stage: str, error: type[Exception]) -> None:
    assert reply.status == 503, reply.content
    assert int(reply.headers["Retry-After"]) >= 1
    assert b"injected" not in reply.content
    if form.path == INFER:  # which knows no codes
        assert set(reply.json()) == {"error"}
        return
    code = reply.json()["code"]
    if issubclass(error, MemoryError):
        assert code == ("device_out_of_memory" if stage in DEVICE else "overloaded")
    else:
        assert code == "backend_failed"


@pytest.mark.slow
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(("stage", "point"), POINTS)
def test_stage_that_fails_once_or_always_is_refused_and_holds_nothing(
    hosted: HostedService,
    right: dict[str, bytes],
    stage: str,
    point: Point,
    error: type[Exception],
) -> None:
    struck = 0
    for name, form in FORMS.items():
        with failing(point, error, times=1) as fault:
            reply = form.send(hosted)
        struck += fault.count
        if fault.count:
            check_refusal(reply, form, stage, error)
        else:
            assert reply.content == right[name]
        assert hosted.settled(), f"{name}: something is still held"
        after = form.send(hosted)
        assert (after.status, after.content) == (200, right[name])
    assert struck
    with failing(point, error) as fault:
        for form in FORMS.values():
            before = fault.count
            try:
                reply = form.send(hosted)
            except (http.client.HTTPException, ConnectionError):
                # Where not even a refusal can be sent, the connection ends.
                assert stage == "send"
                continue
            if fault.count > before:
                check_refusal(reply, form, stage, error)
        if stage != "send":  # by which health is told too
            assert hosted.get("/livez").status == 200
    assert hosted.settled()
    for name, form in FORMS.items():
        assert form.send(hosted).content == right[name]


@pytest.mark.parametrize("error", ERRORS)
def test_response_that_can_never_be_made_is_503(
    hosted: HostedService, right: dict[str, bytes], error: type[Exception]
) -> None:
    """What was made beforehand is left."""
    with failing(Point(connection, "head_bytes"), error):
        for form in FORMS.values():
            check_refusal(form.send(hosted), form, "send", error)
    assert hosted.settled()
    for name, form in FORMS.items():
        assert form.send(hosted).content == right[name]


@pytest.mark.slow
def test_memory_that_the_system_refuses_is_503() -> None:
    """No injection here: the process may have no more address space than it has."""
    large = np.full(64 << 20, 1.5, "<f4")
    descriptor = ieee754("float32", [large.size])
    with Service() as service:
        assert FORMS["large"].send(service).status == 200
        unlimited = resource.prlimit(service.pid, resource.RLIMIT_AS)
        in_use = int(Path(f"/proc/{service.pid}/statm").read_text().split()[0]) * PAGE
        resource.prlimit(service.pid, resource.RLIMIT_AS, (in_use + (64 << 20), unlimited[1]))
        for _ in range(3):
            reply = post(service, descriptor, large.data.cast("B"))
            assert (reply.status, reply.json()["code"]) == (503, "overloaded")
            assert int(reply.headers["Retry-After"]) >= 1
        assert (
            post(service, SMALL["Operator-Descriptor"], X.tobytes()).content == np.rint(X).tobytes()
        )
        resource.prlimit(service.pid, resource.RLIMIT_AS, unlimited)
        assert post(service, descriptor, large.data.cast("B")).status == 200
