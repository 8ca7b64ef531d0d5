"""The options of ``tensor-round-service ray``."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, ValidationInfo
from pydantic import field_validator as validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from ..process.command_line import CLIENT_VARIABLES, read_settings
from ..settings import PREFIX

PROGRAM = "tensor-round-service ray"
RAY_PREFIX = f"{PREFIX}RAY_"
#: The address of a cluster for the command alone.
LOCAL = "local"
#: Ray's variable, which it reads when it is imported. Without clusters of several hosts the address
#: of a node is 127.0.0.1, and all of Ray listens there alone.
_SEVERAL_HOSTS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
#: Variables that are not passed to replicas.
_NOT_PASSED = {f"{PREFIX}{name}" for name in (*CLIENT_VARIABLES, "HOST", "PORT", "METRICS_PORT")}


@dataclass(frozen=True)
class Specification:
    """What the replicas of a revision are like; ``environment`` has their settings."""

    revision: str
    environment: dict[str, str]
    cpus: float
    gpus: float


class FleetOptions(BaseSettings):
    """Replicas of tensor-round-service on the nodes of a Ray cluster.

    Each option has an environment variable, TENSOR_ROUND_RAY_ and its name in capitals. All other
    TENSOR_ROUND_ variables are the settings of the replicas; the files that they name must exist
    on every node. HOST, PORT and METRICS_PORT are set for each replica.

    SIGTERM drains all replicas, then ends the command. To update the replicas one by one, run the
    command again with other settings: it takes the place of the running one.
    """

    model_config = SettingsConfigDict(
        env_prefix=RAY_PREFIX,
        frozen=True,
        cli_kebab_case=True,
        cli_hide_none_type=True,
        use_attribute_docstrings=True,
    )

    address: str = "auto"
    """Address of the Ray cluster, as in 10.0.0.5:6379. auto: the cluster of this node; local: a
    new one on 127.0.0.1, which ends with the command."""
    name: Annotated[str, Field(pattern=r"^[\w.-]+$")] = "tensor-round"
    """Name of the fleet, and its namespace in Ray; a cluster may have several fleets."""
    min_replicas: PositiveInt = 1
    """Smallest number of replicas."""
    max_replicas: Annotated[int | None, Field(ge=1)] = None
    """Largest number of replicas; that of MIN_REPLICAS if not set."""
    cpus_per_replica: PositiveFloat = 1.0
    """CPUs that Ray reserves for a replica, which has as many workers if WORKERS is not set."""
    gpus_per_replica: NonNegativeFloat = 0.0
    """GPUs that Ray reserves for a replica, by CUDA_VISIBLE_DEVICES; a fraction shares one."""
    directory_host: str = "127.0.0.1"
    """Address on which this command serves /replicas, the list of replicas, to clients."""
    directory_port: Annotated[int, Field(ge=0, le=65535)] = 8090
    """Port of DIRECTORY_HOST; 0 chooses a free one."""
    target_utilisation: Annotated[float, Field(gt=0, le=1)] = 0.6
    """Part of the replicas' memory budgets in use, above which replicas are added."""
    scale_down_after: NonNegativeFloat = 120.0
    """Seconds for which fewer replicas must be enough before some are removed."""
    health_period: PositiveFloat = 1.0
    """Seconds between two checks of a replica's /readyz."""
    health_failures: PositiveInt = 5
    """Failed checks in a row after which a replica is replaced."""

    @validator("max_replicas")
    @classmethod
    def _is_not_below_the_minimum(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and value < info.data.get("min_replicas", 1):
            raise ValueError(f"must not be below {RAY_PREFIX}MIN_REPLICAS")
        return value

    def specification(self, environment: Mapping[str, str]) -> Specification:
        """What the replicas are to be like, with the settings in ``environment``."""
        workers = str(max(1, int(self.cpus_per_replica)))
        settings = {f"{PREFIX}WORKERS": workers}
        for name, value in sorted((name.upper(), value) for name, value in environment.items()):
            passed = name.startswith((PREFIX, "OTEL_")) and not name.startswith(RAY_PREFIX)
            if passed and name not in _NOT_PASSED:
                settings[name] = value
        resources = self.cpus_per_replica, self.gpus_per_replica
        text = json.dumps([version("tensor-round"), settings, resources])
        return Specification(hashlib.sha256(text.encode()).hexdigest(), settings, *resources)


def read_options(arguments: Sequence[str]) -> FleetOptions:
    """Read the command line and the environment, before Ray is imported."""
    options = read_settings(FleetOptions, arguments, PROGRAM)
    if options.address == LOCAL:
        os.environ[_SEVERAL_HOSTS] = "0"
    return options
