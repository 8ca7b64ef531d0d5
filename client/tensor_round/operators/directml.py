"""The ``directml`` dialect: ``DML_ELEMENT_WISE_ROUND_OPERATOR_DESC``.

``type`` and ``desc`` have the form of DxDispatch, DirectML's own runner: enumerators with or
without their prefix; here also as the C integer. ``feature_level`` is the device's; it decides
how many dimensions a tensor may have.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from ..call import RoundCall
from ..dtypes import BY_DIRECTML
from ..errors import Fault, InvalidDescriptor
from ..rounding import DIRECTML_MODE_VALUES, DIRECTML_MODES
from .dialect import Dialect, Version, overlap_fault
from .directml_tensor import DTYPES, AnyTensorDesc, BufferDesc
from .fields import OneOf, c_enumeration
from .model import OperatorDescriptor, Strict

#: Feature level, its C integer, fewest and most dimensions of ELEMENT_WISE_ROUND.
_LEVELS: tuple[tuple[str, int, int, int], ...] = (
    ("2_1", 0x2100, 4, 4),
    ("3_0", 0x3000, 1, 8),
    ("3_1", 0x3100, 1, 8),
    ("4_0", 0x4000, 1, 8),
    ("4_1", 0x4100, 1, 8),
    ("5_0", 0x5000, 1, 8),
    ("5_1", 0x5100, 1, 8),
    ("5_2", 0x5200, 1, 8),
    ("6_0", 0x6000, 1, 8),
    ("6_1", 0x6100, 1, 8),
    ("6_2", 0x6200, 1, 8),
    ("6_3", 0x6300, 1, 8),
    ("6_4", 0x6400, 1, 8),
)
VERSIONS: dict[str, Version] = {
    level: Version(level, f"directml {level}: ELEMENT_WISE_ROUND", (level,), DTYPES, least, most)
    for level, _, least, most in _LEVELS
}
_LEVEL_PREFIX = "DML_FEATURE_LEVEL_"
_TOO_OLD = {
    spelling: f"directml: ELEMENT_WISE_ROUND was introduced in feature level 2_1, got {level}"
    for spelling, level in c_enumeration(_LEVEL_PREFIX, {"1_0": 0x1000, "2_0": 0x2000}).items()
}
LEVELS = OneOf(
    "directml: a feature level",
    c_enumeration(_LEVEL_PREFIX, {level: number for level, number, _, _ in _LEVELS}),
    _TOO_OLD,
)
FeatureLevel = Annotated[str | int, LEVELS]
#: The mode of a descriptor without RoundingMode: the C enumeration's 0.
DEFAULT_MODE = DIRECTML_MODE_VALUES[0]
_OPERATORS = c_enumeration("DML_OPERATOR_", {"ELEMENT_WISE_ROUND": 99})
OperatorType = Annotated[str | int, OneOf("directml: this dialect", _OPERATORS)]
MODES = OneOf(
    "directml: ELEMENT_WISE_ROUND",
    c_enumeration(
        "DML_ROUNDING_MODE_", {name: value for value, name in DIRECTML_MODE_VALUES.items()}
    ),
)
Mode = Annotated[str | int, MODES]
_EXAMPLE: dict[str, Any] = {
    "dialect": "directml",
    "feature_level": "3_0",
    "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
    "desc": {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
        "RoundingMode": "HALVES_TO_NEAREST_EVEN",
    },
}


class ElementWiseRoundDesc(Strict):
    """DML_ELEMENT_WISE_ROUND_OPERATOR_DESC."""

    InputTensor: AnyTensorDesc
    OutputTensor: AnyTensorDesc = Field(
        description="Of the input's DataType and Sizes; its Strides and TotalTensorSizeInBytes "
        "are the output's layout."
    )
    RoundingMode: Mode = Field(
        default=DEFAULT_MODE,
        description="TOWARD_INFINITY is nearest with halves away from zero; TOWARD_ZERO truncates. "
        f"The default is {DEFAULT_MODE}.",
    )


class DirectMLDescriptor(OperatorDescriptor):
    """DirectML's ELEMENT_WISE_ROUND, in DxDispatch's form."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    dialect: Literal["directml"] = "directml"
    feature_level: FeatureLevel
    type: OperatorType
    desc: ElementWiseRoundDesc

    def resolve(self) -> RoundCall:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        source, source_path = self.desc.InputTensor.buffer
        target, target_path = self.desc.OutputTensor.buffer
        source_loc = ("desc", "InputTensor", *source_path)
        target_loc = ("desc", "OutputTensor", *target_path)
        faults = [
            *VERSIONS[str(self.feature_level)].rank_faults(
                len(source.Sizes), (*source_loc, "Sizes")
            ),
            *_disagreements(source, target, target_loc),
            *source.faults(source_loc),
            *target.faults(target_loc),
        ]
        if faults:
            raise InvalidDescriptor.of(faults)
        input, output = source.layout, target.layout
        if not output.is_free_of_overlap:
            raise InvalidDescriptor.of([overlap_fault("directml", (*target_loc, "Strides"))])
        has_length = source.TotalTensorSizeInBytes is not None
        shortest = input.byte_length if has_length else source.unrounded_bytes
        return RoundCall(DIRECTML_MODES[str(self.desc.RoundingMode)], input, output, shortest)


def _disagreements(
    source: BufferDesc, target: BufferDesc, loc: tuple[str | int, ...]
) -> list[Fault]:
    def fault(field: str, why: str = "") -> Fault:
        return Fault((*loc, field), f"directml: must equal the InputTensor's {field}{why}")

    faults = [fault("DataType")] if source.DataType != target.DataType else []
    if (rank := len(source.Sizes)) != (got := len(target.Sizes)):
        faults.append(fault("DimensionCount", f", {rank}, got {got}"))
    elif source.Sizes != target.Sizes:
        faults.append(fault("Sizes"))
    if target.Flags == "OWNED_BY_DML":
        faults.append(Fault((*loc, "Flags"), "directml: OWNED_BY_DML is for inputs only"))
    return faults


DIALECT = Dialect(
    name="directml",
    operator="ELEMENT_WISE_ROUND",
    version_field="feature_level",
    versions=tuple(VERSIONS.values()),
    dtypes={name: BY_DIRECTML[name].name for name in DTYPES},
    mode_field="desc.RoundingMode",
    modes=DIRECTML_MODES,
    default_rounding=DIRECTML_MODES[DEFAULT_MODE],
)
