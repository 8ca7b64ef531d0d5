"""Inference responses of the Open Inference Protocol (``/v2``): plain values to JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensor_round.contract.wire import strictjson


@dataclass(frozen=True, slots=True)
class ResponseOutput:
    """An output in a response's inference header; ``data`` is its JSON, if it is sent as JSON."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: Mapping[str, str | int]
    data: bytes | None = None

    def _text(self) -> bytes:
        members: dict[str, Any] = {
            "name": self.name,
            "datatype": self.datatype,
            "shape": list(self.shape),
        }
        if self.parameters:
            members["parameters"] = dict(self.parameters)
        text = strictjson.dumps(members)
        return text if self.data is None else text[:-1] + b',"data":' + self.data + b"}"


def write_response(
    model_name: str,
    model_version: str,
    request_id: str | None,
    outputs: Sequence[ResponseOutput],
) -> bytes:
    """The inference header of a response; binary outputs follow it in the order of ``outputs``."""
    members = {} if request_id is None else {"id": request_id}
    members |= {"model_name": model_name, "model_version": model_version}
    texts = b",".join(output._text() for output in outputs)
    return strictjson.dumps(members)[:-1] + b',"outputs":[' + texts + b"]}"


def write_error(detail: str) -> bytes:
    """The body of an error response, with ``detail`` on one line."""
    return strictjson.dumps({"error": " ".join(detail.split())})
