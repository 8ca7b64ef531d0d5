"""The ``openvino`` dialect: ``Round-5`` of OpenVINO's operation set 5.

Its fields are the attributes of the layer in OpenVINO's intermediate representation,
``<layer type="Round" version="opset5"><data mode="half_to_even"/></layer>``. Names
are lower case, as the specification has them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from ..call import RoundCall
from ..dtypes import BY_OPENVINO
from ..layout import Layout
from ..rounding import OPENVINO_MODES
from .dialect import Dialect, Version
from .fields import RANK_LIMIT, OneOf, Sizes
from .model import OperatorDescriptor, Strict

VERSION = Version("Round-5", "openvino Round-5", ("opset5",), tuple(BY_OPENVINO), 0, RANK_LIMIT)
DEFAULT_MODE = "half_to_even"
_EXAMPLE: dict[str, Any] = {
    "dialect": "openvino",
    "type": "Round",
    "version": "opset5",
    "data": {"mode": "half_to_even"},
    "input": {"element_type": "f32", "shape": [2, 3]},
}


class OpenVINOData(Strict):
    """The layer's attributes."""

    mode: Annotated[str, OneOf(VERSION.title, {mode: mode for mode in OPENVINO_MODES})] = Field(
        default=DEFAULT_MODE,
        description=f"The rule for halves, {DEFAULT_MODE} by default. Both modes return integers "
        "unchanged.",
    )


#: Round-5 allows "any numeric type". These types of OpenVINO are refused, with the reason.
_SUB_BYTE = "its elements are storage codes of less than a byte"
_NOT_CLOSED = "it is not closed under rounding: it has powers of two alone, and 0.5 rounds to 0"
_REASONS = {
    **dict.fromkeys(("i4", "u4", "u1", "u2", "u3", "u6", "nf4", "f4e2m1"), _SUB_BYTE),
    "f8e8m0": _NOT_CLOSED,
}
_REJECTED: dict[str | int, str] = {
    name: f"{VERSION.title} takes {', '.join(BY_OPENVINO)}, got {name}: {why}, and OpenVINO's own "
    "evaluation of Round does not take it either"
    for name, why in _REASONS.items()
}


class OpenVINOTensor(Strict):
    """A tensor of OpenVINO's element types, packed in C order."""

    element_type: Annotated[
        str, OneOf(VERSION.title, {name: name for name in BY_OPENVINO}, _REJECTED)
    ]
    shape: Sizes = Field(description="Elements along each dimension; 0 makes an empty tensor.")


class OpenVINODescriptor(OperatorDescriptor):
    """OpenVINO Round-5: to the nearest integer, halves by ``mode``."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    dialect: Literal["openvino"] = "openvino"
    type: Literal["Round"]
    version: Literal["opset5"] = Field(
        default="opset5", description="The operation set; opset5 by default."
    )
    data: OpenVINOData | None = Field(
        default=None, description="Attributes; null has the defaults."
    )
    input: OpenVINOTensor

    @property
    def mode(self) -> str:
        """The rule for halves: that of ``data``, or the default."""
        return DEFAULT_MODE if self.data is None else self.data.mode

    def resolve(self) -> RoundCall:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        layout = Layout.of(BY_OPENVINO[self.input.element_type], self.input.shape, loc=("input",))
        return RoundCall.packed_output(OPENVINO_MODES[self.mode], layout)


DIALECT = Dialect(
    name="openvino",
    operator="Round",
    version_field="version",
    versions=(VERSION,),
    dtypes={name: dtype.name for name, dtype in BY_OPENVINO.items()},
    mode_field="data.mode",
    modes=OPENVINO_MODES,
    default_rounding=OPENVINO_MODES[DEFAULT_MODE],
)
