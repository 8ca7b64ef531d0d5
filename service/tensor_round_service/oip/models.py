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
from tensor_round.contract.operators.operator import Kind, RoundOperator
from tensor_round.contract.operators.registry import OPERATORS
from tensor_round.contract.quoting import shown

from .json_types import ConfigParameter, ModelConfig, ModelMetadata

#: Types without a name in the protocol are sent as this type; the parameter ``dtype`` names them.
CARRIER = BY_NAME["uint8"]
_CARRIED = tuple(dtype for dtype in DTYPES if dtype.oip is None)

#: The type of every tensor in the metadata; requests may have any type that the dialect allows.
ADVERTISED = BY_NAME["float32"]
PLATFORM = "tensor_round"
#: The datatype that generic clients use for their requests.
_DATATYPE = str(ADVERTISED.oip)


class Model:
    """One version of one model.

    ``mode_parameter`` is the request parameter that selects the mode, None if the operator has
    no modes. ``parameters`` are all that a request may have: the operator's attributes but for
    those that the model's version tells.
    """

    def __init__(self, operator: Operator, rules: Version) -> None:
        names = operator.model
        self.operator, self.rules = operator, rules
        self.name, self.version = names.name, rules.model_version
        self.input, self.output = names.input, names.output
        self.mode_parameter = names.mode_parameter
        told = {*rules.attributes, "domain"}
        attributes = operator.object.attributes()
        self.parameters = tuple(name for name in attributes if name not in told)

    @cached_property
    def dtypes(self) -> tuple[DType, ...]:
        """The dtypes that the model accepts."""
        return tuple(BY_NAME[name] for name in self.operator.dtypes_of(self.rules))

    @property
    def advertised_shape(self) -> tuple[int, ...]:
        """The shape in the metadata: the lowest rank, with any sizes."""
        return (-1,) * max(self.rules.min_rank, 1)


#: Every version of every model, oldest first. A model has one input as yet.
MODELS: tuple[Model, ...] = tuple(
    Model(operator, rules)
    for operator in OPERATORS.values()
    if not operator.kind.is_linear
    for rules in operator.versions
)
#: The parameters of all models.
PARAMETERS = frozenset(name for model in MODELS for name in model.parameters)


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
    return model.operator.object(**attributes, **model.rules.attributes)


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
    raise InvalidDescriptor.at((), rule)


def _not_accepted(model: Model, got: str) -> InvalidDescriptor:
    carried = ", ".join(dtype.name for dtype in model.dtypes if dtype.oip is None)
    named = [dtype.oip for dtype in model.dtypes if dtype.oip is not None]
    by_parameter = [f"{CARRIER.oip} with the parameter dtype {carried}"] if carried else []
    accepted = ", ".join([*named, *by_parameter])
    rule = f"got {got}; model {model.name} version {model.version} takes {accepted}"
    return InvalidDescriptor.at((), rule)


def _protocol_name(dtype: DType) -> str:
    """The name of a dtype in the protocol."""
    return dtype.oip or f"{CARRIER.oip} with the parameter dtype {dtype.name}"


def metadata_of(model: Model) -> ModelMetadata:
    """The metadata of a model, with all versions of it."""
    shape = list(model.advertised_shape)
    return {
        "name": model.name,
        "versions": [other.version for other in versions_of(model.name)],
        "platform": PLATFORM,
        "inputs": [{"name": model.input, "datatype": _DATATYPE, "shape": shape}],
        "outputs": [{"name": model.output, "datatype": _DATATYPE, "shape": shape}],
    }


def config_of(model: Model) -> ModelConfig:
    """Triton's configuration of a model; ``parameters`` list all datatypes, ranks and modes."""
    data_type, shape = f"TYPE_{_DATATYPE}", list(model.advertised_shape)
    return {
        "name": model.name,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "version_policy": {"specific": {"versions": [model.version]}},
        "max_batch_size": 0,
        "input": [{"name": model.input, "data_type": data_type, "dims": shape}],
        "output": [{"name": model.output, "data_type": data_type, "dims": shape}],
        "model_transaction_policy": {"decoupled": False},
        "parameters": {
            name: ConfigParameter(string_value=value) for name, value in _parameters(model).items()
        },
    }


def _parameters(model: Model) -> dict[str, str]:
    rules = model.rules
    common = {
        "operator": f"{model.operator.dialect} {model.operator.name}",
        # UINT8:float8_e5m2 is UINT8 with the parameter dtype.
        "datatypes": ",".join(d.oip or f"{CARRIER.oip}:{d.name}" for d in model.dtypes),
        "ranks": f"{rules.min_rank}-{rules.max_rank}",
    }
    if model.operator.kind is Kind.CAST:
        common["to"] = ",".join(dtype.name for dtype in model.dtypes)
    if model.mode_parameter is not None:
        common[model.mode_parameter] = ",".join(model.operator.modes)
    return common
