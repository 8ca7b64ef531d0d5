"""The controller of a fleet: keeps the wanted number of replicas, until it is told to stop.

Replicas are detached actors: they serve on if the controller dies, and the next one adopts them.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

import ray

from ..process.workers import restart_delay
from .options import FleetOptions, Specification
from .plan import Member, Phase, Scaling, next_steps
from .replica import Replica, Status

logger = logging.getLogger(__name__)

#: Seconds in which a replica must become ready: the proof of a GPU takes long.
START_SECONDS = 120.0
_PREFIX = "replica-"


class Controller:
    """Starts, checks, replaces, scales and drains the replicas of one fleet.

    ``is_deposed`` says whether another controller is to be the leader. A replica is killed if its
    drain takes longer than ``drain_seconds``.
    """

    def __init__(
        self,
        options: FleetOptions,
        specification: Specification,
        is_deposed: Callable[[], bool],
        drain_seconds: float,
    ) -> None:
        self._specification = specification
        self._is_deposed = is_deposed
        self._drain_seconds = drain_seconds
        self._period = options.health_period
        self._max_failures = options.health_failures
        least, most = options.min_replicas, options.max_replicas or options.min_replicas
        self._scaling = Scaling(least, most, options.target_utilisation, options.scale_down_after)
        self._wanted = least
        self._members: list[Member] = []
        #: Failures at start in a row, and the time before which no replica is started.
        self._failures, self._start_at = 0, 0.0
        #: Set it to drain all replicas, and then to return.
        self.stopping = threading.Event()

    def ready_urls(self) -> list[str]:
        """The addresses of the replicas that take requests."""
        return sorted(member.url for member in [*self._members] if member.phase is Phase.READY)

    def run(self) -> None:
        """Keep the fleet until ``stopping``, or until another controller has taken over."""
        self._adopt()
        while self._members or not self.stopping.is_set():
            if self._is_deposed():
                logger.info("another controller takes over")
                return
            began = time.monotonic()
            self._check_all()
            load = sum(member.load for member in self._members)
            wanted = self._scaling.wanted(self._wanted, load, began)
            if wanted != self._wanted:
                logger.info("%d replicas are wanted for a load of %.2f budgets", wanted, load)
                self._wanted = wanted
            self._approach(0 if self.stopping.is_set() else wanted)
            left = began + self._period - time.monotonic()
            if self.stopping.is_set():
                time.sleep(0.1)
            elif left > 0:
                self.stopping.wait(left)

    def _adopt(self) -> None:
        """Take on the replicas of an earlier controller."""
        for name in ray.util.list_named_actors():
            if name.startswith(_PREFIX):
                with contextlib.suppress(ValueError):  # it has just ended
                    self._members.append(Member(name, Phase.FAILING, ray.get_actor(name)))
        # If the load needs fewer, they go after SCALE_DOWN_AFTER.
        self._wanted = max(self._wanted, len(self._members))

    def _check_all(self) -> None:
        for member in self._members:
            member.call = member.call or member.actor.status.remote()
        calls = [member.call for member in self._members]
        if calls:
            ray.wait(calls, num_returns=len(calls), timeout=self._period)
        for member in [*self._members]:
            done, _ = ray.wait([member.call], timeout=0)
            try:
                self._check(member, ray.get(done[0]) if done else None)
            except ray.exceptions.ActorUnavailableError:
                self._check(member, None)
            except ray.exceptions.RayError as error:
                self._lose(member, str(error).strip().rpartition("\n")[2].strip())
            if done:
                member.call = None

    def _check(self, member: Member, status: Status | None) -> None:
        """Act on the status of a replica; None if there was none in time."""
        if status is not None:
            member.url, member.node, member.load = status["url"], status["node"], status["load"]
            member.is_current = status["revision"] == self._specification.revision
            if status["exit_code"] is not None:
                self._lose(member, f"its process ended with exit code {status['exit_code']}")
                return
            if status["draining"]:
                member.enter(Phase.DRAINING)
            elif status["ready"]:
                if member.phase is not Phase.READY:
                    logger.info("%s is ready", member)
                    # Not at every check: others may fail at start while this one serves.
                    self._failures = 0
                member.failures = 0
                member.enter(Phase.READY)
                return
            elif member.phase is Phase.PENDING:
                member.enter(Phase.STARTING)
        if member.phase in (Phase.READY, Phase.FAILING):
            member.enter(Phase.FAILING)
            member.failures += 1
            if member.failures >= self._max_failures:
                self._lose(member, f"{member.failures} checks failed")
        elif member.phase is Phase.STARTING and member.seconds > START_SECONDS:
            self._lose(member, f"not ready in {START_SECONDS:.0f} s")
        elif member.phase is Phase.DRAINING and member.seconds > self._drain_seconds:
            self._lose(member, "not drained in time")

    def _lose(self, member: Member, reason: str) -> None:
        """End a replica that cannot serve any more."""
        self._members.remove(member)
        ray.kill(member.actor)
        if member.phase is Phase.DRAINING:
            logger.info("%s has ended: %s", member, reason)
            return
        logger.error("%s is replaced: %s", member, reason)
        if member.phase in (Phase.PENDING, Phase.STARTING):
            self._failures += 1
            self._start_at = time.monotonic() + restart_delay(self._failures)

    def _approach(self, wanted: int) -> None:
        """Start and drain replicas."""
        count, drained = next_steps(self._members, wanted)
        for _ in range(count if time.monotonic() >= self._start_at else 0):
            name = f"{_PREFIX}{secrets.token_hex(4)}"
            self._members.append(Member(name, actor=self._start(name)))
        for member in drained:
            logger.info("%s is drained", member)
            if member.phase is Phase.PENDING:
                self._members.remove(member)
                ray.kill(member.actor)
            else:
                # Clients do not learn of it any more before it begins to refuse.
                member.enter(Phase.DRAINING)
                member.actor.drain.remote()

    def _start(self, name: str) -> Any:
        specification = self._specification
        actor = ray.remote(Replica).options(
            name=name,
            lifetime="detached",
            num_cpus=specification.cpus,
            num_gpus=specification.gpus,
            scheduling_strategy="SPREAD",
        )
        return actor.remote(specification)
