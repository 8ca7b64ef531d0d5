"""The ``onnx`` dialect: ``Round`` of the ONNX operator sets, versions 11 and 22.

Rules are those of the ONNX operator specification: floating-point tensors only, ties to even, any
rank and any sizes.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from ..call import RoundCall
from ..dtypes import BY_ONNX
from ..errors import InvalidDescriptor
from ..layout import Layout
from ..quoting import shown
from ..rounding import Rounding
from .dialect import Dialect, Version
from .fields import RANK_LIMIT, OneOf, Sizes
from .model import OperatorDescriptor, Strict

OLDEST_OPSET = 11
#: The newest opset of onnx 1.23.
NEWEST_OPSET = 28


def _version(name: str, opsets: range, dtypes: tuple[str, ...]) -> Version:
    title = f"onnx {name} (opsets {opsets[0]} to {opsets[-1]})"
    return Version(name, title, tuple(opsets), dtypes, 0, RANK_LIMIT)


_ROUND_11 = ("FLOAT16", "FLOAT", "DOUBLE")
VERSIONS: tuple[Version, ...] = (
    _version("Round-11", range(OLDEST_OPSET, 22), _ROUND_11),
    _version("Round-22", range(22, NEWEST_OPSET + 1), (*_ROUND_11, "BFLOAT16")),
)
_BY_OPSET: dict[str | int, Version] = {
    opset: version for version in VERSIONS for opset in version.selected_by
}

_TYPES = VERSIONS[-1].dtypes
#: TensorProto.DataType names, and the type strings of the specification's constraints.
_SPELLINGS: dict[str | int, str] = {
    **{name: name for name in _TYPES},
    **{f"tensor({name.lower()})": name for name in _TYPES},
}
_EXAMPLE: dict[str, Any] = {
    "dialect": "onnx",
    "op_type": "Round",
    "opset_version": 22,
    "input": {"elem_type": "FLOAT16", "shape": [2, 3]},
}


def _known_opset(opset: int) -> int:
    if opset < OLDEST_OPSET:
        rule = f"onnx: Round was introduced in opset {OLDEST_OPSET}"
    elif opset > NEWEST_OPSET:
        rule = f"onnx: the newest opset known here is {NEWEST_OPSET}"
    else:
        return opset
    raise PydanticCustomError("opset", "{rule}, got {got}", {"rule": rule, "got": shown(opset)})


class OnnxTensor(Strict):
    """A tensor of the ONNX type system, packed in C order."""

    elem_type: Annotated[str, OneOf("onnx: Round", _SPELLINGS)] = Field(
        description="The name in TensorProto.DataType, or the full type string. "
        "BFLOAT16 needs opset 22 or newer."
    )
    shape: Sizes = Field(description="Elements along each dimension; 0 makes an empty tensor.")


class OnnxDescriptor(OperatorDescriptor):
    """ONNX Round: to the nearest integer, ties to even."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    dialect: Literal["onnx"] = "onnx"
    op_type: Literal["Round"]
    opset_version: Annotated[int, AfterValidator(_known_opset)] = Field(
        description="The version of the default operator set: 11 to 21 is Round-11, "
        "22 and up is Round-22.",
        json_schema_extra={"minimum": OLDEST_OPSET, "maximum": NEWEST_OPSET},
    )
    input: OnnxTensor
    domain: Literal["", "ai.onnx"] = Field(
        default="", description='The default domain, by either name: "" or ai.onnx.'
    )

    def resolve(self) -> RoundCall:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        tensor, version = self.input, _BY_OPSET[self.opset_version]
        if faults := version.dtype_faults(tensor.elem_type, ("input", "elem_type")):
            raise InvalidDescriptor.of(faults)
        layout = Layout.of(BY_ONNX[tensor.elem_type], tensor.shape, loc=("input",))
        return RoundCall.packed_output(Rounding.TIES_TO_EVEN, layout)


DIALECT = Dialect(
    name="onnx",
    operator="Round",
    version_field="opset_version",
    versions=VERSIONS,
    dtypes={name: BY_ONNX[name].name for name in _TYPES},
    mode_field=None,
    modes={},
    default_rounding=Rounding.TIES_TO_EVEN,
)
