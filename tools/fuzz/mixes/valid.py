"""Valid requests in every representation, each with the response that it must get."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from support.cases.array_cases import Array, DrawnTensor
from support.http.inference_form import HEADER_LENGTH, binary, document, infer_path
from support.http.inference_form import tensor as inference_input
from tensor_round.contract.dtypes import DTYPES, ROUNDABLE, DType

from . import drawing
from .drawing import Source, described, descriptor, numbers, other_numbers
from .messages import After, Check, Request, Response, bare, composed, digest_of, not_ok

_OPERATOR = "Operator-Descriptor: "
_JSON = "Content-Type: application/json"
_INFER = f"POST {infer_path('round')}"
#: The most bytes of a tensor that travels as text.
TEXT_BYTES = 8 << 10
#: Types that .npy files have no name for, and what they are there.
_RAW = {d.name: f"V{d.itemsize}" for d in DTYPES if not d.is_named_by_npy}
#: Types that have strides.
_STRIDED = tuple(d.name for d in ROUNDABLE if not d.is_sub_byte)
#: Types whose numbers the Open Inference Protocol has in JSON.
_IN_JSON = ("float16", "float32", "float64", "int8", "uint16", "int32", "int64", "uint64")


def octets(source: Source) -> Request:
    """The tensor's bytes, in any dialect."""
    x = drawing.tensor(source, casts=True)
    text, padding = descriptor(x, source)
    fields = [_OPERATOR + text]
    fields += source.choice(([], ["Content-Type: application/octet-stream"]))
    if source.random() < 0.08:
        fields.append(f"Content-Digest: {digest_of(x.payload)}")
    wants = source.random() < 0.08
    if wants:
        fields.append("Want-Content-Digest: sha-256=1")
    check = content(x.result + bytes(padding), digest=wants)
    return composed(source, f"octets {_named(x)}", "POST /round", x.payload, fields, check)


def small(source: Source) -> Request:
    """At most 4 KiB of float32."""
    x = DrawnTensor.drawn(source, 4096, "float32")
    return composed(source, "small", "POST /round", x.payload, [_described(x)], content(x.result))


def packed(source: Source) -> Request:
    """A body in gzip or deflate; a digest is of what is sent."""
    x = drawing.tensor(source, source.choice((4096, 70 << 10, 1 << 20)), casts=True)
    encoding, pack = source.choice((("gzip", gzip.compress), ("deflate", zlib.compress)))
    body = pack(x.payload, 1)
    fields = [_described(x), f"Content-Encoding: {encoding}"]
    if source.random() < 0.1:
        fields.append(f"Content-Digest: {digest_of(body)}")
    name = f"{encoding} {_named(x)}"
    return composed(source, name, "POST /round", body, fields, content(x.result))


def strided(source: Source) -> Request:
    """Rows with gaps, in and out; what lies in the response's gaps is zero."""
    x = drawing.tensor(source, 1 << 19, _STRIDED)
    columns = source.choice((1, 3, 16))
    rows = x.x.size // columns
    width_in, width_out = columns + source.randrange(4), columns + source.randrange(4)
    given = np.full((rows, width_in), 0xA5, x.expected.dtype)
    right = np.zeros((rows, width_out), x.expected.dtype)
    given[:, :columns] = x.x.view(given.dtype)[: rows * columns].reshape(rows, columns)
    right[:, :columns] = x.expected[: rows * columns].reshape(rows, columns)
    layout = {"dtype": x.dtype.name, "shape": [rows, columns]}
    operator = {
        "dialect": "ieee754",
        "rounding": x.rounding,
        "input": {**layout, "strides": [width_in, 1], "byte_length": given.nbytes},
        "output": {**layout, "strides": [width_out, 1], "byte_length": right.nbytes},
    }
    fields = [_OPERATOR + json.dumps(operator)]
    check = content(right.tobytes())
    return composed(source, "strided", "POST /round", given.tobytes(), fields, check)


