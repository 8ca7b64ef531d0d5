"""Answers of the Open Inference Protocol (``/v2``): plain values to JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import strictjson


@dataclass(frozen=True, slots=True)
class AnsweredOutput:
    """An output as the answer's head tells of it; ``data`` is JSON where it is in the head."""

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


def write_answer(
    model_name: str,
    model_version: str,
    request_id: str | None,
    outputs: Sequence[AnsweredOutput],
) -> bytes:
    """The head of an inference's answer; its binary outputs follow in this order."""
    members = {} if request_id is None else {"id": request_id}
    members |= {"model_name": model_name, "model_version": model_version}
    texts = b",".join(output._text() for output in outputs)
    return strictjson.dumps(members)[:-1] + b',"outputs":[' + texts + b"]}"


def write_error(detail: str) -> bytes:
    """The body of every error: its text on one line."""
    return strictjson.dumps({"error": " ".join(detail.split())})
