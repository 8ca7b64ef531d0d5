"""What the log says: for people or as JSON, of each request where asked for."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import numpy as np

from support.http.native_form import ieee754, post
from support.services.server import Service

X = np.array([0.5, 1.5], "<f4")
SECRET = "0123456789-a-secret-of-the-tests"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def requested(service: Service) -> None:
    """One request that is served, and one that is refused."""
    fields = {"X_Request_ID": "the-id", "X_API_Key": SECRET, "traceparent": TRACE}
    assert post(service, ieee754("float32", [2]), X.tobytes(), **fields).status == 200
    assert service.request("POST", "/round?a=1", b"", {}).status == 422


def lines_about(service: Service, text: str, count: int) -> list[str]:
    deadline = time.monotonic() + 20
    while len(found := [line for line in service.log if text in line]) < count:
        assert time.monotonic() < deadline, service.log
        time.sleep(0.02)
    return found


def test_a_line_a_request_for_people() -> None:
    with Service("--access-log", "true") as service:
        requested(service)
        served, refused = lines_about(service, " POST /round ", 2)
    assert served.startswith("INFO:     POST /round status=200 received_bytes=8 sent_bytes=8 ")
    assert f"request_id=the-id traceparent={TRACE}" in served
    assert " status=422 code=invalid_descriptor " in refused
    assert not any(SECRET in line or "a=1" in line for line in service.log)


def test_lines_of_json() -> None:
    with Service("--access-log", "true", "--log-format", "json") as service:
        requested(service)
        (line, _) = lines_about(service, '"path": "/round"', 2)
    entry: dict[str, Any] = json.loads(line)
    expected = {
        "level": "info",
        "method": "POST",
        "path": "/round",
        "status": 200,
        "received_bytes": 8,
        "sent_bytes": 8,
        "request_id": "the-id",
        "traceparent": TRACE,
    }
    assert expected.items() <= entry.items()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", entry["timestamp"])
    for each in service.log:
        assert "event" in json.loads(each), each
    assert not any(SECRET in each for each in service.log)


def test_no_line_a_request_unless_asked_for() -> None:
    with Service() as service:
        requested(service)
        service.get("/operators")
    assert not any("/round" in line for line in service.log)


def test_the_level_is_the_least_that_is_logged() -> None:
    with Service("--log-level", "debug", "--access-log", "true") as service:
        requested(service)
        lines_about(service, "POST /round", 2)


def test_problem_documents_name_the_trace() -> None:
    with Service() as service:
        reply = service.request("POST", "/round", b"", {"traceparent": TRACE})
        assert reply.json()["traceparent"] == TRACE
        for unlawful in ("", TRACE.upper(), TRACE[:-1], "00-" + "0" * 32 + TRACE[35:]):
            reply = service.request("POST", "/round", b"", {"traceparent": unlawful})
            assert "traceparent" not in reply.json()
