"""The ``onnx`` dialect: ``Round`` of the ONNX operator sets, versions 11 and 22.

Rules are those of the ONNX operator specification: floating-point tensors only, ties to even, any
rank and any sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from ...call import Call
from ...dtypes import AnyDType
from ...errors import InvalidDescriptor
from ...quoting import shown
from ...rounding import Rounding
from ..dialect import Dialect, ModelNames, Version, Words
from ..model import RANK_LIMIT, OneOf, OperatorDescriptor, Sizes, Strict
from ..operator import RoundOperator, canonical_name, name_in, sizes_of

__all__ = ["OnnxDescriptor", "OnnxRound", "OnnxTensor"]

#: From the first opset with Round to the newest of onnx 1.23.
OnnxOpset = Literal[11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28]
OLDEST_OPSET, *_, NEWEST_OPSET = get_args(OnnxOpset)

#: TensorProto.DataType: ONNX's names, their numbers, and the dtypes.
_DATA_TYPES = (
    ("FLOAT16", 10, "float16"),
    ("BFLOAT16", 16, "bfloat16"),
    ("FLOAT", 1, "float32"),
    ("DOUBLE", 11, "float64"),
    ("FLOAT8E4M3FN", 17, "float8_e4m3fn"),
    ("FLOAT8E5M2", 19, "float8_e5m2"),
    ("INT8", 3, "int8"),
    ("INT16", 5, "int16"),
    ("INT32", 6, "int32"),
    ("INT64", 7, "int64"),
    ("UINT8", 2, "uint8"),
    ("UINT16", 4, "uint16"),
    ("UINT32", 12, "uint32"),
    ("UINT64", 13, "uint64"),
)
DTYPES = {name: dtype for name, _, dtype in _DATA_TYPES}
NUMBERS = {dtype: number for _, number, dtype in _DATA_TYPES}


def _version(name: str, opsets: range, dtypes: tuple[str, ...]) -> Version:
    title = f"onnx {name} (opsets {opsets[0]} to {opsets[-1]})"
    oldest, selected = opsets[0], tuple(opsets)
    return Version(
        name, title, selected, dtypes, 0, RANK_LIMIT, str(oldest), {"opset_version": oldest}
    )


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

    example: ClassVar[dict[str, Any]] = {
        "dialect": "onnx",
        "op_type": "Round",
        "opset_version": 22,
        "input": {"elem_type": "FLOAT16", "shape": [2, 3]},
    }

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

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        name, shape = self.input.elem_type, self.input.shape
        version = _BY_OPSET[self.opset_version]
        if name not in version.dtypes:
            newer = min(v.selected_by[0] for v in VERSIONS if name in v.dtypes)
            rule = f"got {name}; use opset {newer} or newer. {version.takes}"
            raise InvalidDescriptor.at(("input", "elem_type"), rule)
        return Call.packed(Rounding.TIES_TO_EVEN, DTYPES[name], shape, ("input",))


@dataclass(frozen=True, slots=True)
class OnnxRound(RoundOperator):
    """ONNX Round: ties to even, on the opset's floats; ``domain`` is the default domain."""

    _paths: ClassVar[Mapping[str, str]] = {"opset_version": "opset_version", "domain": "domain"}

    opset_version: OnnxOpset = 22
    domain: str = field(default="", compare=False, repr=False, kw_only=True)

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> OnnxDescriptor:
        """The ``onnx`` descriptor for a tensor, of a type that the opset's Round accepts."""
        descriptor = OnnxDescriptor.read(
            {
                "op_type": "Round",
                **({"domain": self.domain} if self.domain else {}),
                "opset_version": self.opset_version,
                "input": {
                    "elem_type": name_in(DTYPES, canonical_name(dtype)),
                    "shape": sizes_of(shape),
                },
            }
        )
        descriptor.resolve()
        return descriptor


DIALECT = Dialect(
    title="ONNX",
    operator="Round",
    descriptor=OnnxDescriptor,
    object=OnnxRound,
    model=ModelNames("onnx_round"),
    words=Words(("OPSET",), f"{OLDEST_OPSET} to {NEWEST_OPSET}", are_integers=True),
    version_field="opset_version",
    versions=VERSIONS,
    dtypes={name: DTYPES[name] for name in _TYPES},
)