def npy(source: Source) -> Request:
    """A .npy file, in either order of dimensions and of bytes; the response has the same head."""
    x = drawing.tensor(source, casts=True)
    target = f"POST /round?rounding={x.rounding}"
    if x.is_cast:
        target += f"&to={x.target.name}&saturate={json.dumps(x.saturates)}"
    rows = source.choice([n for n in (1, 2, 3) if x.x.size % n == 0])
    by_columns = source.random() < 0.5
    given, right = (_shaped(each, rows, by_columns=by_columns) for each in (x.x, x.rounded))
    if x.dtype.name in _RAW:
        target += f"&dtype={x.dtype.name}"
        given = given.view(_RAW[x.dtype.name])
    elif source.random() < 0.3 and not x.is_cast:
        given, right = _swapped(given), _swapped(right)
    if x.target.name in _RAW:
        right = right.view(_RAW[x.target.name])
    fields = ["Content-Type: application/x-npy"]
    check = content(_file(right))
    return composed(source, f"npy {_named(x)}", target, _file(given), fields, check)


def json_document(source: Source) -> Request:
    """Operator and numbers in JSON; the numbers come back so."""
    x = drawing.tensor(source, TEXT_BYTES, casts=True)
    shape = [x.x.size]
    operator = json.loads(described(x, shape))
    body = json.dumps({"descriptor": operator, "data": numbers(x)}).encode()

    def check(response: Response) -> str | None:
        if wrong := not_ok(response):
            return wrong
        told = json.loads(response.content)
        if told["output"] != {"dtype": x.target.name, "shape": shape}:
            return f"output {told['output']}"
        return other_numbers(x, told["data"])

    return composed(source, f"json {_named(x)}", "POST /round", body, [_JSON], check)


def inference(source: Source) -> Request:
    """An inference whose numbers, both ways, are bytes behind the JSON."""
    x = drawing.tensor(source, casts=True)
    identity = source.choice(("", "a", "b", f"{source.getrandbits(64):x}"))
    datatype, parameters = _datatype(x.dtype)
    members: dict[str, Any] = {"id": identity} if identity else {}
    if source.random() < 0.5:
        members["outputs"] = [{"name": "Y", "parameters": {"binary_data": True}}]
    else:
        parameters["binary_data_output"] = True
    cast = {"to": x.target.name, "saturate": x.saturates} if x.is_cast else {}
    members["parameters"] = {"rounding": x.rounding, **cast, **parameters}
    size = len(x.payload) if x.dtype.is_sub_byte else x.x.size
    given = binary(datatype, [size], len(x.payload))
    head = json.dumps(document(given, **members)).encode()
    fields = [f"{HEADER_LENGTH}: {len(head)}"]
    body = head + x.payload
    if len(body) < 20_000 and source.random() < 0.15:
        body = gzip.compress(body, 1)
        fields.append("Content-Encoding: gzip")

    def check(response: Response) -> str | None:
        if wrong := not_ok(response) or _other_type(response):
            return wrong
        length = int(response.fields.get(HEADER_LENGTH.lower(), len(response.content)))
        told = json.loads(response.content[:length])
        if told.get("id", "") != identity:
            return f"the inference's id is {told.get('id')!r}, not {identity!r}"
        return None if response.content[length:] == x.result else "other bits"

    path = f"POST {infer_path('cast' if x.is_cast else 'round')}"
    return composed(source, f"infer {_named(x)}", path, body, fields, check)


def inference_in_json(source: Source) -> Request:
    """An inference whose numbers are in the JSON."""
    x = drawing.tensor(source, TEXT_BYTES, _IN_JSON)
    datatype, parameters = _datatype(x.dtype)
    given = inference_input(datatype, [x.x.size], data=numbers(x))
    parameters["rounding"] = x.rounding
    body = json.dumps(document(given, parameters=parameters)).encode()

    def check(response: Response) -> str | None:
        if wrong := not_ok(response) or _other_type(response):
            return wrong
        (output,) = json.loads(response.content)["outputs"]
        return other_numbers(x, output["data"])

    return composed(source, "infer json", _INFER, body, source.choice(([], [_JSON])), check)


