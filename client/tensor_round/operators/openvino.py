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
from .fields import RANK_LIMIT, OneOf, Sizes, Strict

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
        DEFAULT_MODE,
        description=f"Where halves go, {DEFAULT_MODE} where this is not given; integers come back "
        "as they are in both modes.",
    )


class OpenVINOTensor(Strict):
    """A tensor of OpenVINO's element types, packed in C order."""

    element_type: Annotated[str, OneOf(VERSION.title, {name: name for name in BY_OPENVINO})]
    shape: Sizes = Field(description="Elements along each dimension; 0 makes an empty tensor.")


class OpenVINODescriptor(Strict):
    """OpenVINO Round-5: to the nearest integer, halves as ``mode`` says."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    dialect: Literal["openvino"]
    type: Literal["Round"]
    version: Literal["opset5"]
    data: OpenVINOData | None = Field(None, description="Attributes; null is the defaults.")
    input: OpenVINOTensor

    def resolve(self) -> RoundCall:
        """The call this descriptor stands for; raises :class:`InvalidDescriptor`."""
        mode = DEFAULT_MODE if self.data is None else self.data.mode
        layout = Layout.of(BY_OPENVINO[self.input.element_type], self.input.shape, loc=("input",))
        return RoundCall.packed_output(OPENVINO_MODES[mode], layout)


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
