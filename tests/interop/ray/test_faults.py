"""Replicas, nodes and controllers that are lost under load: no result is wrong, none is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest
from ray.cluster_utils import Cluster

from support.services.fleet import NODE, Fleet, actor_of, service_of, services
from support.services.fleet_load import Load


@pytest.mark.parametrize("process_of", [service_of, actor_of])
def test_a_replica_is_killed(cluster: Cluster, process_of: Callable[[str], int]) -> None:
    with Fleet(cluster.address, "--min-replicas", "3") as fleet, Load(fleet.url) as load:
        load.more()
        lost = fleet.urls()[0]
        os.kill(process_of(lost), signal.SIGKILL)
        fleet.wait_for_replicas(3, without=lost)
        assert len(services()) == 3
        load.more()


def test_a_replica_that_hangs_is_replaced(cluster: Cluster) -> None:
    options = ("--min-replicas", "2", "--health-failures", "3")
    with Fleet(cluster.address, *options) as fleet:
        lost = fleet.urls()[0]
        os.kill(service_of(lost), signal.SIGSTOP)
        fleet.wait_for(lambda: lost not in fleet.urls(), "it is not listed")
        fleet.wait_for_replicas(2, without=lost)
        fleet.wait_for(lambda: len(services()) == 2, "it has ended")


def test_a_node_is_lost_and_another_comes(cluster: Cluster) -> None:
    with Fleet(cluster.address, "--min-replicas", "3") as fleet, Load(fleet.url) as load:
        load.more()
        cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
        fleet.wait_for(lambda: len(fleet.urls()) == 2, "two replicas are listed")
        load.more()
        cluster.add_node(**NODE)
        fleet.wait_for_replicas(3)
        load.more()


def test_a_controller_is_killed_and_the_next_adopts_the_replicas(cluster: Cluster) -> None:
    with Fleet(cluster.address, "--min-replicas", "2") as fleet, Load(fleet.url) as load:
        before, processes = fleet.urls(), services()
        load.more()
        fleet.kill()
        load.more(500)
        fleet.process = fleet.start("--min-replicas", "2")
        fleet.wait_for(fleet.is_ready, "the fleet is ready again")
        assert fleet.urls() == before
        assert services() == processes
        load.more()


def test_replicas_lost_while_there_is_no_controller_are_replaced(cluster: Cluster) -> None:
    with Fleet(cluster.address, "--min-replicas", "2") as fleet, Load(fleet.url) as load:
        lost, _ = fleet.urls()
        load.more()  # until then the client may not have the list
        fleet.kill()
        os.kill(actor_of(lost), signal.SIGKILL)
        fleet.wait_for(lambda: len(services()) == 1, "the service has ended with its actor")
        load.more()
        fleet.process = fleet.start("--min-replicas", "2")
        fleet.wait_for(fleet.is_ready, "the fleet is ready again")
        fleet.wait_for_replicas(2, without=lost)
        time.sleep(1)
        load.more()
