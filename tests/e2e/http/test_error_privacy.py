"""What errors never tell: payload bytes, addresses, paths, code; whatever made them."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

import tensor_round_service
from support.http.native_form import ieee754
from support.services.server import Reply, Service

#: What every payload below has in it.
MARK = "kryptonite"
_ROOT = str(Path(tensor_round_service.__file__).parents[2])
_INTERNAL = re.compile(
    r"Traceback|\bline \d+, in |0x[0-9a-f]{6,}|\.py\b|site-packages|tensor_round(_service)?\.|"
    r"<class|object at|pydantic|numpy\.|starlette|fastapi|uvicorn|errors\.pydantic\.dev|"
    + re.escape(_ROOT),
    re.I,
)

JSON = {"Content-Type": "application/json"}
NPY = {"Content-Type": "application/x-npy"}


def octets(descriptor: str, **more: str) -> dict[str, str]:
    fields = {name.replace("_", "-"): value for name, value in more.items()}
    return {"Operator-Descriptor": descriptor, **fields}


def document(data: Any) -> str:
    descriptor = {"dialect": "ieee754", "input": {"dtype": "float32", "shape": [2]}}
    return json.dumps({"descriptor": descriptor, "data": data})


def inference(data: Any, **more: Any) -> str:
    tensor = {"name": "X", "shape": [2], "datatype": "FP32", "data": data, **more}
    return json.dumps({"inputs": [tensor]})


INFER = "/v2/models/round/infer"

CASES: list[tuple[str, str, str | bytes, dict[str, str]]] = [
    ("long", "/round", MARK, octets(ieee754("float32", [2]))),
    ("short", "/round", MARK, octets(ieee754("float32", [99]))),
    ("digest", "/round", MARK * 4, octets(ieee754("uint8", [40]), Content_Digest="sha-256=:AA==:")),
    ("not-gzip", "/round", MARK, octets(ieee754("uint8", [10]), Content_Encoding="gzip")),
    ("cut-gzip", "/round", gzip.compress(MARK.encode() * 9)[:-9],
     octets(ieee754("uint8", [90]), Content_Encoding="gzip")),
    ("no-descriptor", "/round", MARK, {}),
    ("other-type", "/round", MARK, {"Content-Type": "text/plain"}),
    ("json", "/round", MARK, JSON),
    ("json-open", "/round", '{"descriptor": "' + MARK, JSON),
    ("json-data", "/round", document(MARK), JSON),
    ("json-element", "/round", document([1, MARK]), JSON),
    ("json-object", "/round", document([{MARK: MARK}, 1]), JSON),
    ("json-ragged", "/round", document([[1, 2], [MARK]]), JSON),
    ("json-utf-8", "/round", b'{"data": "\xff' + MARK.encode(), JSON),
    ("npy", "/round", MARK, NPY),
    ("npy-header", "/round", b"\x93NUMPY\x01\x00\x0c\x00" + MARK.encode() + b"!\n", NPY),
    ("infer-json", INFER, MARK, JSON),
    ("infer-data", INFER, inference(MARK), JSON),
    ("infer-element", INFER, inference([1, MARK]), JSON),
    ("infer-object", INFER, inference([{MARK: 1}, 1]), JSON),
    ("infer-binary", INFER, json.dumps({"inputs": []}) + MARK,
     {"Inference-Header-Content-Length": "14"}),
    ("infer-length", INFER, MARK, {"Inference-Header-Content-Length": "9" * 30}),
    ("infer-raw", INFER, MARK + "!", {"Inference-Header-Content-Length": "0"}),
    ("infer-gzip", INFER, MARK, {**JSON, "Content-Encoding": "gzip"}),
    ("register", "/v2/systemsharedmemory/region/r/register",
     json.dumps({"key": f"/{MARK}", "offset": 0, "byte_size": 4}), JSON),
    ("unknown-path", f"/{'x' * 50}", MARK, {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "body", "headers"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_refusal_tells_nothing_of_payload_or_inside(
    service: Service, path: str, body: str | bytes, headers: dict[str, str]
) -> None:
    content = body if isinstance(body, bytes) else body.encode()
    reply = service.request("POST", path, content, headers)
    assert 400 <= reply.status < 500 or reply.status == 501
    told = reply.content.decode() + str(reply.headers)
    assert MARK not in told
    assert not _INTERNAL.search(told), told
    assert ("/v2" in path) == (list(reply.json()) == ["error"])


@pytest.mark.not_behind("nginx", reason="nothing of it comes to the service")
def test_bytes_that_are_not_http_get_no_details(service: Service) -> None:
    for request in (b"\x16\x03\x01\x02\x00\x01", b"GET / kryptonite\r\n\r\n", b"A" * 40_000):
        with contextlib.closing(service.connect(timeout=15)) as plug:
            plug.sendall(request)
            told = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := plug.recv(1 << 16):
                    told += piece
        assert b"kryptonite" not in told
        assert not _INTERNAL.search(told.decode("latin-1")), told


@pytest.mark.not_behind("nginx", reason="it adds fields, and refuses large heads by itself")
def test_headers_of_every_kind_of_answer(service: Service) -> None:
    replies: dict[str, Reply] = {
        "good": service.request("POST", "/round", b"", octets(ieee754("uint8", [0]))),
        "refused": service.request("POST", "/round", b"", octets("{")),
        "status": service.get("/operators"),
        "inference": service.get("/v2/models/round"),
        "missing": service.get("/nothing"),
        "page": service.get("/docs"),
        "file": service.get("/docs/swagger-ui.css"),
        "large-head": service.request("GET", "/livez", headers={"X": "x" * 33_000}),
    }
    for name, reply in replies.items():
        assert reply.headers.get_all("X-Content-Type-Options") == ["nosniff"], name
        assert "Server" not in reply.headers, name
    for name in ("status", "inference", "missing", "page"):
        assert replies[name].headers.get_all("Cache-Control") == ["no-store"], name
    assert replies["file"].headers.get_all("Cache-Control") == ["no-cache"]
