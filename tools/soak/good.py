"""Sound requests in every form; each raises if the answer is not the right one."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterator

import numpy as np

from support.cases.array_cases import Array
from support.http.inference_form import HEADER_LENGTH, Answer, binary, document, infer_path, tensor
from support.http.native_form import ieee754
from tensor_round.dtypes import DType

from .cases import Case, Wrong
from .descriptors import descriptor
from .lane import Lane

#: The most bytes of a tensor that travels as text.
TEXT_BYTES = 8 << 10
#: Types that .npy files have no name for, and what they are there.
_RAW = {"bfloat16": "V2", "float8_e4m3fn": "V1", "float8_e5m2": "V1"}
_OCTETS = {"Content-Type": "application/octet-stream"}


def octets(lane: Lane) -> None:
    """The tensor's bytes, in any dialect."""
    case = Case.drawn(lane.chance)
    text, padding = descriptor(case, case.shape(lane.chance), lane.chance)
    reply = lane.ask("/round", case.payload, {**_OCTETS, "Operator-Descriptor": text})
    content = lane.good(reply).content
    case.check(content[: len(content) - padding])
    if content[len(content) - padding :] != bytes(padding):
        raise Wrong(f"{case}: stale bytes behind the result")


def chunked(lane: Lane) -> None:
    """A body whose length nobody states."""
    case = Case.drawn(lane.chance)
    payload = case.payload

    def pieces() -> Iterator[bytes]:
        at = 0
        while at < len(payload):
            end = at + lane.chance.randrange(1, 1 << 17)
            yield payload[at:end]
            at = end

    head = {**_described(case), "Transfer-Encoding": "chunked"}
    case.check(lane.good(lane.ask("/round", pieces(), head, chunked=True)).content)


def packed(lane: Lane) -> None:
    """A body in gzip or deflate."""
    case = Case.drawn(lane.chance, 1 << 20)
    encoding = lane.chance.choice(("gzip", "deflate"))
    pack = gzip.compress if encoding == "gzip" else zlib.compress
    head = {**_described(case), "Content-Encoding": encoding}
    case.check(lane.good(lane.ask("/round", pack(case.payload, 1), head)).content)


def digested(lane: Lane) -> None:
    """Both bodies with their digest."""
    case = Case.drawn(lane.chance)
    digest = _digest(case.payload)
    head = {**_described(case), "Content-Digest": digest, "Want-Content-Digest": "sha-256=1"}
    reply = lane.good(lane.ask("/round", case.payload, head))
    case.check(reply.content)
    if reply.headers["Content-Digest"] != _digest(reply.content):
        raise Wrong(f"{case}: the answer's digest is {reply.headers['Content-Digest']}")


def strided(lane: Lane) -> None:
    """Rows with gaps, in and out; what lies in the answer's gaps is zero."""
    case = Case.drawn(lane.chance, 1 << 19)
    columns = lane.chance.choice((1, 3, 16))
    rows = case.x.size // columns
    wide_in, wide_out = columns + lane.chance.randrange(4), columns + lane.chance.randrange(4)
    nbytes_in, nbytes_out = (rows * wide * case.x.itemsize for wide in (wide_in, wide_out))
    source = np.full((rows, wide_in), 0xA5, case.expected.dtype)
    target = np.zeros((rows, wide_out), case.expected.dtype)
    source[:, :columns] = case.x.view(source.dtype)[: rows * columns].reshape(rows, columns)
    target[:, :columns] = case.expected[: rows * columns].reshape(rows, columns)
    layout = {"dtype": case.dtype.name, "shape": [rows, columns]}
    text = json.dumps(
        {
            "dialect": "ieee754",
            "rounding": case.rounding,
            "input": {**layout, "strides": [wide_in, 1], "byte_length": nbytes_in},
            "output": {**layout, "strides": [wide_out, 1], "byte_length": nbytes_out},
        }
    )
    reply = lane.ask("/round", source.tobytes(), {**_OCTETS, "Operator-Descriptor": text})
    if lane.good(reply).content != target.tobytes():
        raise Wrong(f"{case}: strided from {wide_in} to {wide_out} by {columns}")


