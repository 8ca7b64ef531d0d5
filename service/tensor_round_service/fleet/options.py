"""The options of ``tensor-round-service ray``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, ValidationInfo
from pydantic import field_validator as validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from ..settings import PREFIX

RAY_PREFIX = f"{PREFIX}RAY_"


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
    new one on this machine, which ends with the command."""
    name: Annotated[str, Field(pattern=r"^[\w.-]+$")] = "tensor-round"
    """Name of the fleet, and its namespace in Ray; a cluster may have several fleets."""
    min_replicas: PositiveInt = 1
    """Smallest number of replicas."""
    max_replicas: PositiveInt | None = None
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
