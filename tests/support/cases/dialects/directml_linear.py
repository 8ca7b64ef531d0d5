"""``directml``: ELEMENT_WISE_QUANTIZE_LINEAR and _DEQUANTIZE_LINEAR by feature level."""

from __future__ import annotations

from typing import Any

import tensor_round as tr
from support.cases.dialect import ABSENT, Model, OperatorCases, datatypes, spelled

NAMES = {
    "FLOAT32": "float32", "FLOAT16": "float16", "UINT8": "uint8", "UINT16": "uint16",
    "UINT32": "uint32", "INT8": "int8", "INT16": "int16", "INT32": "int32",
}  # fmt: skip
OLD = ("1_0", "2_0", "2_1")
LEVELS = (*OLD, "3_0", "3_1", "4_0", "4_1", "5_0", "5_1", "5_2", "6_0", "6_1", "6_2", "6_3", "6_4")
TENSORS = tuple(f"desc.{name}Tensor" for name in ("Input", "Scale", "ZeroPoint", "Output"))
SIZES = tuple(f"{tensor}.Sizes" for tensor in TENSORS)
ROW = {"Sizes": [2, 3], "Strides": [0, 1]}
ANY_QUANTIZE: Any = tr.DirectMLQuantizeLinear


def versions(added: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, str]]:
    """The versions of a model: the operands' types by the level from which they are."""
    dtypes: tuple[str, ...] = ()
    found = {}
    for level in LEVELS:
        dtypes = added.get(level, dtypes)
        found[level] = (datatypes(dtypes), "4-4" if level in OLD else "1-8")
    return found


INTEGERS = ("int32", "int16", "int8", "uint32", "uint16", "uint8")
#: The example as one of every level: four dimensions, and the types of the oldest.
OLDEST = {
    "desc.ScaleTensor.Strides": ABSENT,
    **{path: [1, 1, 2, 3] for path in SIZES},
}

