"""Every way in which JSON is refused: status, the one line, and a good request after it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.cases.inference_refusals import GOOD, INLINE, PAYLOAD, of
from support.http.inference_form import EVEN, Answer, binary, document, error_of, infer, tensor
from support.services.server import Service


def parameters(**values: Any) -> dict[str, Any]:
    return document(INLINE, parameters=values)


# What is sent, what follows it; status, and what the error says.
CASES: dict[str, tuple[Any, bytes | None, int, str]] = {
    "empty-body": (b"", None, 400, "empty"),
    "not-json": (b"{", None, 400, "not JSON"),
    "no-object": (b"[]", None, 400, "must be a JSON object"),
    "key-twice": (b'{"inputs":[],"inputs":[]}', None, 400, "twice"),
    "deep": (b'{"inputs":' + b"[" * 5000, None, 400, "deeper"),
    "not-utf-8": (b'{"id":"\xff"}', None, 400, "UTF-8"),
    "no-inputs": ({}, None, 400, "inputs: is required"),
    "shape-text": (of(shape="2"), None, 400, "inputs.0.shape"),
    "shape-float": (of(shape=[2.0]), None, 400, "inputs.0.shape.0"),
    "bytes": (of(datatype="BYTES", data=["a", "b"]), None, 400, 'got "BYTES"'),
    "dtype-number": (of(parameters={"dtype": 8}), None, 400, "dtype of a FP32"),
    "no-source": (document(tensor("FP32", [2])), None, 400, "exactly one of data"),
    "two-sources": (of(parameters={"binary_data_size": 8}), None, 400, "got 2"),
    "few-numbers": (of(data=[1]), None, 400, "has 1 elements"),
    "many-numbers": (of(data=[1, 2, 3]), None, 400, "has 3 elements"),
    "number-for-array": (of(data=1), None, 400, "inputs.0.data: must be an array"),
    "text": (of(data=["0.5", 1]), None, 400, "inputs.0.data.0: must be a number"),
    "boolean": (of(data=[[True], 1]), None, 400, "inputs.0.data.0.0: must be a number"),
    "null": (of(data=[1, None]), None, 400, "inputs.0.data.1"),
    "object": (of(data=[1, {}]), None, 400, "inputs.0.data.1"),
    "fraction": (of(datatype="INT8", data=[1, 1.5]), None, 400, "from -128 to 127"),
    "too-large-integer": (of(datatype="UINT8", data=[1, 256]), None, 400, "0 to 255"),
    "binary-size": (document(binary("FP32", [10], 44)), PAYLOAD + bytes(4), 400,
                    "40 bytes by its shape and datatype, the request gives 44"),
    "length-not-stated": (json.dumps(GOOD).encode() + PAYLOAD, None, 400, "JSON"),
    "bytes-after-numbers": (document(INLINE), b"x", 400, "0 bytes"),
    "id": (document(INLINE, id=1), None, 400, "id: must be a string"),
    "parameter-null": (parameters(a=None), None, 400, "parameters.a"),
    "parameter-object": (parameters(a={}), None, 400, "parameters.a"),
    "outputs": (document(INLINE, outputs={}), None, 400, "outputs: must be an array"),
    "strict-json-text": (parameters(strict_json="true"), None, 400,
                         "parameters.strict_json: must be true or false"),
    "binary-wish": (document(INLINE, outputs=[{"name": "Y", "parameters": {"binary_data": 1}}]),
                    None, 400, "true or false"),
    "overflowing-numbers": (of(shape=[1 << 32, 1 << 32]), None, 413, "limit"),
    "beyond-any-size": (of(shape=[1 << 64]), None, 400, "inputs.0"),
    "too-large": (document(binary("FP32", [1 << 31], 1 << 33)), b"", 413, "limit"),
    "long-head": (json.dumps(GOOD).encode() + b" " * (64 << 10), PAYLOAD, 413, "65536"),
}  # fmt: skip


@pytest.mark.parametrize(("request_", "payload", "status", "says"), CASES.values(), ids=CASES)
def test_refusals(
    service: Service, request_: Any, payload: bytes | None, status: int, says: str
) -> None:
    reply = infer(service, request_, payload)
    text = error_of(reply)
    assert reply.status == status, text
    assert says in text
    assert len(text) < 400
    assert Answer.of(infer(service, GOOD, PAYLOAD)).payload == EVEN.tobytes()


@pytest.mark.parametrize(
    "head",
    [
        b'{"inputs":"' + b"SECRET" * 100 + b'"}',
        b'{"inputs":[{"name":"' + b"SECRET" * 100 + b'"}]}',
        json.dumps(of(data=["SECRET", 1])).encode(),
        b"SECRET" * 100,
    ],
)
def test_errors_echo_little(service: Service, head: bytes) -> None:
    text = error_of(infer(service, head))
    assert "SECRET" * 10 not in text
    assert len(text) < 200
