"""Leadership of a fleet: one controller at a time is the leader, by a named actor that it owns.

The process of that actor imports this module and nothing else of the service.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

_NAME = "controller"


class _Leadership:
    """The class of the actor, which ends with the process of the leader."""

    def __init__(self) -> None:
        self._is_deposed = False

    def depose(self) -> None:
        self._is_deposed = True

    def is_deposed(self) -> bool:
        return self._is_deposed


def acquire_leadership() -> Any:
    """Depose the leader, wait until it has ended, and return the handle of the own leadership."""
    # On this node, so that it is not lost with another one.
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options = ray.remote(_Leadership).options(name=_NAME, num_cpus=0, scheduling_strategy=here)
    while True:
        with contextlib.suppress(ValueError):  # there is a leader
            return options.remote()
        with contextlib.suppress(ValueError):  # there is none any more
            ray.get_actor(_NAME).depose.remote()
        time.sleep(0.1)


def is_deposed(leadership: Any) -> bool:
    """Whether another controller wants to be the leader, or is."""
    try:
        return bool(ray.get(leadership.is_deposed.remote(), timeout=1.0))
    # An actor that is unavailable for a moment has not ended, though the error is a RayActorError.
    except (ray.exceptions.GetTimeoutError, ray.exceptions.ActorUnavailableError):
        return False
    except ray.exceptions.RayActorError:
        return True
