"""``deploy/monitoring`` with a real Prometheus: ``make test-monitoring``."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support import monitoring
from support.monitoring import Prometheus


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
