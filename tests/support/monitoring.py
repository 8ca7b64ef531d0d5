"""What ``deploy/monitoring`` asks of Prometheus, and a real Prometheus that scrapes services."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser
import yaml

from support.services.fronts import free_port

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
DASHBOARD = MONITORING / "grafana" / "dashboards" / "tensor-round.json"
ALERTS = MONITORING / "alerts.yml"
#: Labels that Prometheus adds to what it scrapes, and that of a histogram's buckets.
ADDED_LABELS = {"job", "instance", "le"}
_LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")


@dataclass(frozen=True)
class Query:
    """One query of a panel."""

    panel: str
    expression: str
    legend: str

    @property
    def runnable(self) -> str:
        """The query with values for Grafana's variables."""
        return re.sub(r"\$(job|instance|phase|size)\b", ".*", self.expression).replace(
            "$__rate_interval", "1m"
        )


def dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return document


def queries() -> list[Query]:
    """Every query of the dashboard's panels."""
    return [
        Query(panel["title"], target["expr"], target["legendFormat"])
        for panel in dashboard()["panels"]
        for target in panel.get("targets", [])
    ]


def variable_queries() -> list[tuple[str, str]]:
    """The selector and the label of each variable that has its values from Prometheus."""
    found = []
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            match = _LABEL_VALUES.fullmatch(variable["definition"])
            assert match, variable["definition"]
            found.append((match[1], match[2]))
    return found


def alerts() -> list[dict[str, Any]]:
    """Every alert."""
    document = yaml.safe_load(ALERTS.read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


@dataclass(frozen=True)
class Selector:
    """A metric of an expression, and the values that its labels must have."""

    metric: str
    matchers: dict[str, str]


def parsed(expression: str) -> tuple[list[Selector], set[str]]:
    """The metrics of an expression, and the labels by which it adds up."""
    selectors: list[Selector] = []
    labels: set[str] = set()

    def visit(node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            matchers = {each.name: each.value for each in node.matchers.matchers}
            selectors.append(Selector(node.name, matchers))
        elif isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            labels.update(node.modifier.labels)

    promql_parser.walk(promql_parser.parse(expression), visit)
    return selectors, labels


def expressions() -> Iterator[str]:
    """Every expression of dashboard and alerts."""
    yield from (query.runnable for query in queries())
    yield from (selector.replace("$job", ".*") for selector, _ in variable_queries())
    yield from (alert["expr"] for alert in alerts())


#: Seconds between two scrapes.
SCRAPE_SECONDS = 1


class Prometheus:
    """Scrapes the services at these addresses each second; a context manager."""

    def __init__(self, *targets: str) -> None:
        self._targets = targets
        self.url = f"http://127.0.0.1:{free_port()}"

    def __enter__(self) -> Prometheus:
        self._folder = tempfile.TemporaryDirectory()
        config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
        config["global"] = dict.fromkeys(
            ("scrape_interval", "evaluation_interval"), f"{SCRAPE_SECONDS}s"
        )
        config["rule_files"] = [str(ALERTS)]
        (scrape,) = config["scrape_configs"]
        scrape["static_configs"] = [{"targets": list(self._targets)}]
        path = Path(self._folder.name) / "prometheus.yml"
        path.write_text(yaml.safe_dump(config))
        command = [
            "prometheus",
            f"--config.file={path}",
            f"--storage.tsdb.path={self._folder.name}/data",
            f"--web.listen-address={self.url.removeprefix('http://')}",
            "--log.level=warn",
        ]
        self._process = subprocess.Popen(command)
        deadline = time.monotonic() + 60
        while not self._is_ready():
            assert self._process.poll() is None, "Prometheus did not start"
            assert time.monotonic() < deadline, "Prometheus is not ready"
            time.sleep(0.1)
        return self

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def get(self, path: str, **parameters: str | float) -> Any:
        """The data at a path of the HTTP API."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=30) as response:
            return json.load(response)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression has now, each with its labels and its value."""
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found

    def __exit__(self, *fault: object) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._folder.cleanup()
