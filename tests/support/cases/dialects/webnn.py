"""``webnn``: roundEven, two types, and dimensions of at least 1."""

from __future__ import annotations

import tensor_round as tr
from support.cases.dialect import ABSENT, DialectCases, Example, Model
from tensor_round.contract.rounding import Rounding

MODEL = Model("webnn_round_even", "input", "output", None, {"1": ("FP32,FP16", "0-32")})

CASES = DialectCases(
    example={
        "dialect": "webnn",
        "op": "roundEven",
        "input": {"dataType": "float16", "shape": [2, 3]},
    },
    made=tr.WebNNDescriptor(op="roundEven", input=tr.WebNNTensor(dataType="float16", shape=(2, 3))),
    operator=(tr.WebNNRoundEven(), "float16"),
    dtypes={"float32": "float32", "float16": "float16"},
    modes={},
    accepted={
        **{
            dtype: (
                {"input.dataType": dtype},
                {"input.dtype.name": dtype, "rounding": Rounding.TIES_TO_EVEN},
            )
            for dtype in ("float16", "float32")
        },
        **{
            f"{len(shape)} dimensions from {shape[:1]}": (
                {"input.shape": shape},
                {"output.shape": tuple(shape)},
            )
            for shape in ([], [1], [2] * 6, [1] * 32, [2**31 - 1])
        },
    },
    refusals={
        "another type of MLOperandDataType": (
            {"input.dataType": "int32"},
            {"input.dataType": 'webnn: roundEven takes float32, float16, got "int32"'},
        ),
        "a type that WebNN has not": ({"input.dataType": "bfloat16"}, {"input.dataType": "takes"}),
        "no type": ({"input.dataType": ABSENT}, {"input.dataType": "is required"}),
        "the older name of shape": (
            {"input.shape": ABSENT, "input.dimensions": [2]},
            {"input.shape": "is required", "input.dimensions": "unknown field"},
        ),
        "an empty tensor": (
            {"input.shape": [2, 0]},
            {"input.shape.1": "must be at least 1, got 0"},
        ),
        "beyond long": (
            {"input.shape": [2**31]},
            {"input.shape.0": "must be at most 2147483647, got 2147483648"},
        ),
        "33 dimensions": (
            {"input.shape": [1] * 33},
            {"input.shape": "at most 32 dimensions, got 33"},
        ),
        "another operator": ({"op": "ceil"}, {"op": "must be 'roundEven', got \"ceil\""}),
        "no operator": ({"op": ABSENT}, {"op": "is required"}),
        "a direction": ({"rounding": "ties_to_even"}, {"rounding": "unknown field"}),
    },
    refused={
        "empty": (
            lambda: tr.WebNNRoundEven().prepare("float32", (2, 0)),
            ("input", "shape", 1),
            "at least 1",
        ),
    },
    words={"webnn": tr.WebNNRoundEven()},
    wrong_words={"webnn:roundEven": "write webnn"},
    spelling="webnn",
    fields=("dialect", "op", "input", "input.dataType", "input.shape"),
    model=MODEL,
    # The example that its API has for roundEven.
    examples={
        "roundEven": Example(
            tr.WebNNRoundEven(),
            (0.1, 0.9, 1.1, 1.9, -3.5, -2.5, -1.5, 1.5, 2.5, 3.5),
            (0, 1, 1, 2, -4, -2, -2, 2, 2, 4),
            ("float32", "float16"),
            MODEL,
            "1",
            shapes=((10,), (5, 2)),
        ),
    },
)
