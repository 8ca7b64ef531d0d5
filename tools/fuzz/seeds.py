"""Valid input of every kind, to be mutated."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from typing import Any

import numpy as np

from tensor_round.contract.errors import Fault, InvalidDescriptor, problem
from tensor_round.contract.operators.registry import DIALECTS
from tensor_round.contract.operators.text import WORDS

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
    *(dialect.descriptor.example for dialect in DIALECTS.values()),
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
        "descriptor": DIALECTS["onnx"].descriptor.example,
        "data": ["NaN", "-Infinity", 0.5, -0.0, 1, 2.5],
    },
    {
        "descriptor": {"dialect": "ieee754", "input": {"dtype": "int64", "shape": [2]}},
        "data": [9223372036854775807, -5],
    },
]


#: Operators in one word.
OPERATORS = [
    *(b"toward_zero", b"onnx:22", b"openvino:half_to_even", b"directml:TOWARD_ZERO:5_0"),
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
