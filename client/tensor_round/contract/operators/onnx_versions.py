"""The versions of ONNX's linear quantization: the types of each tensor, and the attributes."""

from __future__ import annotations

from collections.abc import Sequence

from .dialect import Version
from .model import RANK_LIMIT
from .onnx_types import DTYPES, NEWEST_OPSET

FLOATS = ("FLOAT16", "BFLOAT16")
_FLOATS_OF_8_BITS = ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")
_INTEGERS_OF_OPSET_21 = ("INT16", "UINT16", "INT4", "UINT4")

#: By the operator, the opset from which each version is, and what it adds to the types of the
#: operand, the scale and the result (the codes, for DequantizeLinear the operand).
_ADDED: dict[str, dict[int, tuple[Sequence[str], Sequence[str], Sequence[str]]]] = {
    "QuantizeLinear": {
        10: (("FLOAT", "INT32"), ("FLOAT",), ("INT8", "UINT8")),
        13: ((), (), ()),
        19: (FLOATS, (*FLOATS, "INT32"), _FLOATS_OF_8_BITS),
        21: ((), (), _INTEGERS_OF_OPSET_21),
        23: ((), (), ("FLOAT4E2M1",)),
        24: ((), ("FLOAT8E8M0",), ()),
        25: ((), (), ()),
    },
    "DequantizeLinear": {
        10: (("INT8", "UINT8", "INT32"), ("FLOAT",), ("FLOAT",)),
        13: ((), (), ()),
        19: (_FLOATS_OF_8_BITS, FLOATS, FLOATS),
        21: (_INTEGERS_OF_OPSET_21, (), ()),
        23: (("FLOAT4E2M1",), (), ()),
        24: ((), ("FLOAT8E8M0",), ()),
        25: ((), (), ()),
    },
}
#: The first opsets with the attributes.
SINCE = {
    "QuantizeLinear": {
        "axis": 13, "saturate": 19, "block_size": 21, "output_dtype": 21, "precision": 23
    },
    "DequantizeLinear": {"axis": 13, "block_size": 21, "output_dtype": 23},
}  # fmt: skip
#: The scales that have the operand's type until the opset 23.
OPSETS_OF_EQUAL_TYPES = range(19, 23)


def _versions(operator: str) -> tuple[Version, ...]:
    """The versions of an operator, by their first opsets."""
    found: list[Version] = []
    types: list[tuple[str, ...]] = [(), (), ()]
    added = _ADDED[operator]
    for oldest, newer in zip(added, (*[*added][1:], NEWEST_OPSET + 1), strict=True):
        types = [(*known, *more) for known, more in zip(types, added[oldest], strict=True)]
        found.append(
            Version(
                name=f"{operator}-{oldest}",
                title=f"onnx {operator}-{oldest} (opsets {oldest} to {newer - 1})",
                selected_by=tuple(range(oldest, newer)),
                dtypes=types[0],
                scales=types[1],
                results=types[2],
                min_rank=0,
                max_rank=RANK_LIMIT,
                model_version=str(oldest),
                attributes={"opset_version": oldest},
            )
        )
    return tuple(found)


VERSIONS = {operator: _versions(operator) for operator in _ADDED}


def types_of(operator: str) -> tuple[str, ...]:
    """The types of all tensors of an operator, in ONNX's order."""
    newest = VERSIONS[operator][-1]
    known = {*newest.dtypes, *newest.scales, *newest.results}
    return tuple(name for name in DTYPES if name in known)
