"""How many replicas a load needs."""

from __future__ import annotations

import math

#: Seconds over which the load is averaged before replicas are added.
UP_SECONDS = 5.0


class Scaling:
    """Follows the load: within seconds if it rises, after ``down_after`` seconds if it falls.

    ``target`` is the wanted utilisation of the replicas' budgets.
    """

    def __init__(self, least: int, most: int, target: float, down_after: float) -> None:
        self._least, self._most = least, most
        self._target, self._down_after = target, down_after
        #: Times and loads, the oldest first.
        self._samples: list[tuple[float, float]] = []

    def wanted(self, replicas: int, load: float, now: float) -> int:
        """The number of replicas to have at time ``now``, instead of ``replicas``.

        ``load`` is bytes in flight, in units of a replica's whole budget.
        """
        self._samples.append((now, load))
        recent = [load for at, load in self._samples if at > now - UP_SECONDS]
        start = now - self._down_after
        window = [load for at, load in self._samples if at >= start]
        # Without a sample before the window, not all of the window was observed.
        is_observed = self._samples[0][0] <= start
        keep = min(replicas, self._enough_for(max(window))) if is_observed else replicas
        while len(self._samples) > 1 and self._samples[1][0] <= min(start, now - UP_SECONDS):
            del self._samples[0]
        wanted = max(keep, self._enough_for(sum(recent) / len(recent)))
        return min(max(wanted, self._least), self._most)

    def _enough_for(self, load: float) -> int:
        # Rounded, so that the error of a sum does not count as one more.
        return math.ceil(round(load / self._target, 6))
