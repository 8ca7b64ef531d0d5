"""``openvino``: Round-5 with its types and two modes, Floor-1, Ceiling-1 and Convert-1."""

from __future__ import annotations

import math
from typing import Any

import tensor_round as tr
from support.cases.dialect import (
    ABSENT,
    Example,
    Model,
    OperatorCases,
    by_mode,
    conversion,
    datatypes,
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
MODEL = Model("openvino_round", "X", "Y", "mode", {"5": (datatypes(TYPES.values()), "0-32")})
#: Called as by someone whom no type checker stops.
ANY: Any = tr.OpenVINORound
LOOSE: Any = tr
X = (-4.5, -1.9, -1.5, 0.5, 0.9, 1.5, 2.3, 2.5)
RESULTS: dict[Any, tuple[float, ...]] = {
    "half_to_even": (-4, -2, -2, 0, 1, 2, 2, 2),
    "half_away_from_zero": (-5, -2, -2, 1, 1, 2, 2, 3),
}

ROUND = OperatorCases(
    example={
        "dialect": "openvino",
        "type": "Round",
        "version": "opset5",
        "data": {"mode": "half_to_even"},
        "input": {"element_type": "f32", "shape": [2, 3]},
    },
    operator=(tr.OpenVINORound(mode="half_to_even"), "f4"),
    word="openvino",
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
        (
            "type",
            "Ceil",
            "did you mean Ceiling? openvino: this dialect takes Round, Floor, Ceiling, Convert",
        ),
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


def directed(name: str, made: Any, rounding: Rounding, results: tuple[float, ...]) -> OperatorCases:
    """Floor-1 or Ceiling-1."""
    return OperatorCases(
        example={
            "dialect": "openvino",
            "type": name,
            "version": "opset1",
            "input": {"element_type": "f32", "shape": [2, 3]},
        },
        operator=(made(), "f4"),
        word=f"openvino:{name}",
        dtypes=TYPES,
        rounding=rounding,
        dtype_at=("input.element_type",),
        defaulted={"version"},
        accepted=shapes("input.shape"),
        refusals=[
            (
                "input.element_type",
                "boolean",
                "takes f16, bf16, f32, f64, f8e4m3, f8e5m2, f4e2m1, ",
            ),
            ("input.element_type", "f8e8m0", "it is not closed under rounding"),
            ("version", "opset5", "must be 'opset1', got \"opset5\""),
            ("data", {}, "unknown field"),
        ],
        refused=[(lambda: made().prepare("bool", (2,)), "input.element_type", 'got "bool"')],
        words={f"openvino:{name}": made()},
        wrong_words={f"openvino:{name}:1": f"or openvino:{name}"},
        spelling=f"openvino:{name}",
        model=Model(
            f"openvino_{name.lower()}", "X", "Y", None, {"1": (datatypes(TYPES.values()), "0-32")}
        ),
        examples={
            "numbers": Example(X, results, ("float16", "bfloat16", "float32", "float64")),
            "an integer": Example((2**62 + 1,), (2**62 + 1,), ("int64", "uint64")),
        },
    )


CONVERTED = {**TYPES, "f8e8m0": "float8_e8m0fnu"}
ANY_CONVERT: Any = tr.OpenVINOConvert

CONVERT = OperatorCases(
    example={
        "dialect": "openvino",
        "type": "Convert",
        "version": "opset1",
        "data": {"destination_type": "f16"},
        "input": {"element_type": "f32", "shape": [2, 3]},
    },
    operator=(tr.OpenVINOConvert("float16"), "f4"),
    word="openvino:Convert",
    dtypes=CONVERTED,
    rounds_to_integral=False,
    defaulted={"version"},
    accepted=[
        *[
            (
                {"input.element_type": source, "data.destination_type": target},
                {
                    "input.dtype.name": CONVERTED[source],
                    "output.dtype.name": CONVERTED[target],
                    "function": conversion(CONVERTED[source], CONVERTED[target]),
                },
            )
            for source, target in (
                *((name, "f32") for name in CONVERTED),
                *(("i32", name) for name in CONVERTED),
                *(("f64", name) for name in CONVERTED),
            )
        ],
        *shapes("input.shape"),
    ],
    refusals=[
        *[
            (field, "boolean", "got boolean: a conversion of boolean rounds nothing; compare with")
            for field in ("input.element_type", "data.destination_type")
        ],
        (
            "data.destination_type",
            "string",
            'got strings ("string"); openvino Convert-1 takes f16, bf16, ',
        ),
        ("data.destination_type", "F16", 'got "F16"; did you mean f16?'),
        ("data.destination_type", 4, "got 4; openvino Convert-1 takes f16"),
        ("input.element_type", "float32", 'got "float32"; openvino Convert-1 takes f16'),
        ("data", None, "must be an object, got null"),
        ("data[destination_type]", {}, "is required"),
        ("version", "opset5", "must be 'opset1', got \"opset5\""),
        ("input.shape", [1] * 33, "at most 32 dimensions, got 33"),
    ],
    refused=[
        (lambda: ANY_CONVERT("bool"), "data.destination_type", 'got "bool"'),
        (lambda: ANY_CONVERT("int8").prepare("str", (2,)), "input.element_type", 'got .*"str"'),
        (lambda: LOOSE.OpenVINOConvertData(), "destination_type", "is required"),
    ],
    words=dict.fromkeys(("openvino", "openvino:Convert"), tr.OpenVINOConvert("float16")),
    wrong_words={
        "openvino:half_to_even": "write openvino:Convert",
        "openvino:Ceiling": 'got "openvino:Ceiling": it does not cast to a type',
    },
    spelling="openvino:Convert",
    model=Model("openvino_convert", "X", "Y", None, {"1": (datatypes(CONVERTED.values()), "0-32")}),
    # Of its reference's tests: a fraction is cut off, a low byte kept.
    examples={
        "to i32": Example((-1.75, 0.5, 2.5, 1e4), (-1, 0, 2, 1e4), ("float32",), to="int32"),
        "to u8": Example((-1, 255, 256, 300), (255, 255, 0, 44), ("int16", "int64"), to="uint8"),
        "to f16": Example(
            (65519, 65520, 2049), (65504, math.inf, 2048), ("float32",), to="float16"
        ),
    },
)

CASES = {
    "openvino": ROUND,
    "openvino:Floor": directed(
        "Floor", tr.OpenVINOFloor, Rounding.TOWARD_NEGATIVE, (-5, -2, -2, 0, 0, 1, 2, 2)
    ),
    "openvino:Ceiling": directed(
        "Ceiling", tr.OpenVINOCeiling, Rounding.TOWARD_POSITIVE, (-4, -1, -1, 1, 1, 2, 3, 3)
    ),
    "openvino:Convert": CONVERT,
}
