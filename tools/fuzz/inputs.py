"""Valid input of every kind, and its mutations; the same for the same seed."""

from __future__ import annotations

import copy
import gzip
import io
import json
import random
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensor_round.contract.errors import Fault, InvalidDescriptor, problem
from tensor_round.contract.operators.registry import DIALECTS, OPERATORS, WORDS

from .mixes import refused
from .mixes.drawing import Source
from .mixes.messages import bare, composed, not_ok
from .mixes.valid import VALID

X = np.array([[0.5, 1.5, -2.5], [3.5, -0.3, 1e9]], "<f4")

DESCRIPTORS: list[dict[str, Any]] = [
    {
        "dialect": "ieee754",
        "rounding": "toward_zero",
        "input": {"dtype": "float32", "shape": [2, 3], "strides": [3, 1], "byte_length": 24},
        "output": {"dtype": "float32", "shape": [2, 3], "strides": [8, 2], "byte_length": 64},
    },
    {
        "dialect": "directml",
        "feature_level": "3_0",
        "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
        "desc": {
            "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3], "Strides": [3, 1]},
            "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
            "RoundingMode": "HALVES_TO_NEAREST_EVEN",
        },
    },
    *(DIALECTS[row.dialect].example_of(row) for row in OPERATORS.values()),
]

MODELS: list[dict[str, Any]] = [
    {"type": "DML_OPERATOR_ELEMENT_WISE_ROUND", "desc": DESCRIPTORS[1]["desc"]},
    {"dispatchables": {"r": {"type": "ELEMENT_WISE_ROUND", "Desc": DESCRIPTORS[1]["desc"]}}},
]

LAYERS = [
    b'<layer id="3" type="Round" version="opset5"><data mode="half_to_even"/><input><port id="0" '
    b'precision="FP32"><dim>2</dim><dim>3</dim></port></input><output><port id="1" '
    b'precision="FP32"><dim>2</dim><dim>-1</dim></port></output></layer>',
    b'<?xml version="1.0" encoding="utf-16"?><!DOCTYPE layer [<!ENTITY a "&b;">]>'
    b'<layer type="Round"><rt_info>&lt;&a;<![CDATA[x]]></rt_info></layer>',
]

INFERENCES: list[dict[str, Any]] = [
    {
        "id": "1",
        "inputs": [{"name": "X", "datatype": "FP32", "shape": [2, 3], "data": X.tolist()}],
        "outputs": [{"name": "Y", "parameters": {"binary_data": False}}],
    },
    {
        "parameters": {"rounding": "toward_zero", "binary_data_output": True},
        "inputs": [
            {
                "name": "X",
                "datatype": "FP32",
                "shape": [2, 3],
                "parameters": {"binary_data_size": X.nbytes},
            }
        ],
    },
    {
        "inputs": [
            {
                "name": "X",
                "datatype": "UINT8",
                "shape": [24],
                "parameters": {
                    "dtype": "float8_e4m3fn",
                    "shared_memory_region": "a",
                    "shared_memory_byte_size": 24,
                    "shared_memory_offset": 8,
                },
            }
        ]
    },
]

DOCUMENTS: list[dict[str, Any]] = [
    {
        "descriptor": {"dialect": "ieee754", "input": {"dtype": "float32", "shape": [2, 3]}},
        "data": X.tolist(),
    },
    {
        "descriptor": OPERATORS["onnx"].descriptor.example,
        "data": ["NaN", "-Infinity", 0.5, -0.0, 1, 2.5],
    },
    {
        "descriptor": {"dialect": "ieee754", "input": {"dtype": "int64", "shape": [2]}},
        "data": [9223372036854775807, -5],
    },
]


#: Operators in one word.
OPERATORS = [
    b"toward_zero",
    b"onnx:22",
    b"openvino:half_to_even",
    b"directml:TOWARD_ZERO:5_0",
    *(word.encode() for word in WORDS),
]


def problems() -> list[bytes]:
    """Problem documents, as they are and compressed."""
    document = problem(InvalidDescriptor.of([Fault(("input", 1), "must be an integer")]))
    text = json.dumps(document).encode()
    return [text, gzip.compress(text), zlib.compress(text)]


def npy_files() -> list[bytes]:
    """Small .npy files of several types and orders."""
    arrays = [
        X,
        np.asfortranarray(X),
        X.astype(">f8"),
        np.minimum(X, 1000).astype("<f2"),
        np.arange(6, dtype="u1").reshape(1, 2, 3),
        np.float64(0.5),
        np.zeros((0, 3), "<i4"),
        np.zeros(3, "V2"),
    ]
    files = []
    for array in arrays:
        file = io.BytesIO()
        np.save(file, array)
        files.append(file.getvalue())
    return files


def requests() -> list[bytes]:
    """Small valid requests of every kind that mixes have, and others."""
    source = Source("seeds")
    source.max_bytes = 64
    paths = ("/conformance", "/docs", "/openapi.json", "/v2/models/stats", "/nothing")
    bare_ones = [bare(path, f"GET {path}", not_ok).wire for path in paths]
    drawn = [kind(source).wire for kind in (*VALID, *refused.KINDS) for _ in range(4)]
    drawn = [wire for wire in drawn if len(wire) < 2000]
    region, body = "/v2/systemsharedmemory/region/a/register", b'{"key":"/a","byte_size":8}'
    fields = ["Content-Type: application/json"]
    register = composed(source, "register", f"POST {region}", body, fields, not_ok).wire
    return [*bare_ones, *drawn, register, drawn[0] + bare_ones[0]]


