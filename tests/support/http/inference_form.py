"""Inference requests, for tests that speak HTTP themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from support.services.server import Reply, Service

HEADER_LENGTH = "Inference-Header-Content-Length"
X = np.array([-2.5, -1.75, -1.5, -1.25, -0.3, 0, 1.25, 1.5, 1.75, 2.5], "<f4")
EVEN = np.array([-2, -2, -2, -1, -0.0, 0, 1, 2, 2, 2], "<f4")
AWAY = np.array([-3, -2, -2, -1, -0.0, 0, 1, 2, 2, 3], "<f4")
ZERO = np.array([-2, -1, -1, -1, -0.0, 0, 1, 1, 1, 2], "<f4")
DIRECTML = "directml_element_wise_round"


def tensor(datatype: str, shape: list[int], name: str = "X", **members: Any) -> dict[str, Any]:
    """An input of a request."""
    return {"name": name, "datatype": datatype, "shape": shape, **members}


def binary(datatype: str, shape: list[int], nbytes: int, name: str = "X") -> dict[str, Any]:
    """An input whose numbers follow the head."""
    return tensor(datatype, shape, name, parameters={"binary_data_size": nbytes})


def document(source: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A request with that one input."""
    return {"inputs": [source], **members}


def infer_path(model: str, version: str | None = None) -> str:
    """Where a model is asked."""
    chosen = "" if version is None else f"/versions/{version}"
    return f"/v2/models/{model}{chosen}/infer"


def infer(
    service: Service,
    request: dict[str, Any] | bytes,
    payload: bytes | None = None,
    model: str = "round",
    version: str | None = None,
    headers: dict[str, str] | None = None,
) -> Reply:
    """Ask for an inference; with a payload, which follows the head, its length is stated."""
    head = request if isinstance(request, bytes) else json.dumps(request).encode()
    fields = dict(headers or {})
    if payload is not None:
        fields.setdefault(HEADER_LENGTH, str(len(head)))
    return service.request("POST", infer_path(model, version), head + (payload or b""), fields)


@dataclass(frozen=True)
class Outcome:
    """What came of a request.

    ``status`` is that of the access log: HTTP's. ``fields`` are those of the response, trailers
    included, by their names in lower case.
    """

    status: int
    error: str
    document: Any
    tensor: bytes
    fields: Mapping[str, str] = field(repr=False, compare=False)

    @classmethod
    def of(cls, reply: Reply, content: bytes | None = None) -> Outcome:
        """What a reply says; ``content`` is the reply's own, undone what it was packed in."""
        fields = {name.lower(): value for name, value in reply.headers.items()}
        if reply.status != 200:
            return cls(reply.status, error_of(reply), None, b"", fields)
        content = reply.content if content is None else content
        length = reply.headers[HEADER_LENGTH]
        kind = "application/json" if length is None else "application/octet-stream"
        assert reply.headers["Content-Type"] == kind
        split = len(content) if length is None else int(length)
        return cls(200, "", json.loads(content[:split]), content[split:], fields)

    @property
    def retry_after(self) -> int:
        """Seconds after which a refused caller is asked to come again."""
        pushback = self.fields.get("grpc-retry-pushback-ms")
        return int(self.fields["retry-after"]) if pushback is None else int(pushback) // 1000

    @property
    def is_ready(self) -> bool:
        """Whether what was asked about is ready; a no may be an error."""
        return self.status == 200 and self.document["ready"] is True

    @property
    def head(self) -> Any:
        """What was responded, as plain values; the request must have been good."""
        assert self.status == 200, (self.status, self.error)
        return self.document

    @property
    def payload(self) -> bytes:
        """The bytes of the output; none if they are in shared memory."""
        assert self.head is not None
        return self.tensor

    @property
    def output(self) -> dict[str, Any]:
        """The only output."""
        (output,) = self.head["outputs"]
        assert isinstance(output, dict)
        return output


def error_of(reply: Reply) -> str:
    """The text of an error, in the protocol's form."""
    assert reply.headers["Content-Type"] == "application/json", reply.headers
    body = reply.json()
    assert list(body) == ["error"], body
    text = body["error"]
    assert isinstance(text, str)
    assert text
    assert "\n" not in text
    return text


#: The input X, its numbers behind the head.
OF_X = binary("FP32", [X.size], X.nbytes)
#: The wish for numbers behind the head of the response.
BINARY_OUT = {"parameters": {"binary_data_output": True}}
#: A good request with its payload, and a document without one, to be varied.
PAYLOAD = X.tobytes()
GOOD = document(binary("FP32", [10], 40), parameters={"binary_data_output": True})
INLINE = tensor("FP32", [2], data=[0.5, 1.5])


def of(**members: Any) -> dict[str, Any]:
    return document({**INLINE, **members})
