"""``deploy/monitoring`` and the pages name metrics, labels and sections that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client.parser import text_string_to_metric_families

from support import monitoring
from support.devices.host_kernels import NO_COMPILER, compiler
from support.http.native_form import ieee754, post
from support.keys import needing
from support.services.variants import DeviceTlsService

ROOT = monitoring.MONITORING.parents[1]
OPERATIONS = ROOT / "docs" / "operations.md"
_METRIC = re.compile(r"\b(?:tensor_round_(?!(?:service|verify|cli)\b)|process_)[a-z_]+\b")


#: The labels of each metric, with the values seen.
Metrics = dict[str, dict[str, set[str]]]


def metrics_of(text: str) -> Metrics:
    """Those of a response, and Prometheus' own."""
    found: Metrics = {"up": {}}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return found


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metrics]:
    """Of a service with a device, a certificate and a key, after a tensor and a refusal."""
    if compiler() is None:
        pytest.skip(NO_COMPILER)
    keys = needing(tmp_path_factory.mktemp("keys"), "secret")
    fields = {"X-API-Key": "secret"}
    with DeviceTlsService("--backend", "auto", *keys) as service:
        for count in (1 << 8, 1 << 12, 1 << 16, 1 << 20, 1 << 23):
            x = np.zeros(count, "<f4")
            descriptor = ieee754("float32", [count])
            assert post(service, descriptor, x.tobytes(), X_API_Key="secret").status == 200
        assert service.request("POST", "/round", b"", fields).status == 400
        yield metrics_of(service.request("GET", "/metrics", None, fields).content.decode())


def test_every_expression_names_metrics_labels_and_values_that_there_are(metrics: Metrics) -> None:
    for expression in monitoring.expressions():
        selectors, labels = monitoring.parsed(expression)
        assert selectors, expression
        known = set(monitoring.ADDED_LABELS)
        for selector in selectors:
            assert selector.metric in metrics, expression
            has = metrics[selector.metric]
            known |= has.keys()
            for label, value in selector.matchers.items():
                assert label in {*has, *monitoring.ADDED_LABELS}, expression
                if label in ("phase", "size", "event") and value != ".*":
                    assert set(value.split("|")) <= has[label], expression
        assert labels <= known, expression


def test_legends_and_variables_have_labels_that_there_are(metrics: Metrics) -> None:
    for query in monitoring.queries():
        _, labels = monitoring.parsed(query.runnable)
        assert set(re.findall(r"{{(\w+)}}", query.legend)) <= labels, query
    for selector, label in monitoring.variable_queries():
        (found,) = monitoring.parsed(selector)[0]
        assert label in {*metrics[found.metric], *monitoring.ADDED_LABELS}
    (sizes,) = [v for v in monitoring.dashboard()["templating"]["list"] if v["name"] == "size"]
    assert set(sizes["query"].split(",")) == metrics["tensor_round_phase_seconds_bucket"]["size"]


def test_every_metric_is_shown_or_alerts_and_is_documented(metrics: Metrics) -> None:
    used = {s.metric for e in monitoring.expressions() for s in monitoring.parsed(e)[0]}
    documented = set(_METRIC.findall(OPERATIONS.read_text()))
    for name in metrics.keys() - {"up"}:
        family = re.sub(r"(_bucket|_sum|_count)$", "", name)
        assert any(each in documented for each in (name, family)), f"{name} is in no table"
        assert any(each.startswith(family) for each in used), f"{name} is on no panel"


def test_pages_name_metrics_that_there_are(metrics: Metrics) -> None:
    names = set(metrics)
    names |= {re.sub(r"(_bucket|_sum|_count)$", "", name) for name in names}
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for name in _METRIC.findall(page.read_text()):
            assert name in names, f"{page.name}: {name}"


def test_each_alert_has_a_section_and_each_section_an_alert() -> None:
    headings = re.findall(r"^#+ (.+)$", OPERATIONS.read_text(), re.MULTILINE)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    names = []
    for alert in monitoring.alerts():
        names.append(alert["alert"])
        link = alert["annotations"]["runbook_url"]
        page, anchor = re.sub(r"{{ with .*{{ else }}(.*){{ end }}", r"\1", link).split("#")
        assert ROOT / page == OPERATIONS
        assert anchor in anchors
        assert anchor == alert["alert"].lower()
        assert alert["annotations"]["summary"]
        assert alert["labels"]["severity"] in ("warning", "critical")
    assert sorted(names) == sorted(h for h in headings if h.startswith("TensorRound"))


def test_every_field_of_the_dashboard_is_one_of_grafanas() -> None:
    """Read and written by Grafana's own schema, nothing is lost: no field is misspelt."""
    register_default_plugins()
    document = monitoring.dashboard()
    for variable in document["templating"]["list"]:
        variable.pop("definition", None)  # of Prometheus' editor, and in no schema
    parsed = Dashboard.from_json(document)
    assert sorted(_lost(document, json.loads(json.dumps(parsed, cls=JSONEncoder)))) == []


def _lost(before: Any, after: Any, at: str = "") -> Iterator[str]:
    """Where a document has something that another does not have."""
    match before:
        case dict():
            for name, value in before.items():
                yield from _lost(value, (after or {}).get(name), f"{at}.{name}")
        case list() if isinstance(after, list) and len(before) == len(after):
            for index, (one, other) in enumerate(zip(before, after, strict=True)):
                yield from _lost(one, other, f"{at}[{index}]")
        case _ if before != after:
            yield f"{at}: {before!r}, not {after!r}"


def test_panels_lie_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in monitoring.dashboard()["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in monitoring.dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells
