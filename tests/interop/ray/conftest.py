"""A Ray cluster of three nodes on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from ray.cluster_utils import Cluster

from support.services.fleet import NODE


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    running = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    for _ in range(2):
        running.add_node(**NODE)
    yield running
    running.shutdown()
