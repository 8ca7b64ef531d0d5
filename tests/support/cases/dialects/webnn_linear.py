"""``webnn``: quantizeLinear and dequantizeLinear, whose scales divide the operand into blocks."""

from __future__ import annotations

from typing import Any

import tensor_round as tr
from support.cases.dialect import Accepted, Model, OperatorCases, datatypes

FLOATS, CODES = ("float32", "float16"), ("uint8", "int8", "uint32", "int32")
TYPES = {name: name for name in (*FLOATS, *CODES)}
SCALES = {"scale.dataType": "float16"}
ANY_QUANTIZE: Any = tr.WebNNQuantizeLinear
#: Sizes of the operand, of the scale, and of a block.
BLOCKS = [
    ([3, 2, 5], [3, 2, 5], (1, 1, 1)),
    ([3, 2, 5], [1, 1, 5], (3, 2, 1)),
    ([3, 2, 5], [1, 1, 1], (3, 2, 5)),
    ([6, 4, 5], [2, 2, 1], (3, 2, 5)),
    ([], [], ()),
]


def blocked() -> list[Accepted]:
    """The forms of scales that the specification's tests have."""
    return [
        (
            {"input.shape": sizes, "scale.shape": counts, "zeroPoint.shape": counts},
            {"parameters.blocks": blocks, "parameters.scale.shape": tuple(counts)},
        )
        for sizes, counts, blocks in BLOCKS
    ]


def refusals(op: str) -> list[tuple[str, Any, str]]:
    return [
        ("input.dataType", "int4", "webnn: quantization takes float32, float16, uint8, int8, "),
        ("scale.shape", [3], "must have the input's rank, and sizes that divide [2, 3], got [3]"),
        ("scale.dataType", "int8", f"webnn: {op} takes float32, float16 here, got int8"),
        ("zeroPoint.shape", [1, 1], "must be the scale's, [1, 3], got [1, 1]"),
        ("zeroPoint", None, "must be an object, got null"),
        ("input.shape[1]", [2, 0], "must be at least 1, got 0"),
        ("axis", 1, "unknown field"),
    ]


def example(op: str, source: str) -> dict[str, Any]:
    return {
        "dialect": "webnn",
        "op": op,
        "input": {"dataType": source, "shape": [2, 3]},
        "scale": {"dataType": "float32", "shape": [1, 3]},
        "zeroPoint": {"dataType": "int8", "shape": [1, 3]},
    }


CASES = {
    "webnn:quantizeLinear": OperatorCases(
        example=example("quantizeLinear", "float32"),
        operator=(tr.WebNNQuantizeLinear("int8"), "<f4"),
        parameters=(("float32", [1, 3]), ("int8", [1, 3])),
        word="webnn:quantizeLinear",
        dtypes=TYPES,
        rounds_to_integral=False,
        accepted=[
            *blocked(),
            *[({"zeroPoint.dataType": one}, {"output.dtype.name": one}) for one in CODES],
            ({"input.dataType": "float16", **SCALES}, {"input.dtype.name": "float16"}),
        ],
        refusals=[
            *refusals("quantizeLinear"),
            ("input.dataType", "int8", "webnn: quantizeLinear takes float32, float16 here"),
        ],
        broken=[
            (SCALES, {"scale.dataType": "must be the input's type, float32, got float16"}),
            (
                {"input.shape": [2, 4]},
                {"scale.shape": "sizes that divide [2, 4], got [1, 3]"},
            ),
        ],
        refused=[(lambda: ANY_QUANTIZE("int4"), "zeroPoint.dataType", "webnn: quantization takes")],
        words={"webnn": tr.WebNNQuantizeLinear(), "webnn:quantizeLinear": tr.WebNNQuantizeLinear()},
        wrong_words={"webnn:quantizeLinear:1": "write webnn:quantizeLinear"},
        spelling="webnn:quantizeLinear",
        model=Model(
            "webnn_quantize_linear",
            "input",
            "output",
            None,
            {"1": (datatypes(FLOATS), "0-32")},
            ("scale", "zeroPoint"),
            ("zeroPoint", "output"),
            has_optional=False,
        ),
    ),
    "webnn:dequantizeLinear": OperatorCases(
        example=example("dequantizeLinear", "int8"),
        operator=(tr.WebNNDequantizeLinear("float32"), "i1"),
        parameters=(("float32", [1, 3]), ("int8", [1, 3])),
        word="webnn:dequantizeLinear",
        dtypes=TYPES,
        rounds_to_integral=False,
        accepted=[*blocked(), (SCALES, {"output.dtype.name": "float16"})],
        refusals=refusals("dequantizeLinear"),
        broken=[
            (
                {"input.dataType": "uint8"},
                {"zeroPoint.dataType": "must be the input's type, uint8, got int8"},
            )
        ],
        refused=[],
        words={"webnn:dequantizeLinear": tr.WebNNDequantizeLinear()},
        wrong_words={"webnn:quantizeLinear": "write webnn:dequantizeLinear"},
        spelling="webnn:dequantizeLinear",
        model=Model(
            "webnn_dequantize_linear",
            "input",
            "output",
            None,
            {"1": (datatypes(CODES), "0-32")},
            ("scale", "zeroPoint"),
            ("input", "zeroPoint"),
            has_optional=False,
        ),
    ),
}
