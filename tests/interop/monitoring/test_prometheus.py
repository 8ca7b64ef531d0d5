"""``deploy/monitoring`` with a real Prometheus: ``make test-monitoring``."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from stress.traffic import Found
from support import monitoring
from support.http.native_form import ieee754, post
from support.monitoring import Prometheus
from support.services.server import Service
from support.services.variants import DeviceService

#: Seconds of traffic: ranges of a minute need some scrapes.
SECONDS = 25.0
LARGE = np.linspace(-1e4, 1e4, 3 << 18, dtype="<f4")


@pytest.fixture(scope="session")
def prometheus() -> Iterator[Prometheus]:
    """After so many seconds of traffic at a service of two workers.

    A second service has a device, which is this CPU, and has no memory for the last of its tensors.
    """
    with (
        Service("--workers", "2", "--receive-timeout", "6") as service,
        DeviceService("--backend", "auto", "--gpu-min-bytes", "1MiB") as device_service,
        Prometheus(f"127.0.0.1:{service.port}", f"127.0.0.1:{device_service.port}") as running,
    ):
        end = time.monotonic() + SECONDS

        def use_device() -> None:
            for turn in range(int(SECONDS * 4)):
                if turn == int(SECONDS * 3):
                    device_service.fill()
                post(device_service, ieee754("float32", [LARGE.size]), LARGE.tobytes())
                time.sleep(0.25)

        device = threading.Thread(target=use_device)
        device.start()
        found = Found()
        for number in itertools.count():
            asyncio.run(found.turn(service.port, 1, number))
            if time.monotonic() > end:
                break
        device.join()
        yield running


@pytest.mark.parametrize(
    "command",
    [
        ["check", "config", str(monitoring.MONITORING / "prometheus.yml")],
        ["check", "rules", str(monitoring.ALERTS)],
        ["test", "rules", str(Path(__file__).with_name("alerts_test.yml"))],
    ],
    ids=" ".join,
)
def test_promtool_accepts(command: list[str]) -> None:
    done = subprocess.run(["promtool", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_query_of_the_dashboard_has_data(prometheus: Prometheus) -> None:
    """Right after traffic, no panel is empty."""
    empty = [
        (query.panel, query.runnable)
        for query in monitoring.queries()
        if not prometheus.query(query.runnable)
    ]
    assert not empty


def test_every_variable_of_the_dashboard_has_values(prometheus: Prometheus) -> None:
    for selector, label in monitoring.variable_queries():
        found = prometheus.query(selector.replace("$job", ".*"))
        assert {series["metric"][label] for series in found}


def test_both_services_are_up_and_every_rule_is_evaluated(prometheus: Prometheus) -> None:
    up = prometheus.query('up{job="tensor-round"}')
    assert [series["value"][1] for series in up] == ["1", "1"]
    (group,) = prometheus.get("rules")["groups"]
    states = {rule["name"]: (rule["health"], rule["state"]) for rule in group["rules"]}
    assert states.keys() == {alert["alert"] for alert in monitoring.alerts()}
    assert {health for health, _ in states.values()} == {"ok"}
    # The device that is out of memory is noticed, and does not fire yet; nothing else is wrong.
    assert states["TensorRoundFallback"][1] == "pending"
    quiet = states.keys() - {"TensorRoundFallback", "TensorRoundQueueing", "TensorRoundSlowPhase"}
    assert {name: states[name][1] for name in quiet if states[name][1] != "inactive"} == {}
