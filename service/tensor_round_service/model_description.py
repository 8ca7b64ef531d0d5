"""A model as the protocol's metadata and configuration tell of it."""

from __future__ import annotations

from typing import Any

from .inference import ADVERTISED
from .models import MODELS, Model

PLATFORM = "tensor_round"


def metadata(model: Model) -> dict[str, Any]:
    """The metadata of a model, with the versions there are."""
    tensor = {"datatype": ADVERTISED.oip, "shape": list(model.advertised_shape)}
    return {
        "name": model.name,
        "versions": [other.version for other in MODELS if other.name == model.name],
        "platform": PLATFORM,
        "inputs": [{"name": model.input, **tensor}],
        "outputs": [{"name": model.output, **tensor}],
    }


def config(model: Model) -> dict[str, Any]:
    """The configuration of a model, in Triton's form; what else it takes is in ``parameters``."""
    tensor = {"data_type": f"TYPE_{ADVERTISED.oip}", "dims": list(model.advertised_shape)}
    return {
        "name": model.name,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "version_policy": {"specific": {"versions": [model.version]}},
        "max_batch_size": 0,
        "input": [{"name": model.input, **tensor}],
        "output": [{"name": model.output, **tensor}],
        "model_transaction_policy": {"decoupled": False},
        "parameters": {name: {"string_value": value} for name, value in _parameters(model).items()},
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
