"""The models of the Open Inference Protocol: each is the operator of one dialect.

The dialects define which tensors a model accepts; this module defines names only. A new version
of a dialect's operator is a new version of its model without further code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import cast

from tensor_round.dtypes import BY_NAME, BY_OIP, DTYPES, DType
from tensor_round.errors import Fault, InvalidDescriptor, NotFound
from tensor_round.names import FeatureLevel, OnnxOpset
from tensor_round.operators import array_api, directml, ieee754, onnx, openvino, stablehlo, webnn
from tensor_round.operators.dialect import Dialect, Version
from tensor_round.operators.objects import (
    ArrayAPIRound,
    DirectMLRound,
    IEEE754Round,
    OnnxRound,
    OpenVINORound,
    RoundOperator,
    StableHLORound,
    WebNNRoundEven,
)
from tensor_round.quoting import shown

#: Types without a name in the protocol are sent as this type; the parameter ``dtype`` names them.
CARRIER = BY_NAME["uint8"]
_CARRIED = tuple(dtype for dtype in DTYPES if dtype.oip is None)


@dataclass(frozen=True, eq=False)
class Model:
    """One version of one model.

    ``mode_parameter`` is the request parameter that selects the mode, None if the dialect has
    no modes. ``operator`` creates the operator from the parameter's value; without an argument
    it creates the dialect's default.
    """

    name: str
    version: str
    input: str
    output: str
    dialect: Dialect
    rules: Version
    mode_parameter: str | None
    operator: Callable[..., RoundOperator]

    @cached_property
    def dtypes(self) -> tuple[DType, ...]:
        """The dtypes that the model accepts."""
        return tuple(BY_NAME[self.dialect.dtypes[name]] for name in self.rules.dtypes)

    @property
    def datatypes(self) -> tuple[str, ...]:
        """The accepted datatypes; ``UINT8:float8_e5m2`` is UINT8 with the parameter ``dtype``."""
        return tuple(dtype.oip or f"{CARRIER.oip}:{dtype.name}" for dtype in self.dtypes)

    @property
    def advertised_shape(self) -> tuple[int, ...]:
        """The shape in the metadata: the lowest rank, with any sizes."""
        return (-1,) * max(self.rules.min_rank, 1)


def _onnx_round(rules: Version) -> Model:
    # The name of a version is the first operator set that has it.
    opset = int(rules.selected_by[0])
    operator = partial(OnnxRound, cast(OnnxOpset, opset))
    return Model("onnx_round", str(opset), "X", "Y", onnx.DIALECT, rules, None, operator)


def _directml_round(rules: Version) -> Model:
    return Model(
        "directml_element_wise_round",
        rules.name,
        "InputTensor",
        "OutputTensor",
        directml.DIALECT,
        rules,
        "rounding_mode",
        partial(DirectMLRound, feature_level=cast(FeatureLevel, rules.name)),
    )


#: Every version of every model, oldest first.
MODELS: tuple[Model, ...] = (
    Model("round", "1", "X", "Y", ieee754.DIALECT, ieee754.VERSION, "rounding", IEEE754Round),
    *map(_onnx_round, onnx.VERSIONS),
    Model(
        "openvino_round", "5", "X", "Y", openvino.DIALECT, openvino.VERSION, "mode", OpenVINORound
    ),
    *map(_directml_round, directml.VERSIONS.values()),
    Model(
        "webnn_round_even",
        "1",
        "input",
        "output",
        webnn.DIALECT,
        webnn.VERSION,
        None,
        WebNNRoundEven,
    ),
    Model(
        "stablehlo_round_nearest",
        "1",
        "operand",
        "result",
        stablehlo.DIALECT,
        stablehlo.VERSION,
        "op",
        StableHLORound,
    ),
    Model(
        "array_api_round",
        array_api.VERSION.name,
        "x",
        "out",
        array_api.DIALECT,
        array_api.VERSION,
        "op",
        ArrayAPIRound,
    ),
)
MODE_PARAMETERS = frozenset(
    model.mode_parameter for model in MODELS if model.mode_parameter is not None
)


def find(name: str, version: str | None = None) -> Model:
    """Find a model; without a version, its newest one. Raises :class:`NotFound`."""
    versions = [model for model in MODELS if model.name == name]
    if not versions:
        raise NotFound(f"there is no model {shown(name)}; POST /v2/repository/index lists them")
    found = [model for model in versions if version in (None, model.version)]
    if not found:
        existing = ", ".join(model.version for model in versions)
        raise NotFound(f"model {name} has no version {shown(version)}; it has {existing}")
    return found[-1]


# Typed, because 1, 1.0 and true are equal, but only 1 can be a mode.
@lru_cache(maxsize=256, typed=True)
def operator_for(model: Model, mode: str | float | None) -> RoundOperator:
    """The operator of a model in a mode; raises :class:`InvalidDescriptor`."""
    return model.operator() if mode is None else model.operator(mode)


def element_type(model: Model, datatype: str, carried: object = None) -> DType:
    """The dtype of a tensor: its datatype, or the dtype that a UINT8 tensor carries.

    ``carried`` is the value of the parameter ``dtype``, None without it. Raises
    :class:`InvalidDescriptor` for a type that the model does not accept.
    """
    dtype = BY_OIP.get(datatype)
    if dtype is None:
        raise _not_accepted(model, shown(datatype))
    dtype = dtype if carried is None else _carried(datatype, dtype, carried)
    if dtype not in model.dtypes:
        raise _not_accepted(model, _protocol_name(dtype))
    return dtype


def _carried(datatype: str, dtype: DType, carried: object) -> DType:
    candidates = [dtype, *_CARRIED] if dtype is CARRIER else [dtype]
    for candidate in candidates:
        if candidate.name == carried:
            return candidate
    names = ", ".join(candidate.name for candidate in candidates)
    rule = f"the parameter dtype of a {datatype} must be one of {names}, got {shown(carried)}"
    raise InvalidDescriptor.of([Fault((), rule)])


def _not_accepted(model: Model, got: str) -> InvalidDescriptor:
    accepted = ", ".join(map(_protocol_name, model.dtypes))
    rule = f"model {model.name} version {model.version} takes {accepted}, got {got}"
    return InvalidDescriptor.of([Fault((), rule)])


def _protocol_name(dtype: DType) -> str:
    """The name of a dtype in the protocol."""
    return dtype.oip or f"{CARRIER.oip} with the parameter dtype {dtype.name}"
