"""Metadata and configuration of a model, as the Open Inference Protocol and Triton define them."""

from __future__ import annotations

from ..documents import ConfigParameter, ModelConfig, ModelMetadata, TensorConfig, TensorMetadata
from .models import MODELS, Model
from .plan import ADVERTISED

PLATFORM = "tensor_round"
#: The datatype that generic clients use for their requests.
_DATATYPE = str(ADVERTISED.oip)


def metadata(model: Model) -> ModelMetadata:
    """The metadata of a model, with all versions of it."""
    return {
        "name": model.name,
        "versions": [other.version for other in MODELS if other.name == model.name],
        "platform": PLATFORM,
        "inputs": [_tensor_metadata(model, model.input)],
        "outputs": [_tensor_metadata(model, model.output)],
    }


def _tensor_metadata(model: Model, name: str) -> TensorMetadata:
    return {"name": name, "datatype": _DATATYPE, "shape": list(model.advertised_shape)}


def config(model: Model) -> ModelConfig:
    """Triton's configuration of a model; ``parameters`` list all datatypes, ranks and modes."""
    return {
        "name": model.name,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "version_policy": {"specific": {"versions": [model.version]}},
        "max_batch_size": 0,
        "input": [_tensor_config(model, model.input)],
        "output": [_tensor_config(model, model.output)],
        "model_transaction_policy": {"decoupled": False},
        "parameters": {
            name: ConfigParameter(string_value=value) for name, value in _parameters(model).items()
        },
    }


def _tensor_config(model: Model, name: str) -> TensorConfig:
    return {
        "name": name,
        "data_type": f"TYPE_{_DATATYPE}",
        "dims": list(model.advertised_shape),
    }


def _parameters(model: Model) -> dict[str, str]:
    rules = model.rules
    common = {
        "operator": f"{model.dialect.name} {model.dialect.operator}",
        "datatypes": ",".join(model.datatypes),
        "ranks": f"{rules.min_rank}-{rules.max_rank}",
    }
    if model.mode_parameter is None:
        return common
    return {**common, model.mode_parameter: ",".join(model.dialect.modes)}
