"""Where replicas are placed, with which settings, and what is told if they cannot start."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from ray.cluster_utils import Cluster

import tensor_round as tr
from support.keys import A
from support.services.fleet import (
    NODE,
    Fleet,
    actor_of,
    listening,
    parent_of,
    service_of,
    services,
    tree,
    variables_of,
)
from support.services.tls import CA, SERVER, caller_context


def test_replicas_are_spread_over_the_nodes(cluster: Cluster) -> None:
    """Two of them would find room on one node."""
    options = ("--min-replicas", "3", "--cpus-per-replica", "0.5")
    with Fleet(cluster.address, *options) as fleet:
        assert len({parent_of(actor_of(url)) for url in fleet.urls()}) == 3


def test_a_local_cluster_listens_on_the_loopback_alone() -> None:
    # 127.0.0.1 as the kernel writes it, and within IPv6.
    loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
    with Fleet("local") as fleet:
        fleet.wait_for_replicas(1)
        (url,) = fleet.urls()
        assert url.startswith("http://127.0.0.1:")
        pids = tree(fleet.process.pid)
        assert service_of(url) in pids
        assert listening(pids) <= loopback
        with tr.Client(fleet.url, api_key="key") as client:
            assert client.round(np.array([0.5, 1.5])).tolist() == [0, 2]


def test_replicas_share_a_gpu(cluster: Cluster) -> None:
    """Ray is told of a GPU that is not there: the backend is numpy."""
    node = cluster.add_node(**NODE, num_gpus=1)
    options = ("--min-replicas", "2", "--cpus-per-replica", "0.5", "--gpus-per-replica", "0.5")
    try:
        with Fleet(cluster.address, *options) as fleet:
            pids = [service_of(url) for url in fleet.urls()]
            assert [variables_of(pid)["CUDA_VISIBLE_DEVICES"] for pid in pids] == ["0", "0"]
            assert len({parent_of(parent_of(pid)) for pid in pids}) == 1
    finally:
        cluster.remove_node(node)


def test_settings_keys_and_client_certificates(cluster: Cluster, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"{A} a\n")
    settings = {
        "SSL_CERTFILE": str(SERVER),
        "SSL_CA_CERTS": str(CA),
        "API_KEYS_FILE": str(keys),
        "WORKERS": "2",
        "MAX_TENSOR_BYTES": "1MiB",
    }
    with Fleet(cluster.address, **settings) as fleet:
        (url,) = fleet.urls()
        assert url.startswith("https://")
        context = caller_context(SERVER)
        context.check_hostname = False
        connection = http.client.HTTPSConnection(urlsplit(url).netloc, context=context)
        connection.request("GET", "/operators", headers={"Authorization": "Bearer a"})
        told = json.load(connection.getresponse())
        connection.close()
        assert told["limits"]["max_tensor_bytes"] == 1 << 20
        assert told["service"]["workers"] == 2


def test_replicas_of_a_node_share_its_memory(cluster: Cluster) -> None:
    """A node has one CPU."""
    budgets = []
    for cpus in ("1", "0.25"):
        with (
            Fleet(cluster.address, "--cpus-per-replica", cpus) as fleet,
            tr.Client(fleet.url) as client,
        ):
            budgets.append(client.operators()["limits"]["max_bytes_in_flight"])
            assert client.round(np.array([0.5])).tolist() == [0]
    assert budgets[0] / budgets[1] == 4


def test_a_file_that_is_not_on_a_node_is_named(cluster: Cluster, tmp_path: Path) -> None:
    fleet = Fleet(cluster.address)
    fleet.process = fleet.start(API_KEYS_FILE=str(tmp_path / "keys"))
    told = f"API keys: {tmp_path}/keys: there is no such file"
    fleet.wait_for(lambda: told in "".join(fleet.log), told)
    fleet.wait_for(
        lambda: "its process ended with exit code 1" in "".join(fleet.log), "it is replaced"
    )
    assert not fleet.is_ready()
    fleet.stop()
    assert not services()


def test_a_fleet_by_another_name_is_another_one(cluster: Cluster) -> None:
    with Fleet(cluster.address) as one, Fleet(cluster.address, "--name", "other") as other:
        assert one.process.poll() is None
        assert not set(one.urls()) & set(other.urls())
        other.stop()
        assert one.is_ready()
        assert len(one.urls()) == 1
        one.stop()
