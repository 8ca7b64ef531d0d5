"""Keys, room and pace on the ``/v2`` face: the service's guards in the protocol's words."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from pathlib import Path

import numpy as np

from support.http.inference_form import (
    EVEN,
    HEADER_LENGTH,
    Answer,
    X,
    binary,
    document,
    error_of,
    infer,
    infer_path,
)
from support.services.server import Reply, Service

GOOD = document(binary("FP32", [10], 40), parameters={"binary_data_output": True})
MIB = 1 << 20


def test_keys(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(hashlib.sha256(b"open sesame").hexdigest() + "\n")
    with Service("--api-keys-file", str(keys)) as service:
        reply = infer(service, GOOD, X.tobytes())
        assert reply.status == 401
        assert error_of(reply)
        assert reply.headers["WWW-Authenticate"]
        assert service.get("/v2/models/round").status == 401
        assert service.get("/v2/health/live").json() == {"live": True}
        assert service.get("/v2/health/ready").json() == {"ready": True}
        key = {"Authorization": "Bearer open sesame"}
        answer = Answer.of(infer(service, GOOD, X.tobytes(), headers=key))
        assert answer.payload == EVEN.tobytes()


def large(nbytes: int) -> bytes:
    """The head of a request for that many bytes."""
    wish = {"parameters": {"binary_data_output": True}}
    return json.dumps(document(binary("INT8", [nbytes], nbytes), **wish)).encode()


def test_room() -> None:
    with Service("--max-bytes-in-flight", "8MiB") as service:
        head = large(6 * MIB)
        body = head + bytes(6 * MIB)
        fields = {HEADER_LENGTH: str(len(head))}
        reply = infer(service, large(9 * MIB), bytes(9 * MIB))
        assert reply.status == 413
        assert "8" in error_of(reply)
        with contextlib.closing(service.connection()) as slow:
            slow.putrequest("POST", infer_path("round"))
            for name, value in {**fields, "Content-Length": str(len(body))}.items():
                slow.putheader(name, value)
            slow.endheaders()
            slow.send(body[: 1 * MIB])
            deadline = time.monotonic() + 10
            while (
                reply := service.request("POST", infer_path("round"), body, fields)
            ).status == 200:
                assert time.monotonic() < deadline, "the slow request has its room by now"
            assert reply.status == 503
            assert reply.headers["Retry-After"]
            assert "room" in error_of(reply)
            assert infer(service, GOOD, X.tobytes()).status == 200  # a share is kept for small ones
            slow.send(body[1 * MIB :])
            assert Answer.of(Reply.read(slow)).payload == bytes(6 * MIB)
        assert service.request("POST", infer_path("round"), body, fields).status == 200


def test_json_counts_what_its_numbers_take() -> None:
    with Service("--max-bytes-in-flight", "8MiB") as service:
        x = np.ones(100_000, "i1")
        for _ in range(3):
            reply = infer(service, document(binary("INT8", [x.size], x.size)), x.tobytes())
            assert Answer.of(reply).output["data"] == x.tolist()


def test_pace() -> None:
    with Service("--receive-timeout", "0.5", "--min-receive-rate", str(MIB)) as service:
        head = large(4 * MIB)
        with contextlib.closing(service.connection(timeout=30)) as slow:
            slow.putrequest("POST", infer_path("round"))
            slow.putheader(HEADER_LENGTH, str(len(head)))
            slow.putheader("Content-Length", str(len(head) + 4 * MIB))
            slow.endheaders(head)
            reply = Reply.read(slow)
            assert reply.status == 408
            assert error_of(reply)
