"""``webnn``: roundEven, two types, and dimensions of at least 1."""

from __future__ import annotations

import tensor_round as tr
from support.cases.dialect import DialectCases, Example, Model, shapes

MODEL = Model("webnn_round_even", "input", "output", None, {"1": ("FP32,FP16", "0-32")})

CASES = DialectCases(
    example={
        "dialect": "webnn",
        "op": "roundEven",
        "input": {"dataType": "float16", "shape": [2, 3]},
    },
    operator=(tr.WebNNRoundEven(), "float16"),
    dtypes={"float32": "float32", "float16": "float16"},
    modes={},
    dtype_at=("input.dataType",),
    accepted=shapes("input.shape", [], [1], [2] * 6, [1] * 32, [2**31 - 1]),
    refusals=[
        ("input.dataType", "int32", 'got "int32"; webnn: roundEven takes float32, float16'),
        ("input.shape[1]", [2, 0], "must be at least 1, got 0"),
        ("input.shape[0]", [2**31], "must be at most 2147483647, got 2147483648"),
        ("input.shape", [1] * 33, "at most 32 dimensions, got 33"),
        ("op", "ceil", "must be 'roundEven', got \"ceil\""),
    ],
    refused=[
        (lambda: tr.WebNNRoundEven().prepare("float32", (2, 0)), "input.shape.1", "at least 1")
    ],
    words={"webnn": tr.WebNNRoundEven()},
    wrong_words={"webnn:roundEven": "write webnn"},
    spelling="webnn",
    model=MODEL,
    # The example that its API has for roundEven.
    examples={
        "roundEven": Example(
            (0.1, 0.9, 1.1, 1.9, -3.5, -2.5, -1.5, 1.5, 2.5, 3.5),
            (0, 1, 1, 2, -4, -2, -2, 2, 2, 4),
            ("float32", "float16"),
            shapes=((10,), (5, 2)),
        ),
    },
)
