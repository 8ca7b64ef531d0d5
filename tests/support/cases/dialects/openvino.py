"""``openvino``: Round-5, its seventeen types and two modes."""

from __future__ import annotations

from typing import Any

import tensor_round as tr
from support.cases.dialect import (
    ABSENT,
    FLOAT4,
    FLOATS,
    INTEGERS,
    INTEGERS_OF_4_BITS,
    DialectCases,
    Example,
    Model,
    by_mode,
    shapes,
    spelled,
)
from tensor_round.contract.rounding import Rounding

TYPES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "f4e2m1": "float4_e2m1fn",
    "i4": "int4", "u4": "uint4",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip
MODES = {"half_to_even": Rounding.TIES_TO_EVEN, "half_away_from_zero": Rounding.TIES_TO_AWAY}
DATATYPES = f"{FLOATS},{FLOAT4},{INTEGERS_OF_4_BITS},{INTEGERS}"
MODEL = Model("openvino_round", "X", "Y", "mode", {"5": (DATATYPES, "0-32")})
#: Called as by someone whom no type checker stops.
ANY: Any = tr.OpenVINORound
LOOSE: Any = tr
X = (-4.5, -1.9, -1.5, 0.5, 0.9, 1.5, 2.3, 2.5)
RESULTS: dict[Any, tuple[float, ...]] = {
    "half_to_even": (-4, -2, -2, 0, 1, 2, 2, 2),
    "half_away_from_zero": (-5, -2, -2, 1, 1, 2, 2, 3),
}

CASES = DialectCases(
    example={
        "dialect": "openvino",
        "type": "Round",
        "version": "opset5",
        "data": {"mode": "half_to_even"},
        "input": {"element_type": "f32", "shape": [2, 3]},
    },
    operator=(tr.OpenVINORound(mode="half_to_even"), "f4"),
    dtypes=TYPES,
    modes=MODES,
    dtype_at=("input.element_type",),
    mode_at="data.mode",
    defaulted={"version", "data", "data.mode"},
    accepted=[
        (spelled({}, None, ABSENT, at=["data"]), {"rounding": Rounding.TIES_TO_EVEN}),
        *shapes("input.shape"),
        ({"version": ABSENT}, None),
    ],
    refusals=[
        ("data.mode", "HALF_TO_EVEN", "openvino Round-5 takes half_to_even, half_away_from_zero"),
        ("data.mode", None, "got null"),
        ("data", "half_to_even", "must be an object"),
        ("input.element_type", "boolean", "takes f16, bf16, f32, f64, f8e4m3, f8e5m2, f4e2m1, "),
        ("input.element_type", "f8e8m0", "got f8e8m0: it is not closed under rounding"),
        *[
            (
                "input.element_type",
                name,
                f"got {name}: its elements are storage codes, and ",
            )
            for name in ("u1", "u2", "u3", "u6", "nf4")
        ],
        ("version", None, "must be 'opset5', got null"),
        ("input.element_type", "F32", '"F32"'),
        ("type", "Floor", "must be 'Round', got \"Floor\""),
        ("version", "opset1", "must be 'opset5', got"),
        ("input.shape", [1] * 33, "at most 32 dimensions, got 33"),
    ],
    refused=[
        (lambda: ANY("HALF_TO_EVEN"), "data.mode", "half_to_even"),
        (lambda: LOOSE.OpenVINODescriptor(type="Round"), "input", "is required"),
        (lambda: LOOSE.OpenVINOData(Mode="x"), "Mode", "unknown field"),
    ],
    words={
        "openvino": tr.OpenVINORound(),
        "openvino:half_away_from_zero": tr.OpenVINORound("half_away_from_zero"),
    },
    wrong_words={"openvino:up": 'got "up"; openvino Round-5 takes half_to_even, half_'},
    spelling="openvino or openvino:MODE (half_to_even, half_away_from_zero)",
    model=MODEL,
    examples={
        **by_mode(
            {mode: (X, y) for mode, y in RESULTS.items()},
            ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn"),
        ),
        **{
            f"{mode}, an integer": Example((2**62 + 1,), (2**62 + 1,), ("int64", "uint64"), mode)
            for mode in RESULTS
        },
        **{
            f"{mode}, of 4 bits": Example((1.5, -0.5, 3), (2, y, 3), ("float4_e2m1fn",), mode)
            for mode, y in {"half_to_even": -0.0, "half_away_from_zero": -1}.items()
        },
    },
)
