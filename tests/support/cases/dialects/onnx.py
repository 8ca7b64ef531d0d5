"""``onnx``: Round-11 and Round-22, and what their specification refuses."""

from __future__ import annotations

from typing import Any

import tensor_round as tr
from support.cases.dialect import DialectCases, Example, Model, Whole, shapes, spelled
from tensor_round.contract.rounding import Rounding

# TensorProto.DataType, type string, canonical dtype, the oldest opset that takes it
TYPES = [
    ("FLOAT16", "tensor(float16)", "float16", 11),
    ("FLOAT", "tensor(float)", "float32", 11),
    ("DOUBLE", "tensor(double)", "float64", 11),
    ("BFLOAT16", "tensor(bfloat16)", "bfloat16", 22),
]
OPSETS = range(11, 29)
NOT_ROUND = [
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "BOOL",
    "STRING",
    "COMPLEX64",
    "FLOAT8E4M3FN",
    "FLOAT8E5M2",
    "INT4",
    "UNDEFINED",
    "tensor(int32)",
    "float16",
    "Float",
    "tensor(FLOAT)",
    "float32",
    "seq(tensor(float))",
    "",
    1,
    10,
    None,
    True,
]
MODEL = Model(
    "onnx_round",
    "X",
    "Y",
    None,
    {"11": ("FP16,FP32,FP64", "0-32"), "22": ("FP16,FP32,FP64,BF16", "0-32")},
)
#: Called as by someone whom no type checker stops.
ANY: Any = tr.OnnxRound
LOOSE: Any = tr
NUMBERS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "the five values": ((0.9, 2.5, 2.3, 1.5, -4.5), (1, 2, 2, 2, -4)),
    # onnx.backend.test.case.node.round: the suite's test_round.
    "the suite's node case": (
        (0.1, 0.5, 0.9, 1.2, 1.5, 1.8, 2.3, 2.5, 2.7, -1.1, -1.5, -1.9, -2.2, -2.5, -2.8),
        (0, 0, 1, 1, 2, 2, 2, 2, 3, -1, -2, -2, -2, -2, -3),
    ),
}
ROUND_11 = ("float16", "float32", "float64")


def of(opset: int, *spellings: str) -> list[dict[str, Any]]:
    """The example of an opset, in each spelling of a type."""
    return [{"opset_version": opset, "input.elem_type": spelling} for spelling in spellings]


CASES = DialectCases(
    example={
        "dialect": "onnx",
        "op_type": "Round",
        "opset_version": 22,
        "input": {"elem_type": "FLOAT16", "shape": [2, 3]},
    },
    operator=(tr.OnnxRound(opset_version=22), "<f2"),
    dtypes={name: dtype for name, _, dtype, _ in TYPES},
    modes={},
    accepted=[
        *[
            (
                of(opset, name, type_string),
                {"input.dtype.name": dtype, "rounding": Rounding.TIES_TO_EVEN, "is_in_place": True},
            )
            for opset in OPSETS
            for name, type_string, dtype, since in TYPES
            if opset >= since
        ],
        *shapes("input.shape"),
        (spelled("", "ai.onnx", at=["domain"]), None),
    ],
    refusals=[
        *[
            ("input.elem_type", name, " onnx: Round takes FLOAT16, FLOAT, DOUBLE, BFLOAT16")
            for name in NOT_ROUND
        ],
        ("opset_version", 10, "onnx: Round was introduced in opset 11, got 10"),
        ("opset_version", 29, "onnx: the newest opset known here is 28, got 29"),
        ("opset_version", 10**60, "got an integer of 200 bits"),
        ("opset_version", "22", "must be an integer"),
        ("opset_version", True, "must be an integer"),
        ("op_type", "Ceil", "must be 'Round', got \"Ceil\""),
        ("input.shape[0]", ["N"], 'an integer, got "N"'),
        ("input.shape", [1] * 33, "at most 32 dimensions, got 33"),
        ("domain", "com.microsoft", "must be '' or 'ai.onnx', got"),
    ],
    broken=[
        (
            of(opset, name, type_string),
            {
                "input.elem_type": Whole(
                    f"got {name}; use opset {since} or newer. "
                    "onnx Round-11 (opsets 11 to 21) takes FLOAT16, FLOAT, DOUBLE"
                )
            },
        )
        for opset in OPSETS
        for name, type_string, _, since in TYPES
        if opset < since
    ],
    refused=[
        (lambda: ANY(10), "opset_version", "opset 11"),
        (lambda: ANY(99), "opset_version", "newest"),
        (lambda: ANY(True), "opset_version", "integer"),
        (lambda: ANY(21).prepare("bfloat16", (2,)), "input.elem_type", "Round-11"),
        (lambda: ANY().descriptor("float33", (2,)), "input.elem_type", "did you mean FLOAT"),
        (lambda: LOOSE.OnnxDescriptor(dialect="mlir"), "dialect", "must be 'onnx', got \"mlir\""),
    ],
    words={"onnx": tr.OnnxRound(), "onnx:11": tr.OnnxRound(11)},
    wrong_words={
        "onnx:": "onnx:OPSET (11 to 28)",
        "onnx:x": "onnx:OPSET (11 to 28)",
        "onnx:10": "introduced in opset 11, got 10",
        "onnx:29": "newest opset known here is 28, got 29",
        "onnx:22:x": "write onnx or onnx:OPSET",
    },
    spelling="onnx or onnx:OPSET (11 to 28)",
    model=MODEL,
    examples={
        f"Round-{opset}, {name}": Example(
            *pair,
            ROUND_11 if opset == 11 else (*ROUND_11, "bfloat16"),
            version=str(opset),
        )
        for opset in (11, 22)
        for name, pair in NUMBERS.items()
    },
)
