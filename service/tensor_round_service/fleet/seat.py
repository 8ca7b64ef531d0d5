"""The seat of a fleet's controller: a named actor, which ends with the process that holds it."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

_NAME = "controller"


class _Seat:
    """The class of the actor."""

    def __init__(self) -> None:
        self._is_wanted = False

    def ask_for(self) -> None:
        self._is_wanted = True

    def is_wanted(self) -> bool:
        return self._is_wanted


def take_seat() -> Any:
    """The handle of this process's seat, when the holder before it has left."""
    # On this node, so that it is not lost with another one.
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options = ray.remote(_Seat).options(name=_NAME, num_cpus=0, scheduling_strategy=here)
    while True:
        with contextlib.suppress(ValueError):  # it is taken
            return options.remote()
        with contextlib.suppress(ValueError):  # it is free again
            ray.get_actor(_NAME).ask_for.remote()
        time.sleep(0.1)


def has_to_leave(seat: Any) -> bool:
    """Whether another controller wants this seat, or has it."""
    try:
        return bool(ray.get(seat.is_wanted.remote(), timeout=1.0))
    except ray.exceptions.GetTimeoutError:
        return False
    except ray.exceptions.RayActorError:
        return True
