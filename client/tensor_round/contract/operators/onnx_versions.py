"""The versions of ONNX's operators: the types of each tensor, and the attributes.

Also what descriptors of all of them have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from ..errors import Fault
from ..quoting import shown
from .dialect import Version
from .model import OperatorDescriptor
from .onnx_types import DTYPES, NEWEST_OPSET

_ROUNDED = ("FLOAT16", "FLOAT", "DOUBLE")
_INTEGERS = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
FLOATS = ("FLOAT16", "BFLOAT16")
_FLOATS_OF_8_BITS = ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")
_INTEGERS_OF_OPSET_21 = ("INT16", "UINT16", "INT4", "UINT4")

#: By the operator, the opset from which each version is, and what it adds to the types of the
#: operand; for linear quantization also of the scale and the result (the codes, for
#: DequantizeLinear the operand).
_ADDED: dict[str, dict[int, tuple[Sequence[str], ...]]] = {
    "Round": {11: (_ROUNDED,), 22: (("BFLOAT16",),)},
    "Floor": {6: (_ROUNDED,), 13: (("BFLOAT16",),)},
    "Ceil": {6: (_ROUNDED,), 13: (("BFLOAT16",),)},
    "Cast": {
        9: ((*_ROUNDED, *_INTEGERS),),
        13: (("BFLOAT16",),),
        19: (_FLOATS_OF_8_BITS,),
        21: (("INT4", "UINT4"),),
        23: (("FLOAT4E2M1",),),
        24: (("FLOAT8E8M0",),),
        25: (),
    },
    "QuantizeLinear": {
        10: (("FLOAT", "INT32"), ("FLOAT",), ("INT8", "UINT8")),
        13: (),
        19: (FLOATS, (*FLOATS, "INT32"), _FLOATS_OF_8_BITS),
        21: ((), (), _INTEGERS_OF_OPSET_21),
        23: ((), (), ("FLOAT4E2M1",)),
        24: ((), ("FLOAT8E8M0",)),
        25: (),
    },
    "DequantizeLinear": {
        10: (("INT8", "UINT8", "INT32"), ("FLOAT",), ("FLOAT",)),
        13: (),
        19: (_FLOATS_OF_8_BITS, FLOATS, FLOATS),
        21: (_INTEGERS_OF_OPSET_21,),
        23: (("FLOAT4E2M1",),),
        24: ((), ("FLOAT8E8M0",)),
        25: (),
    },
}
#: The first opsets with the attributes.
SINCE: dict[str, dict[str, int]] = {
    "Cast": {"saturate": 19, "round_mode": 24},
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
    dtypes: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    added = _ADDED[operator]
    for oldest, newer in zip(added, (*[*added][1:], NEWEST_OPSET + 1), strict=True):
        more, more_scales, more_results = (*added[oldest], (), (), ())[:3]
        dtypes, scales = (*dtypes, *more), (*scales, *more_scales)
        results = (*results, *more_results)
        found.append(
            Version(
                name=f"{operator}-{oldest}",
                title=f"onnx {operator}-{oldest} (opsets {oldest} to {newer - 1})",
                selected_by=tuple(range(oldest, newer)),
                dtypes=dtypes,
                scales=scales,
                results=results,
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


class OnnxOperatorDescriptor(OperatorDescriptor):
    """The fields of every operator, and the rules on its opset."""

    dialect: Literal["onnx"] = "onnx"
    op_type: str
    opset_version: int
    domain: Literal["", "ai.onnx"] = Field(
        default="", description='The default domain, by either name: "" or ai.onnx.'
    )

    @field_validator("opset_version")
    @classmethod
    def _known_opset(cls, opset: int, info: ValidationInfo) -> int:
        operator = info.data.get("op_type")
        oldest = VERSIONS[operator][0].selected_by[0] if operator else opset
        if opset < int(oldest):
            rule = f"onnx: {operator}-{oldest} is the oldest version known here"
            if operator == "Round":
                rule = f"onnx: Round was introduced in opset {oldest}"
        elif opset > NEWEST_OPSET:
            rule = f"onnx: the newest opset known here is {NEWEST_OPSET}"
        else:
            return opset
        raise PydanticCustomError("opset", "{rule}, got {got}", {"rule": rule, "got": shown(opset)})

    def _type_fault(self, what: str, name: str, *loc: str) -> list[Fault]:
        """The fault of a type that is none of the version's ``what``, if any."""
        versions = VERSIONS[self.op_type]
        version = next(one for one in versions if self.opset_version in one.selected_by)
        takes: tuple[str, ...] = getattr(version, what)
        if name in takes:
            return []
        newer = [one.selected_by[0] for one in versions if name in getattr(one, what)]
        rule = f"{version.title} takes {', '.join(takes)}"
        if newer:
            return [Fault(loc, f"{name} needs opset {newer[0]} or newer; {rule}")]
        return [Fault(loc, f"{rule} here, got {name}")]

    def _attribute_faults(self) -> list[Fault]:
        return [
            Fault((name,), f"onnx: {name} needs opset {opset} or newer")
            for name, opset in SINCE[self.op_type].items()
            if name in self.model_fields_set and self.opset_version < opset
        ]
