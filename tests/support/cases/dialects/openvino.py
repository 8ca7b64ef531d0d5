"""``openvino``: Round-5, its fourteen types and two modes."""

from __future__ import annotations

from typing import Any

import tensor_round as tr
from support.cases.dialect import ABSENT, DialectCases, Example, Model
from tensor_round.contract.rounding import Rounding

TYPES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip
MODES = {"half_to_even": Rounding.TIES_TO_EVEN, "half_away_from_zero": Rounding.TIES_TO_AWAY}
DATA: dict[str, tuple[Any, Rounding]] = {
    "even": ({"mode": "half_to_even"}, Rounding.TIES_TO_EVEN),
    "away": ({"mode": "half_away_from_zero"}, Rounding.TIES_TO_AWAY),
    "no mode": ({}, Rounding.TIES_TO_EVEN),
    "null data": (None, Rounding.TIES_TO_EVEN),
    "no data": (ABSENT, Rounding.TIES_TO_EVEN),
}
DATATYPES = (
    "FP16,BF16,FP32,FP64,UINT8:float8_e4m3fn,UINT8:float8_e5m2,"
    "INT8,INT16,INT32,INT64,UINT8,UINT16,UINT32,UINT64"
)
MODEL = Model("openvino_round", "X", "Y", "mode", {"5": (DATATYPES, "0-32")})
#: Called as by someone whom no type checker stops.
ANY: Any = tr.OpenVINORound
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
    made=tr.OpenVINODescriptor(
        type="Round",
        version="opset5",
        data=tr.OpenVINOData(mode="half_to_even"),
        input=tr.OpenVINOTensor(element_type="f32", shape=[2, 3]),
    ),
    operator=(tr.OpenVINORound(mode="half_to_even"), "f4"),
    dtypes=TYPES,
    modes=MODES,
    accepted={
        **{
            f"{mode} of {element_type}": (
                {"input.element_type": element_type, "data.mode": mode},
                {"input.dtype.name": dtype, "rounding": rounding},
            )
            for element_type, dtype in TYPES.items()
            for mode, rounding in MODES.items()
        },
        **{
            name: ({"data": data}, {"rounding": rounding})
            for name, (data, rounding) in DATA.items()
        },
        **{
            f"the shape {shape}": ({"input.shape": shape}, {"output.shape": tuple(shape)})
            for shape in ([], [0], [3, 0], [2] * 9, [1] * 32)
        },
        "no version, which is opset5": ({"version": ABSENT}, None),
    },
    refusals={
        "upper case mode": (
            {"data.mode": "HALF_TO_EVEN"},
            {"data.mode": "openvino Round-5 takes half_to_even, half_away_from_zero, got "},
        ),
        "IEEE's name": ({"data.mode": "ties_to_even"}, {"data.mode": 'got "ties_to_even"'}),
        "mode as number": ({"data.mode": 0}, {"data.mode": "got 0"}),
        "a null mode": ({"data.mode": None}, {"data.mode": "got null"}),
        "a mode outside data": ({"mode": "half_to_even"}, {"mode": "unknown field"}),
        "an unknown attribute": ({"data.axis": 1}, {"data.axis": "unknown field"}),
        "data as text": ({"data": "half_to_even"}, {"data": "must be an object"}),
        "boolean, which the runtime takes": (
            {"input.element_type": "boolean"},
            {"input.element_type": "takes f16, bf16, f32, f64, f8e4m3, f8e5m2, i8, "},
        ),
        "string, likewise": ({"input.element_type": "string"}, {"input.element_type": "takes f16"}),
        **{
            f"{name}, less than a byte": (
                {"input.element_type": name},
                {"input.element_type": f"got {name}: its elements are storage codes of less than "},
            )
            for name in ("i4", "u4", "u1", "u2", "u3", "u6", "nf4", "f4e2m1")
        },
        "powers of two": (
            {"input.element_type": "f8e8m0"},
            {"input.element_type": "got f8e8m0: it is not closed under rounding"},
        ),
        "a null version": ({"version": None}, {"version": "must be 'opset5', got null"}),
        "upper case, likewise": ({"input.element_type": "F32"}, {"input.element_type": '"F32"'}),
        "the IR's precision name": (
            {"input.element_type": "FP32"},
            {"input.element_type": "takes"},
        ),
        "no type": ({"input.element_type": ABSENT}, {"input.element_type": "is required"}),
        "another operation": ({"type": "Floor"}, {"type": "must be 'Round', got \"Floor\""}),
        "no operation": ({"type": ABSENT}, {"type": "is required"}),
        "an opset without Round": ({"version": "opset1"}, {"version": "must be 'opset5', got"}),
        "a version as number": ({"version": 5}, {"version": "must be 'opset5', got 5"}),
        "a dynamic dimension": (
            {"input.shape": [-1]},
            {"input.shape.0": "must be at least 0, got -1"},
        ),
        "33 dimensions": (
            {"input.shape": [1] * 33},
            {"input.shape": "at most 32 dimensions, got 33"},
        ),
        "strides": ({"input.strides": [3, 1]}, {"input.strides": "unknown field"}),
        "an output": ({"output": None}, {"output": "unknown field"}),
    },
    refused={"mode-case": (lambda: ANY("HALF_TO_EVEN"), ("data", "mode"), "half_to_even")},
    words={
        "openvino": tr.OpenVINORound(),
        "openvino:half_away_from_zero": tr.OpenVINORound("half_away_from_zero"),
    },
    wrong_words={"openvino:up": 'takes half_to_even, half_away_from_zero, got "up"'},
    spelling="openvino or openvino:MODE (half_to_even, half_away_from_zero)",
    fields=(
        *("dialect", "type", "version", "data", "data.mode"),
        *("input", "input.element_type", "input.shape"),
    ),
    model=MODEL,
    examples={
        **{
            f"Round-5, {mode}": Example(
                tr.OpenVINORound(mode=mode),
                (-4.5, -1.9, -1.5, 0.5, 0.9, 1.5, 2.3, 2.5),
                result,
                ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn"),
                MODEL,
                "5",
                mode,
            )
            for mode, result in RESULTS.items()
        },
        **{
            f"Round-5, {mode}, i64": Example(
                tr.OpenVINORound(mode=mode),
                (0x4000000000000001,),
                (0x4000000000000001,),
                ("int64", "uint64"),
                MODEL,
                "5",
                mode,
            )
            for mode in RESULTS
        },
    },
)
