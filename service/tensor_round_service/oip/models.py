"""The models of the Open Inference Protocol: each is one operator of a dialect.

The dialects define which tensors a model accepts, and what it is called. A new operator is a new
model, and a new version of it a new version of the model, without further code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from tensor_round.contract.dtypes import BY_NAME, BY_OIP, DTYPES, DType
from tensor_round.contract.errors import Fault, InvalidDescriptor, NotFound
from tensor_round.contract.operators.dialect import Operator, Version
from tensor_round.contract.operators.operator import Kind, RoundOperator, made_of
from tensor_round.contract.operators.registry import OPERATORS
from tensor_round.contract.quoting import shown

from .json_types import ConfigParameter, ModelConfig, ModelMetadata, TensorConfig, TensorMetadata

#: Types without a name in the protocol are sent as this type; the parameter ``dtype`` names them.
CARRIER = BY_NAME["uint8"]
_CARRIED = tuple(dtype for dtype in DTYPES if dtype.oip is None)

#: The type of tensors in the metadata; requests may have any type that the dialect allows.
ADVERTISED = BY_NAME["float32"]
PLATFORM = "tensor_round"


class Model:
    """One version of one model.

    ``inputs`` are in the order of a payload, and ``accepted`` has the dtypes of each.
    ``mode_parameter`` is the request parameter that selects the mode, None if the operator has
    no modes. ``parameters`` are all that a request may have: the operator's attributes but for
    those that the model's version tells.
    """

    def __init__(self, operator: Operator, rules: Version) -> None:
        names = operator.model
        self.operator, self.rules = operator, rules
        self.name, self.version = names.name, rules.model_version
        self.inputs, self.output = operator.tensors, names.output
        self.mode_parameter = names.mode_parameter
        told = {*rules.attributes, "domain"}
        attributes = operator.object.attributes()
        self.parameters = tuple(name for name in attributes if name not in told)

    @cached_property
    def accepted(self) -> dict[str, tuple[DType, ...]]:
        """The dtypes of each input."""
        operands = tuple(BY_NAME[name] for name in self.operator.dtypes_of(self.rules))
        scales = self._named(self.rules.scales)
        points = self.results if self.operator.kind is Kind.QUANTIZE else operands
        return dict(zip(self.inputs, (operands, scales, points), strict=False))

    @cached_property
    def results(self) -> tuple[DType, ...]:
        """The dtypes of the output, if it has not the operand's."""
        if self.operator.kind is Kind.CAST:
            return self.accepted[self.inputs[0]]
        return self._named(self.rules.results)

    def _named(self, names: Sequence[str]) -> tuple[DType, ...]:
        return tuple(BY_NAME[self.operator.dtypes[name]] for name in names)

    def is_optional(self, name: str) -> bool:
        """Whether a request may lack an input: only a zero point."""
        field = self.operator.descriptor.model_fields.get(name)
        return name in self.inputs[2:] and not (field and field.is_required())

    @cached_property
    def metadata(self) -> tuple[list[TensorMetadata], list[TensorMetadata]]:
        """Inputs and outputs as the metadata have them: of the lowest rank, with any sizes.

        The type is float32, or where that is none that of quantized numbers by default.
        """
        shape = [-1] * max(self.rules.min_rank, 1)
        shapes = [shape, *[[-1]] * (len(self.inputs) - 1)]
        inputs = [
            _advertised(name, dtypes, sizes)
            for (name, dtypes), sizes in zip(self.accepted.items(), shapes, strict=True)
        ]
        is_quantized = self.operator.kind is Kind.QUANTIZE
        outputs = [_advertised(self.output, self.results if is_quantized else [ADVERTISED], shape)]
        return inputs, outputs


def _advertised(name: str, dtypes: Sequence[DType], shape: list[int]) -> TensorMetadata:
    dtype = ADVERTISED if ADVERTISED in dtypes else CARRIER
    return {"name": name, "datatype": str(dtype.oip), "shape": shape}


#: Every version of every model, oldest first.
MODELS: tuple[Model, ...] = tuple(
    Model(operator, rules) for operator in OPERATORS.values() for rules in operator.versions
)
#: The parameters that change what a model computes, by the kind of its operator: those of all of
#: this kind, and the names that dialects have for a direction and for a type.
PARAMETERS: dict[Kind, frozenset[str]] = {
    kind: frozenset(
        name
        for model in MODELS
        for name in (
            *(model.parameters if model.operator.kind is kind else ()),
            model.mode_parameter,
            "to" if "to" in model.parameters else None,
            model.operator.target_field if model.operator.kind.is_linear else None,
        )
        if name is not None
    )
    for kind in Kind
}


def versions_of(name: str) -> list[Model]:
    """The versions of a model, oldest first. Raises :class:`NotFound`."""
    versions = [model for model in MODELS if model.name == name]
    if not versions:
        raise NotFound(f"there is no model {shown(name)}; POST /v2/repository/index lists them")
    return versions


def find(name: str, version: str | None = None) -> Model:
    """Find a model; without a version, its newest one. Raises :class:`NotFound`."""
    versions = versions_of(name)
    found = [model for model in versions if version in (None, model.version)]
    if not found:
        existing = ", ".join(model.version for model in versions)
        raise NotFound(f"model {name} has no version {shown(version)}; it has {existing}")
    return found[-1]


