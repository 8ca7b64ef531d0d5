"""Sound requests of every form, each with the answer that it must get."""

from __future__ import annotations

import gzip
import io
import json
import random
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from support.http.inference_form import HEADER_LENGTH, binary, document, infer_path
from support.http.inference_form import tensor as source_of
from support.http.native_form import ieee754

from . import tensors
from .exchange import After, Answer, Judge, Request, bare, composed, digest_of

_OPERATOR = "Operator-Descriptor: "
_DATATYPES = {"float32": "FP32", "float16": "FP16", "float64": "FP64", "int32": "INT32"}
#: The most numbers of a JSON document.
_NUMBERS = 400


def octets(chance: random.Random) -> Request:
    """The octet-stream form, of any size."""
    x = tensors.drawn(chance)
    fields = [_OPERATOR + ieee754(x.dtype, [x.count], x.rounding)]
    fields += chance.choice(([], ["Content-Type: application/octet-stream"]))
    if chance.random() < 0.08:
        fields.append(f"Content-Digest: {digest_of(x.given)}")
    wants = chance.random() < 0.08
    if wants:
        fields.append("Want-Content-Digest: sha-256=1")
    judge = bits(x.right, digest=wants)
    return composed(chance, f"octets {x.dtype}", "POST /round", x.given, fields, judge)


def packed(chance: random.Random) -> Request:
    """A body in gzip or deflate; a digest is of what is sent."""
    x = tensors.drawn(chance, most=chance.choice((4096, 70 << 10)))
    encoding, pack = chance.choice((("gzip", gzip.compress), ("deflate", zlib.compress)))
    body = pack(x.given, 1)
    fields = [_OPERATOR + ieee754(x.dtype, [x.count], x.rounding), f"Content-Encoding: {encoding}"]
    if chance.random() < 0.1:
        fields.append(f"Content-Digest: {digest_of(body)}")
    name = f"{encoding} {x.dtype}"
    return composed(chance, name, "POST /round", body, fields, bits(x.right))


def directml(chance: random.Random) -> Request:
    """An odd count of float16, with the length rounded up to 4 or not; the answer has it so."""
    count = chance.choice((1, 3, 5, 5, 33, 1001, 2047, 4095, 32_765, 32_769, 51_201))
    x = tensors.cut(chance, "float16", count, "ties_to_even")
    padded = chance.random() < 0.3
    body = x.given + bytes(2 if padded else 0)
    fields = [_OPERATOR + _directml_operator(count)]
    name = f"directml {'rounded' if padded else 'unrounded'}"
    return composed(chance, name, "POST /round", body, fields, bits(x.right + bytes(2)))


def _directml_operator(count: int) -> str:
    layout = {"DataType": "FLOAT16", "Sizes": [count]}
    desc = {"InputTensor": layout, "OutputTensor": layout, "RoundingMode": 0}
    kind = "DML_OPERATOR_ELEMENT_WISE_ROUND"
    return json.dumps({"dialect": "directml", "feature_level": "3_0", "type": kind, "desc": desc})


def npy(chance: random.Random) -> Request:
    """A file in, a file with the same head out."""
    x = tensors.drawn(chance, dtypes=("float32", "float16", "float64"))
    file = io.BytesIO()
    np.save(file, np.frombuffer(x.given, np.dtype(x.dtype).newbyteorder("<")))
    body = file.getvalue()
    head = body[: len(body) - len(x.given)]
    target = f"POST /round?rounding={x.rounding}"
    fields = ["Content-Type: application/x-npy"]
    return composed(chance, "npy", target, body, fields, bits(head + x.right))


def document_form(chance: random.Random) -> Request:
    """Numbers in JSON, which come back so."""
    given, right = _numbers(chance)
    descriptor = json.loads(ieee754("float32", [len(given)]))
    body = json.dumps({"descriptor": descriptor, "data": given}).encode()

    def judge(answer: Answer) -> str | None:
        return _not_ok(answer) or _other_numbers(json.loads(answer.content)["data"], right)

    fields = ["Content-Type: application/json"]
    return composed(chance, "json", "POST /round", body, fields, judge)


