"""Whether a service goes on holding more and more.

The rule: the first quarter of a run is warm-up. The median of the last quarter may lie above
that of the second by a slack, which is what one and the same traffic makes it differ by anyhow.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from .vitals import MIB, Vitals

#: Of resident memory: buffers are kept and given back with every change of the traffic.
RSS_SLACK = 24 * MIB
#: Of descriptors: a connection more or less for each caller.
DESCRIPTOR_SLACK = 8


def growth(samples: Sequence[float]) -> float:
    """How far the last quarter's median lies above the second's."""
    quarter = len(samples) // 4
    return statistics.median(samples[-quarter:]) - statistics.median(samples[quarter : 2 * quarter])


def risen(samples: Sequence[Vitals]) -> list[str]:
    """What is not flat over a run."""
    rss = growth([each.rss for each in samples])
    descriptors = growth([each.descriptors for each in samples])
    found = []
    if rss > RSS_SLACK:
        found.append(f"memory rose by {rss / MIB:.1f} MiB from the second quarter to the last")
    if descriptors > DESCRIPTOR_SLACK:
        found.append(f"descriptors rose by {descriptors:g} from the second quarter to the last")
    return found
