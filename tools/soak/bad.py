"""Requests that must be refused, each with the status and code that the contract has for it."""

from __future__ import annotations

import asyncio
import gzip
import json
from dataclasses import dataclass, field

import numpy as np

from fuzz import mutation, raw_http, seeds
from support.http.inference_form import HEADER_LENGTH, binary, document, infer_path
from support.http.native_form import ieee754

from .cases import Wrong
from .lane import Lane

_X = np.arange(1000, dtype="<f4").tobytes()
_OPERATOR = "Operator-Descriptor"
_SOUND = {_OPERATOR: ieee754("float32", [1000])}
_SEEDS = seeds.requests()


@dataclass(frozen=True)
class Bad:
    """A request, and how it is refused; the protocol's face under /v2 has no codes."""

    status: int
    code: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = _X
    path: str = "/round"
    method: str = "POST"

    def __call__(self, lane: Lane) -> None:
        """Ask, and raise :class:`Wrong` unless it is refused in just this way."""
        reply = lane.ask(self.path, self.body, self.headers, self.method)
        told = reply.json() if reply.content else {}
        if reply.status != self.status or told.get("code", "") != self.code:
            raise Wrong(f"{reply.status} {reply.content[:200]!r}, not {self.status} {self.code}")


def _descriptor(**changes: object) -> dict[str, str]:
    return {_OPERATOR: json.dumps({**json.loads(_SOUND[_OPERATOR]), **changes})}


def _input(**changes: object) -> dict[str, str]:
    return _descriptor(input={"dtype": "float32", "shape": [1000], **changes})


_HEAD = json.dumps(document(binary("FP32", [1000], 4000))).encode()
_MISSTATED = json.dumps(document(binary("FP32", [999], 4000))).encode()
_NPY = {"Content-Type": "application/x-npy"}
_JSON = {"Content-Type": "application/json"}

BAD: dict[str, Bad] = {
    "no descriptor": Bad(400, "missing_descriptor"),
    "descriptor is no JSON": Bad(400, "malformed_json", {_OPERATOR: '{"dialect": '}),
    "unknown dialect": Bad(422, "invalid_descriptor", _descriptor(dialect="latin")),
    "unknown field": Bad(422, "invalid_descriptor", _descriptor(colour="red")),
    "unknown dtype": Bad(422, "invalid_descriptor", _input(dtype="float12")),
    "negative size": Bad(422, "invalid_descriptor", _input(shape=[-1])),
    "shape is no list": Bad(422, "invalid_descriptor", _input(shape="1000")),
    "overlapping output": Bad(
        422,
        "invalid_descriptor",
        _descriptor(output={"dtype": "float32", "shape": [1000], "strides": [0]}),
    ),
    "body too short": Bad(400, "payload_size_mismatch", _SOUND, _X[:-1]),
    "body too long": Bad(400, "payload_size_mismatch", _SOUND, _X + b"!"),
    "large body too long": Bad(400, "payload_size_mismatch", _SOUND, _X * 700),
    "tensor too large": Bad(413, "tensor_too_large", _input(shape=[1 << 40])),
    "unknown media type": Bad(415, "unsupported_media_type", {"Content-Type": "image/png"}),
    "unknown encoding": Bad(415, "unsupported_encoding", {**_SOUND, "Content-Encoding": "br"}),
    "no gzip": Bad(400, "malformed_encoding", {**_SOUND, "Content-Encoding": "gzip"}),
    "gzip cut short": Bad(
        400,
        "malformed_encoding",
        {**_SOUND, "Content-Encoding": "gzip"},
        gzip.compress(_X)[:-9],
    ),
    "gzip bomb": Bad(
        400,
        "payload_size_mismatch",
        {**_SOUND, "Content-Encoding": "gzip"},
        gzip.compress(bytes(32 << 20)),
    ),
    "another digest": Bad(
        400,
        "digest_mismatch",
        {**_SOUND, "Content-Digest": f"sha-256=:{'A' * 43}=:"},
    ),
    "no npy": Bad(400, "malformed_npy", _NPY),
    "npy cut short": Bad(400, "malformed_npy", _NPY, seeds.npy_files()[0][:40]),
    "document is no JSON": Bad(400, "malformed_json", _JSON, b"[[[[["),
    "large head": Bad(431, "headers_too_large", {**_SOUND, "X-Long": "a" * 40_000}),
    "nothing there": Bad(404, "not_found", path="/rounds"),
    "another method": Bad(405, "method_not_allowed", method="DELETE"),
    "model unknown": Bad(404, "", _JSON, _HEAD, infer_path("square")),
    "inference cut short": Bad(
        400, "", {HEADER_LENGTH: str(len(_HEAD))}, _HEAD + _X[:-1], infer_path("round")
    ),
    "inference misstated": Bad(
        400, "", {HEADER_LENGTH: str(len(_MISSTATED))}, _MISSTATED + _X, infer_path("round")
    ),
}


def spoilt(lane: Lane) -> None:
    """Sound requests spoilt anywhere, as the fuzzer does: any documented answer will do."""
    lane.hang_up()  # one that is not whole takes its time, and the connection would be idle
    message = mutation.bend(lane.chance, lane.chance.choice(_SEEDS), _SEEDS)
    answer = asyncio.run(raw_http.exchange(lane.service.port, message))
    lane.ledger.answered(int(answer[9:12] or 0))
    if what := raw_http.complaint(answer):
        raise Wrong(f"{what}: {answer[:300]!r} to {message[:1000]!r}")