def inference_raw(source: Source) -> Request:
    """A body that is one vector of FP32."""
    x = drawing.of(source, "float32", "ties_to_even", max(1, drawing.size(source) // 4))

    def check(response: Response) -> str | None:
        length = int(response.fields.get(HEADER_LENGTH.lower(), 0))
        found = response.content[length:]
        return not_ok(response) or (None if found == x.result else "other bits")

    return composed(source, "infer raw", _INFER, x.payload, [f"{HEADER_LENGTH}: 0"], check)


def health(source: Source) -> Request:
    """Small requests without a body."""
    path = source.choice(("/livez", "/livez", "/readyz", "/v2/health/live", "/v2/models/round"))
    return bare(f"GET {path}", f"GET {path}", json_object)


def operators(source: Source) -> Request:
    """A large response of the framework."""
    return bare("GET /operators", "GET /operators", json_object)


def control(source: Source) -> Request:
    """A small body that the framework reads."""
    return composed(source, "index", "POST /v2/repository/index", b"{}", [_JSON], json_array)


def ignored_body(source: Source) -> Request:
    """A body that no route reads; the connection stays or ends."""
    body = source.randbytes(source.choice((0, 3, 100, 3000)))
    request = composed(source, "GET /livez with a body", "GET /livez", body, [], json_object)
    return replace(request, after=request.after if request.after is After.CLOSED else After.EITHER)


#: Every kind, and how often it comes beside the others.
VALID: dict[Callable[[Source], Request], int] = {
    octets: 46,
    packed: 7,
    strided: 4,
    npy: 6,
    json_document: 5,
    inference: 10,
    inference_in_json: 4,
    inference_raw: 4,
    health: 8,
    operators: 2,
    control: 3,
    ignored_body: 1,
}


def content(right: bytes, *, digest: bool = False) -> Check:
    """The rule for a response that is these bytes."""

    def check(response: Response) -> str | None:
        if wrong := not_ok(response):
            return wrong
        if response.content != right:
            return f"other bits: {len(response.content)} bytes, {len(right)} are right"
        if digest and response.fields.get("content-digest") != digest_of(right):
            return "another Content-Digest"
        return None if "x-request-id" in response.fields else "no X-Request-ID"

    return check


def json_object(response: Response) -> str | None:
    """The rule for a response that is any JSON object."""
    return not_ok(response) or (None if response.content[:1] == b"{" else "no JSON object")


def json_array(response: Response) -> str | None:
    """The rule for a response that is any JSON array."""
    return not_ok(response) or (None if response.content[:1] == b"[" else "no JSON array")


def _other_type(response: Response) -> str | None:
    """The rule for the media type of an inference's response."""
    is_binary = HEADER_LENGTH.lower() in response.fields
    right = "application/octet-stream" if is_binary else "application/json"
    found = response.fields.get("content-type")
    return None if found == right else f"Content-Type {found}"


def _described(x: DrawnTensor) -> str:
    return _OPERATOR + described(x, [x.x.size])


def _named(x: DrawnTensor) -> str:
    return f"{x.dtype.name} to {x.target.name}" if x.is_cast else x.dtype.name


def _datatype(dtype: DType) -> tuple[str, dict[str, Any]]:
    # The protocol has no name for floats of 8 bits, and for types of 4.
    return (dtype.oip, {}) if dtype.oip else ("UINT8", {"dtype": dtype.name})


def _shaped(x: Array, rows: int, *, by_columns: bool) -> Array:
    if not x.size:
        return x.reshape(0, 3)
    return x.reshape(-1, rows).T if by_columns else x.reshape(rows, -1)


def _swapped(x: Array) -> Array:
    # By bits: a conversion may quieten NaNs.
    return x.byteswap().view(x.dtype.newbyteorder(">"))


def _file(x: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, x)
    return file.getvalue()