def operator_for(model: Model, given: Mapping[str, Any]) -> RoundOperator:
    """The operator of a model with these parameters; raises :class:`InvalidDescriptor`."""
    attributes = {name: given[name] for name in model.parameters if name in given}
    for name in model.operator.object.required():
        if name not in attributes:
            raise InvalidDescriptor.at(("parameters", name), "is required")
    try:
        # Typed, because 1, 1.0 and true are equal, but only 1 can be a mode.
        return _operator_for(model, tuple((n, v, type(v)) for n, v in attributes.items()))
    except InvalidDescriptor as refusal:
        faults = (Fault(("parameters", _name_in(model, f.loc)), f.msg) for f in refusal.faults)
        raise InvalidDescriptor.of([*dict.fromkeys(faults)]) from None


def _name_in(model: Model, loc: Sequence[str | int]) -> str:
    """The parameter that the place of a fault in a descriptor means."""
    own = {path: name for name, path in model.operator.object.paths().items()}
    last = str(loc[-1]) if loc else ""
    return own.get(
        ".".join(map(str, loc)), last if last in model.parameters else model.parameters[0]
    )


@lru_cache(maxsize=256)
def _operator_for(model: Model, given: tuple[tuple[str, Any, type], ...]) -> RoundOperator:
    attributes = {name: value for name, value, _ in given}
    if "to" in attributes:
        # The dialect's name of the type, or the canonical one.
        attributes["to"] = model.operator.dtypes.get(attributes["to"], attributes["to"])
    return made_of(model.operator.object, {**attributes, **model.rules.attributes})


def element_type(model: Model, name: str, datatype: str, carried: object = None) -> DType:
    """The dtype of an input: its datatype, or the dtype that a UINT8 tensor carries.

    ``carried`` is the value of the parameter ``dtype``, None without it. Raises
    :class:`InvalidDescriptor` for a type that the model does not accept.
    """
    dtype = BY_OIP.get(datatype)
    if dtype is None:
        raise _not_accepted(model, name, shown(datatype))
    dtype = dtype if carried is None else _carried(datatype, dtype, carried)
    if dtype not in model.accepted[name]:
        raise _not_accepted(model, name, _protocol_name(dtype))
    return dtype


def _carried(datatype: str, dtype: DType, carried: object) -> DType:
    candidates = [dtype, *_CARRIED] if dtype is CARRIER else [dtype]
    for candidate in candidates:
        if candidate.name == carried:
            return candidate
    names = ", ".join(candidate.name for candidate in candidates)
    rule = f"the parameter dtype of a {datatype} must be one of {names}, got {shown(carried)}"
    raise InvalidDescriptor.at((), rule)


def _not_accepted(model: Model, name: str, got: str) -> InvalidDescriptor:
    dtypes = model.accepted[name]
    carried = ", ".join(dtype.name for dtype in dtypes if dtype.oip is None)
    named = [dtype.oip for dtype in dtypes if dtype.oip is not None]
    by_parameter = [f"{CARRIER.oip} with the parameter dtype {carried}"] if carried else []
    accepted = ", ".join([*named, *by_parameter])
    what = f" as {name}" if len(model.inputs) > 1 else ""
    rule = f"got {got}; model {model.name} version {model.version} takes {accepted}{what}"
    return InvalidDescriptor.at((), rule)


def _protocol_name(dtype: DType) -> str:
    """The name of a dtype in the protocol."""
    return dtype.oip or f"{CARRIER.oip} with the parameter dtype {dtype.name}"


def metadata_of(model: Model) -> ModelMetadata:
    """The metadata of a model, with all versions of it."""
    inputs, outputs = model.metadata
    return {
        "name": model.name,
        "versions": [other.version for other in versions_of(model.name)],
        "platform": PLATFORM,
        "inputs": inputs,
        "outputs": outputs,
    }


def config_of(model: Model) -> ModelConfig:
    """Triton's configuration of a model; ``parameters`` list all datatypes, ranks and modes."""
    inputs, outputs = ([*map(_configured, tensors)] for tensors in model.metadata)
    for tensor in inputs:
        if model.is_optional(tensor["name"]):
            tensor["optional"] = True
    return {
        "name": model.name,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "version_policy": {"specific": {"versions": [model.version]}},
        "max_batch_size": 0,
        "input": inputs,
        "output": outputs,
        "model_transaction_policy": {"decoupled": False},
        "parameters": {
            name: ConfigParameter(string_value=value) for name, value in _parameters(model).items()
        },
    }


def _configured(tensor: TensorMetadata) -> TensorConfig:
    data_type = f"TYPE_{tensor['datatype']}"
    return {"name": tensor["name"], "data_type": data_type, "dims": tensor["shape"]}


def _parameters(model: Model) -> dict[str, str]:
    rules = model.rules
    # UINT8:float8_e5m2 is UINT8 with the parameter dtype.
    datatypes, *further = (
        ",".join(dtype.oip or f"{CARRIER.oip}:{dtype.name}" for dtype in dtypes)
        for dtypes in model.accepted.values()
    )
    common = {
        "operator": f"{model.operator.dialect} {model.operator.name}",
        "datatypes": datatypes,
        **dict(zip(model.inputs[1:], further, strict=True)),
        "ranks": f"{rules.min_rank}-{rules.max_rank}",
    }
    if "to" in model.parameters:
        common["to"] = ",".join(dtype.name for dtype in model.results)
    if model.mode_parameter is not None:
        common[model.mode_parameter] = ",".join(model.operator.modes)
    return common