def npy(lane: Lane) -> None:
    """A .npy file, in either order of dimensions and bytes."""
    case = Case.drawn(lane.chance)
    query = f"?rounding={case.rounding}"
    rows = lane.chance.choice([n for n in (1, 2, 3) if case.x.size % n == 0])
    in_columns = lane.chance.random() < 0.5
    patterns, expected = (
        _shaped(each, rows, in_columns=in_columns)
        for each in (case.x, case.expected.view(case.x.dtype))
    )
    if case.dtype.name in _RAW:
        query += f"&dtype={case.dtype.name}"
        patterns, expected = (each.view(_RAW[case.dtype.name]) for each in (patterns, expected))
    elif lane.chance.random() < 0.3:
        patterns, expected = _swapped(patterns), _swapped(expected)
    reply = lane.ask("/round" + query, _file(patterns), {"Content-Type": "application/x-npy"})
    if lane.good(reply).content != _file(expected):
        raise Wrong(f"{case}: as {patterns.dtype} .npy, in columns: {in_columns}")


def text(lane: Lane) -> None:
    """Operator and numbers as JSON."""
    case = Case.drawn(lane.chance, TEXT_BYTES)
    shape = [case.x.size]
    operator = json.loads(ieee754(case.dtype.name, shape, case.rounding))
    body = json.dumps({"descriptor": operator, "data": _numbers(case)}).encode()
    reply = lane.good(lane.ask("/round", body, {"Content-Type": "application/json"})).json()
    if reply["output"] != {"dtype": case.dtype.name, "shape": shape}:
        raise Wrong(f"{case}: {reply['output']}")
    _check_numbers(case, reply["data"])


def inference(lane: Lane) -> None:
    """The Open Inference Protocol, with the numbers behind the head."""
    case = Case.drawn(lane.chance)
    datatype, parameters = _open_type(case.dtype)
    source = binary(datatype, [case.x.size], case.x.nbytes)
    asked = {"rounding": case.rounding, "binary_data_output": True, **parameters}
    head = json.dumps(document(source, parameters=asked)).encode()
    fields = {HEADER_LENGTH: str(len(head))}
    reply = lane.good(lane.ask(infer_path("round"), head + case.payload, fields))
    case.check(Answer.of(reply).payload)


def inference_text(lane: Lane) -> None:
    """The Open Inference Protocol, all in JSON."""
    floats = ("float16", "float32", "float64", "int8", "uint16", "int32", "int64", "uint64")
    case = Case.drawn(lane.chance, TEXT_BYTES, lane.chance.choice(floats))
    datatype, parameters = _open_type(case.dtype)
    source = tensor(datatype, [case.x.size], data=_numbers(case))
    body = json.dumps(document(source, parameters={"rounding": case.rounding, **parameters}))
    fields = {"Content-Type": "application/json"}
    reply = lane.good(lane.ask(infer_path("round"), body.encode(), fields))
    _check_numbers(case, Answer.of(reply).output["data"])


def _described(case: Case) -> dict[str, str]:
    shape = [case.x.size]
    return {**_OCTETS, "Operator-Descriptor": ieee754(case.dtype.name, shape, case.rounding)}


def _digest(content: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(content).digest()).decode()}:"


def _shaped(x: Array, rows: int, *, in_columns: bool) -> Array:
    if not x.size:
        return x.reshape(0, 3)
    return x.reshape(-1, rows).T if in_columns else x.reshape(rows, -1)


def _swapped(x: Array) -> Array:
    # By bits: a conversion may quieten NaNs.
    return x.byteswap().view(x.dtype.newbyteorder(">"))


def _file(x: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, x)
    return file.getvalue()


def _numbers(case: Case) -> list[float | int | str]:
    """The elements as JSON has them; a NaN's payload is not among what it can say."""
    words = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
    if not case.dtype.is_float:
        return list(map(int, case.x))
    return [words.get(str(x), x) for x in _doubles(case.x).tolist()]


def _doubles(x: Array) -> Array:
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return x.astype(np.float64)


def _check_numbers(case: Case, got: list[float | int | str]) -> None:
    if not case.dtype.is_float:
        case.check(np.array(got, case.x.dtype).tobytes())
        return
    with np.errstate(all="ignore"):
        values = np.array(list(map(float, got)), np.float64).astype(case.x.dtype)
    nans = np.isnan(_doubles(case.expected.view(case.x.dtype)))
    same = values.view(case.expected.dtype) == case.expected
    if not np.array_equal(np.isnan(_doubles(values)), nans) or not (same | nans).all():
        raise Wrong(f"{case}: other numbers")


def _open_type(dtype: DType) -> tuple[str, dict[str, str]]:
    # The protocol has no name for eight-bit floats.
    return (dtype.oip, {}) if dtype.oip else ("UINT8", {"dtype": dtype.name})
