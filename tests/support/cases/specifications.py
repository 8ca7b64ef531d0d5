"""The examples and tables of the operators' specifications, word for word."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tensor_round as tr
from support.cases.array_cases import Array
from tensor_round.dtypes import BY_NAME


@dataclass(frozen=True)
class Example:
    """Numbers that a specification gives, the operator it gives them for, and where it is served.

    ``dtypes`` hold the numbers well enough to round as written; ``shapes`` are all of them.
    """

    operator: tr.RoundOperator
    source: tuple[float, ...]
    result: tuple[float, ...]
    dtypes: tuple[str, ...]
    model: str
    version: str
    parameters: dict[str, str | int] = field(default_factory=dict)
    names: tuple[str, str] = ("X", "Y")
    shapes: tuple[tuple[int, ...], ...] = ()

    def arrays(self, dtype: str) -> tuple[Array, Array]:
        """What goes in and what must come out."""
        kind = BY_NAME[dtype].numpy
        return np.array(self.source, kind), np.array(self.result, kind)


_ONNX: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "the five values": ((0.9, 2.5, 2.3, 1.5, -4.5), (1, 2, 2, 2, -4)),
    # onnx.backend.test.case.node.round: the suite's test_round.
    "the suite's node case": (
        (0.1, 0.5, 0.9, 1.2, 1.5, 1.8, 2.3, 2.5, 2.7, -1.1, -1.5, -1.9, -2.2, -2.5, -2.8),
        (0, 0, 1, 1, 2, 2, 2, 2, 3, -1, -2, -2, -2, -2, -3),
    ),
}
_OPENVINO: dict[Any, tuple[float, ...]] = {
    "half_to_even": (-4, -2, -2, 0, 1, 2, 2, 2),
    "half_away_from_zero": (-5, -2, -2, 1, 1, 2, 2, 3),
}
_DIRECTML: dict[Any, tuple[float, ...]] = {
    "HALVES_TO_NEAREST_EVEN": (-2, -2, -2, -1, 0, 1, 2, 2, 2),
    "TOWARD_ZERO": (-2, -1, -1, -1, 0, 1, 1, 1, 2),
    "TOWARD_INFINITY": (-3, -2, -2, -1, 0, 1, 2, 2, 3),
}
#: The example that its API has for roundEven.
_WEBNN = (
    (0.1, 0.9, 1.1, 1.9, -3.5, -2.5, -1.5, 1.5, 2.5, 3.5),
    (0, 1, 1, 2, -4, -2, -2, 2, 2, 4),
)
#: The example that both of its operations have.
_STABLEHLO: dict[Any, tuple[float, ...]] = {
    "round_nearest_even": (-2, 0, 0, 1, 2),
    "round_nearest_afz": (-3, 0, 1, 1, 3),
}
#: Its rules by example: "the even integer closest", "closest to zero", "not less", "not greater".
_ARRAY_API: dict[Any, tuple[float, ...]] = {
    "round": (-4, -2, -2, 0, 0, 0, 1, 2, 2, 7),
    "trunc": (-3, -2, -1, 0, 0, 0, 0, 1, 2, 7),
    "ceil": (-3, -2, -1, 0, 1, 1, 1, 2, 3, 7),
    "floor": (-4, -3, -2, 0, 0, 0, 0, 1, 2, 7),
}
_ROUND_11 = ("float16", "float32", "float64")

EXAMPLES: dict[str, Example] = {
    **{
        f"onnx, Round-{opset}, {name}": Example(
            tr.OnnxRound(opset_version=opset),
            source,
            result,
            _ROUND_11 if opset == 11 else (*_ROUND_11, "bfloat16"),
            "onnx_round",
            str(opset),
        )
        for opset in (11, 22)
        for name, (source, result) in _ONNX.items()
    },
    **{
        f"openvino, Round-5, {mode}": Example(
            tr.OpenVINORound(mode=mode),
            (-4.5, -1.9, -1.5, 0.5, 0.9, 1.5, 2.3, 2.5),
            result,
            ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn"),
            "openvino_round",
            "5",
            {"mode": mode},
        )
        for mode, result in _OPENVINO.items()
    },
    **{
        f"openvino, Round-5, {mode}, i64": Example(
            tr.OpenVINORound(mode=mode),
            (0x4000000000000001,),
            (0x4000000000000001,),
            ("int64", "uint64"),
            "openvino_round",
            "5",
            {"mode": mode},
        )
        for mode in _OPENVINO
    },
    **{
        f"directml, {level}, {mode}": Example(
            tr.DirectMLRound(rounding_mode=mode, feature_level=level),
            (-2.5, -1.75, -1.5, -1.25, 0, 1.25, 1.5, 1.75, 2.5),
            result,
            ("float32", "float16"),
            "directml_element_wise_round",
            level,
            {"rounding_mode": mode},
            ("InputTensor", "OutputTensor"),
            shapes,
        )
        for level, shapes in (("2_1", ((1, 1, 3, 3),)), ("3_0", ((9,), (3, 3))), ("6_4", ((9,),)))
        for mode, result in _DIRECTML.items()
    },
    "webnn, roundEven": Example(
        tr.WebNNRoundEven(),
        *_WEBNN,
        ("float32", "float16"),
        "webnn_round_even",
        "1",
        names=("input", "output"),
        shapes=((10,), (5, 2)),
    ),
    **{
        f"stablehlo, {op}": Example(
            tr.StableHLORound(op),
            (-2.5, 0.4, 0.5, 0.6, 2.5),
            result,
            ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"),
            "stablehlo_round_nearest",
            "1",
            {"op": op},
            ("operand", "result"),
        )
        for op, result in _STABLEHLO.items()
    },
    **{
        f"array_api, {op}": Example(
            tr.ArrayAPIRound(op),
            (-3.5, -2.25, -1.5, 0, 0.25, 0.5, 0.75, 1.5, 2.5, 7),
            result,
            ("float32", "float64"),
            "array_api_round",
            "2021.12",
            {"op": op},
            ("x", "out"),
        )
        for op, result in _ARRAY_API.items()
    },
}
#: Name of an example, and each dtype that it is for.
CASES = [(name, dtype) for name, example in EXAMPLES.items() for dtype in example.dtypes]


def shapes_of(example: Example) -> tuple[tuple[int, ...], ...]:
    """Every shape that an example comes in."""
    return example.shapes or ((len(example.source),),)