def chunked_bodies() -> list[bytes]:
    """Valid bodies in chunks, with what may come between and behind them."""
    payload = X.tobytes()
    return [
        b"0\r\n\r\n",
        b"18\r\n" + payload + b"\r\n0\r\n\r\n",
        b"c\r\n" + payload[:12] + b"\r\n0C ;x=y\r\n" + payload[12:] + b"\r\n00;z\r\n\r\n",
        b"1\r\n0\r\n3\r\n\r\n0\r\n0\r\nA: b\r\nc:\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    ]


#: Tokens that parsers of HTTP, JSON and .npy have failed on.
TOKENS = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\0",
    b"\t",
    b" ",
    b":",
    b",",
    b";",
    b"%00",
    b"%",
    b"-1",
    b"0",
    b"1e9",
    b"0x10",
    b"+5",
    b"4294967296",
    b"18446744073709551616",
    b"9" * 40,
    b"Content-Length: 5\r\n",
    b"Content-Length: 99999999999\r\n",
    b"Host: y\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"0\r\n\r\n",
    b"Content-Encoding: gzip\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",
    b"Upgrade: websocket\r\n",
    b"Connection: upgrade\r\n",
    b"X-Request-ID: a\r\n",
    b"HTTP/1.0",
    b"HTTP/9.9",
    b"ffffffffffffffff\r\n",
    b"GET",
    b"PUT",
    b"CONNECT",
    b"/v2",
    b"//",
    b"../",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"\\",
    b"\\ud800",
    b"NaN",
    b"null",
    b"true",
    b"'",
    b"(",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\x93NUMPY",
    b"\x1f\x8b\x08",
    b"|V2",
    b">f4",
    b"|O",
    b"False",
]
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63 - 1,
    2**63,
    2**64,
    10**400,
    0.5,
    -0.0,
    1e308,
    "",
    "FLOAT32",
    "float32",
    "bfloat16",
    "x" * 5000,
    "\0",
    "é\ud7ff",
    "NaN",
    "directml",
    "_",
    [],
    {},
    [0],
    [2**62, 2**62],
    [1] * 64,
    [[1]],
    [None],
    {"dtype": "float32", "shape": [1]},
]


def mutate(random: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """These bytes after one to four changes; ``others`` are what they may be crossed with."""
    mutated = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 4))):
        random.choice(_CHANGES)(random, mutated, others)
    return bytes(mutated)


def _flip(random: random.Random, data: bytearray, _others: Sequence[bytes]) -> None:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _overwrite(random: random.Random, data: bytearray, _others: Sequence[bytes]) -> None:
    if data:
        data[random.randrange(len(data))] = random.randrange(256)


def _insert(random: random.Random, data: bytearray, _others: Sequence[bytes]) -> None:
    at = random.randint(0, len(data))
    data[at:at] = random.choice(TOKENS)


def _replace(random: random.Random, data: bytearray, _others: Sequence[bytes]) -> None:
    start, end = _part(random, data)
    data[start:end] = random.choice(TOKENS)


def _remove(random: random.Random, data: bytearray, _others: Sequence[bytes]) -> None:
    start, end = _part(random, data)
    del data[start:end]


def _repeat(random: random.Random, data: bytearray, _others: Sequence[bytes]) -> None:
    start, end = _part(random, data)
    data[end:end] = data[start:end] * random.choice((1, 2, 10, 200))


def _cut(random: random.Random, data: bytearray, _others: Sequence[bytes]) -> None:
    del data[random.randint(0, len(data)) :]


def _cross(random: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    other = random.choice(others)
    data[random.randint(0, len(data)) :] = other[random.randint(0, len(other)) :]


def _change_digits(random: random.Random, data: bytearray, _others: Sequence[bytes]) -> None:
    digits = [at for at, byte in enumerate(data[:2000]) if byte in b"0123456789"]
    if digits:
        data[random.choice(digits)] = random.choice(b"0123456789")


def _part(random: random.Random, data: bytearray) -> tuple[int, int]:
    start = random.randint(0, len(data))
    return start, min(len(data), start + random.choice((1, 2, 4, 16, 64)))


_CHANGES: list[Callable[[random.Random, bytearray, Sequence[bytes]], None]] = [
    _flip,
    _overwrite,
    _insert,
    _replace,
    _remove,
    _repeat,
    _cut,
    _cross,
    _change_digits,
]


def mutate_json(random: random.Random, document: Any) -> bytes:
    """A JSON document after one to three changes to its tree, as text."""
    mutated = copy.deepcopy(document)
    for _ in range(random.randint(1, 3)):
        parents = list(_parents(mutated))
        if not parents:
            break
        parent = random.choice(parents)
        key = random.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
        match random.randrange(5):
            case 0 | 1:
                parent[key] = copy.deepcopy(random.choice(VALUES))
            case 2:
                del parent[key]
            case 3 if isinstance(parent, dict):
                name = random.choice(("x", "", "strides", "dtype", "data", "é"))
                parent[name] = copy.deepcopy(parent[key])
            case 3:
                parent.insert(key, copy.deepcopy(parent[key]))
            case 4:
                parent[key] = copy.deepcopy(random.choice(parents))
    return json.dumps(mutated).encode()


def _parents(value: Any) -> list[Any]:
    """Every object and array in a document that has something in it."""
    found = []
    waiting = [value]
    while waiting:
        place = waiting.pop()
        if isinstance(place, dict | list) and place:
            found.append(place)
            waiting += place.values() if isinstance(place, dict) else place
    return found
