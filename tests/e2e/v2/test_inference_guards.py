"""Keys, room and pace of inferences: the service's guards in the protocol's words."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from support.http.inference_form import EVEN, OF_X, X, binary, document
from support.keys import needing
from support.services.server import Service
from support.v2.callers import Caller

GOOD = document(OF_X)
MIB = 1 << 20


@pytest.mark.parametrize(("field", "scheme"), [("Authorization", "Bearer "), ("X-API-Key", "")])
def test_keys(call: type[Caller], tmp_path: Path, field: str, scheme: str) -> None:
    key = {field: f"{scheme}open sesame"}
    with Service(*needing(tmp_path, "open sesame")) as service:
        caller = call(service)
        for wrong in ({}, {field: f"{scheme}close sesame"}):
            outcome = caller.infer(GOOD, X.tobytes(), fields=wrong)
            assert outcome.status == 401
            assert outcome.error
            for what in ("ServerMetadata", "ModelMetadata", "ModelStatistics", "RepositoryIndex"):
                assert caller.ask(what, wrong).status == 401
        assert caller.ask("ServerLive").head == {"live": True}
        assert caller.ask("ServerReady").head == {"ready": True}
        assert caller.infer(GOOD, X.tobytes(), fields=key).payload == EVEN.tobytes()
        assert caller.ask("ModelMetadata", key, name="round").head["name"] == "round"


def large(nbytes: int) -> dict[str, object]:
    """A request for that many bytes."""
    return document(binary("INT8", [nbytes], nbytes))


def test_room(call: type[Caller]) -> None:
    with Service("--max-bytes-in-flight", "8MiB") as service:
        caller = call(service)
        request, payload = large(6 * MIB), bytes(6 * MIB)
        refused = caller.infer(large(9 * MIB), bytes(9 * MIB))
        assert refused.status == 413
        assert "8" in refused.error
        with caller.begun(request, payload, 1 * MIB) as slow:
            deadline = time.monotonic() + 10
            while (refused := caller.infer(request, payload)).status == 200:
                assert time.monotonic() < deadline, "the slow request has its room by now"
            assert refused.status == 503
            assert "room" in refused.error
            assert refused.retry_after >= 1
            # A share is kept for small ones.
            assert caller.infer(GOOD, X.tobytes()).status == 200
            assert slow.finish().payload == payload
        assert caller.infer(request, payload).status == 200


def test_pace(call: type[Caller]) -> None:
    options = ("--receive-timeout", "0.5", "--min-receive-rate", str(MIB))
    with Service(*options) as service:
        with call(service).begun(large(4 * MIB), bytes(4 * MIB), 0) as slow:
            outcome = slow.outcome()
        assert outcome.status == 408
        assert outcome.error