def inference(chance: random.Random) -> Request:
    """An inference whose numbers, both ways, are bytes behind the JSON."""
    x = tensors.drawn(chance, dtypes=tuple(_DATATYPES))
    own = chance.choice(("", "a", "b", f"{chance.getrandbits(64):x}"))
    members: dict[str, Any] = {"id": own} if own else {}
    members["outputs"] = [{"name": "Y", "parameters": {"binary_data": True}}]
    members["parameters"] = {"rounding": x.rounding}
    given = binary(_DATATYPES[x.dtype], [x.count], len(x.given))
    head = json.dumps(document(given, **members)).encode()
    fields = [f"{HEADER_LENGTH}: {len(head)}"]
    body = head + x.given
    if len(body) < 20_000 and chance.random() < 0.15:
        body = gzip.compress(body, 1)
        fields.append("Content-Encoding: gzip")

    def judge(answer: Answer) -> str | None:
        if wrong := _not_ok(answer):
            return wrong
        length = int(answer.fields.get(HEADER_LENGTH.lower(), len(answer.content)))
        told = json.loads(answer.content[:length])
        if told.get("id", "") != own:
            return f"the inference's id is {told.get('id')!r}, not {own!r}"
        return None if answer.content[length:] == x.right else "other bits"

    return composed(chance, f"infer {x.dtype}", f"POST {infer_path('round')}", body, fields, judge)


def inference_in_json(chance: random.Random) -> Request:
    """An inference whose numbers are in the JSON."""
    given, right = _numbers(chance)
    body = json.dumps(document(source_of("FP32", [len(given)], data=given))).encode()

    def judge(answer: Answer) -> str | None:
        if wrong := _not_ok(answer):
            return wrong
        (output,) = json.loads(answer.content)["outputs"]
        return _other_numbers(output["data"], right)

    fields = chance.choice(([], ["Content-Type: application/json"]))
    return composed(chance, "infer json", f"POST {infer_path('round')}", body, fields, judge)


def inference_raw(chance: random.Random) -> Request:
    """A body that is one vector of FP32."""
    count = tensors.size(chance) // 4
    x = tensors.cut(chance, "float32", count, "ties_to_even")

    def judge(answer: Answer) -> str | None:
        length = int(answer.fields.get(HEADER_LENGTH.lower(), 0))
        found = answer.content[length:]
        return _not_ok(answer) or (None if found == x.right else "other bits")

    fields = [f"{HEADER_LENGTH}: 0"]
    target = f"POST {infer_path('round')}"
    return composed(chance, "infer raw", target, x.given, fields, judge)


def health(chance: random.Random) -> Request:
    """Small requests without a body."""
    path = chance.choice(("/livez", "/livez", "/readyz", "/v2/health/live", "/v2/models/round"))
    return bare(f"GET {path}", f"GET {path}", json_object)


def operators(chance: random.Random) -> Request:
    """A large answer of the framework."""
    return bare("GET /operators", "GET /operators", json_object)


def control(chance: random.Random) -> Request:
    """A small body that the framework reads."""
    fields = ["Content-Type: application/json"]
    return composed(chance, "index", "POST /v2/repository/index", b"{}", fields, json_list)


def ignored_body(chance: random.Random) -> Request:
    """A body that nobody wants, with which the connection stays as it is or ends."""
    body = chance.randbytes(chance.choice((0, 3, 100, 3000)))
    made = composed(chance, "GET /livez with a body", "GET /livez", body, [], json_object)
    return replace(made, after=made.after if made.after is After.CLOSED else After.EITHER)


SOUND: dict[Callable[[random.Random], Request], int] = {
    octets: 34,
    packed: 7,
    directml: 12,
    npy: 6,
    document_form: 5,
    inference: 10,
    inference_in_json: 4,
    inference_raw: 4,
    health: 8,
    operators: 2,
    control: 3,
    ignored_body: 1,
}


def bits(right: bytes, *, digest: bool = False) -> Judge:
    """The rule for an answer that is these bytes."""

    def judge(answer: Answer) -> str | None:
        if wrong := _not_ok(answer):
            return wrong
        if answer.content != right:
            return f"other bits: {len(answer.content)} bytes, {len(right)} are right"
        if digest and answer.fields.get("content-digest") != digest_of(right):
            return "another Content-Digest"
        return None if "x-request-id" in answer.fields else "no X-Request-ID"

    return judge


def json_object(answer: Answer) -> str | None:
    """The rule for an answer that is any JSON object."""
    return _not_ok(answer) or (None if answer.content[:1] == b"{" else "no JSON object")


def json_list(answer: Answer) -> str | None:
    """The rule for an answer that is any JSON array."""
    return _not_ok(answer) or (None if answer.content[:1] == b"[" else "no JSON array")


def _not_ok(answer: Answer) -> str | None:
    return None if answer.status == 200 else f"status {answer.status}, not 200"


def _numbers(chance: random.Random) -> tuple[list[float], bytes]:
    """Quarters, which JSON and float32 have exactly, and the bits that are right for them."""
    given = [chance.randrange(-4000, 4000) / 4 for _ in range(chance.choice((1, 3, 7, _NUMBERS)))]
    return given, np.rint(np.array(given, "<f4")).tobytes()


def _other_numbers(found: list[float], right: bytes) -> str | None:
    return None if np.array(found, "<f4").tobytes() == right else "other numbers"