CASES = {
    "directml:ELEMENT_WISE_QUANTIZE_LINEAR": OperatorCases(
        example={
            "dialect": "directml",
            "feature_level": "6_2",
            "type": "DML_OPERATOR_ELEMENT_WISE_QUANTIZE_LINEAR",
            "desc": {
                "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
                "ScaleTensor": {"DataType": "FLOAT32", **ROW},
                "ZeroPointTensor": {"DataType": "INT8", **ROW},
                "OutputTensor": {"DataType": "INT8", "Sizes": [2, 3]},
            },
        },
        operator=(tr.DirectMLQuantizeLinear("int8"), "<f4"),
        parameters=(("float32", [1, 3]), ("int8", [1, 3])),
        word="directml:QUANTIZE_LINEAR",
        dtypes={name: NAMES[name] for name in ("FLOAT32", "FLOAT16", "UINT8", "INT8", "INT32")},
        rounds_to_integral=False,
        defaulted={"desc.ZeroPointTensor", "desc.ScaleTensor.Strides"}
        | {"desc.ZeroPointTensor.Strides"},
        accepted=[
            (spelled(33, "ELEMENT_WISE_QUANTIZE_LINEAR", at=["type"]), None),
            ({"desc.ZeroPointTensor": None}, {"parameters.zero_point": None}),
            (
                {"desc.ScaleTensor.Strides": None},
                {"parameters.scale.shape": (2, 3), "parameters.blocks": (1, 1)},
            ),
            (
                {"desc.ScaleTensor.Strides": [0, 0], "desc.ZeroPointTensor": ABSENT},
                {"parameters.scale.byte_length": 4, "parameters.blocks": (2, 3)},
            ),
            (
                {"desc.ScaleTensor.TotalTensorSizeInBytes": 40},
                {"payload_bytes": 24 + 40 + 3, "output.byte_length": 8},
            ),
            (
                {"desc.InputTensor.DataType": "INT32"},
                {"input.dtype.name": "int32", "parameters.scale.dtype.name": "float32"},
            ),
        ],
        refusals=[
            (
                "desc.ScaleTensor.DataType",
                "FLOAT16",
                "must be FLOAT32 beside InputTensor FLOAT32, got FLOAT16",
            ),
            ("desc.OutputTensor.Flags", 1, "OWNED_BY_DML is for inputs only"),
            ("desc.OutputTensor.Strides", [0, 1], "elements of the output must not overlap"),
            ("desc.ScaleTensor.Sizes", [1, 3], "must equal the InputTensor's Sizes"),
            ("desc.ScaleTensor.TotalTensorSizeInBytes", 8, "must be at least 12"),
        ],
        broken=[
            (
                {"desc.InputTensor.DataType": "INT8"},
                {"desc.InputTensor.DataType": "takes FLOAT32, FLOAT16, INT32 here"},
            ),
            (
                {"desc.OutputTensor.DataType": "UINT8"},
                {"desc.ZeroPointTensor.DataType": "must be UINT8 beside OutputTensor UINT8"},
            ),
            (
                {"feature_level": "6_1", "desc.ZeroPointTensor": None},
                {"desc.ZeroPointTensor": "is required before feature level 6_2"},
            ),
            (
                {"feature_level": "5_2", "desc.InputTensor.DataType": "FLOAT16"},
                {"desc.InputTensor.DataType": "takes FLOAT32, INT32 here"},
            ),
        ],
        refused=[
            (
                lambda: ANY_QUANTIZE("int8", "1_0"),
                "desc.ZeroPointTensor.DataType",
                "ELEMENT_WISE_QUANTIZE_LINEAR takes UINT8 here",
            ),
            (
                lambda: tr.DirectMLQuantizeLinear().descriptor(
                    "float32", [2, 3], ("float32", [2]), None
                ),
                "desc.ScaleTensor.Sizes",
                "must be 1 or the input's along each dimension",
            ),
        ],
        words={
            "directml": tr.DirectMLQuantizeLinear(),
            "directml:QUANTIZE_LINEAR:3_0": tr.DirectMLQuantizeLinear(feature_level="3_0"),
        },
        wrong_words={"directml:QUANTIZE_LINEAR:9_9": "directml: a feature level takes"},
        spelling="directml:QUANTIZE_LINEAR or directml:QUANTIZE_LINEAR:FEATURE_LEVEL",
        in_every_version={
            **OLDEST,
            "desc.ZeroPointTensor.Strides": ABSENT,
            "desc.ZeroPointTensor.DataType": "UINT8",
            "desc.OutputTensor.DataType": "UINT8",
        },
        model=Model(
            "directml_element_wise_quantize_linear",
            "InputTensor",
            "OutputTensor",
            None,
            versions(
                {
                    "1_0": ("float32",),
                    "2_1": ("float32", "int32"),
                    "6_0": ("float32", "float16", "int32"),
                }
            ),
            ("ScaleTensor", "ZeroPointTensor"),
            ("ZeroPointTensor", "OutputTensor"),
        ),
    ),
    "directml:ELEMENT_WISE_DEQUANTIZE_LINEAR": OperatorCases(
        example={
            "dialect": "directml",
            "feature_level": "6_2",
            "type": "DML_OPERATOR_ELEMENT_WISE_DEQUANTIZE_LINEAR",
            "desc": {
                "InputTensor": {"DataType": "INT8", "Sizes": [2, 3]},
                "ScaleTensor": {"DataType": "FLOAT32", **ROW},
                "ZeroPointTensor": None,
                "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
            },
        },
        operator=(tr.DirectMLDequantizeLinear("float32"), "i1"),
        parameters=(("float32", [1, 3]),),
        word="directml:DEQUANTIZE_LINEAR",
        dtypes=NAMES,
        rounds_to_integral=False,
        defaulted={"desc.ZeroPointTensor", "desc.ScaleTensor.Strides"},
        accepted=[
            (spelled(34, "ELEMENT_WISE_DEQUANTIZE_LINEAR", at=["type"]), None),
            (
                {
                    "desc.ZeroPointTensor": {"DataType": "INT8", "Sizes": [2, 3]},
                    "desc.InputTensor.Strides": [1, 2],
                },
                {"parameters.scale.shape": (2, 3), "payload_bytes": 6 + 12 + 6},
            ),
        ],
        refusals=[
            ("desc.OutputTensor.DataType", "FLOAT16", "must be FLOAT32 beside ScaleTensor FLOAT32"),
            ("desc.InputTensor.DataType", "INT64", "takes INT32, INT16, INT8, UINT32, UINT16"),
        ],
        refused=[],
        words={"directml:DEQUANTIZE_LINEAR": tr.DirectMLDequantizeLinear()},
        wrong_words={"directml:QUANTIZE_LINEAR": "write directml:DEQUANTIZE_LINEAR"},
        spelling="directml:DEQUANTIZE_LINEAR or directml:DEQUANTIZE_LINEAR:FEATURE_LEVEL",
        in_every_version={
            **{path: size for path, size in OLDEST.items() if "ZeroPoint" not in path},
            "desc.InputTensor.DataType": "UINT8",
            "desc.ZeroPointTensor": {"DataType": "UINT8", "Sizes": [1, 1, 2, 3]},
        },
        model=Model(
            "directml_element_wise_dequantize_linear",
            "InputTensor",
            "OutputTensor",
            None,
            versions({"1_0": ("uint8",), "2_1": INTEGERS}),
            ("ScaleTensor", "ZeroPointTensor"),
            ("InputTensor", "ZeroPointTensor"),
        ),
    ),
}
