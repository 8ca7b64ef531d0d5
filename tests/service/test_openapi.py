"""The OpenAPI document tells of everything that the tensor route takes and answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tensor_round.errors import REFUSALS
from tensor_round_service.app import create_app
from tensor_round_service.settings import Settings


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app(Settings()).openapi()


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    for reference in references(document):
        node = document
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]


def references(node: Any) -> set[str]:
    if isinstance(node, dict):
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*map(references, node.values()))
    if isinstance(node, list):
        return set().union(*map(references, node))
    return set()


def test_round_takes_three_forms(document: dict[str, Any]) -> None:
    operation = document["paths"]["/round"]["post"]
    assert set(operation["requestBody"]["content"]) == {
        "application/octet-stream",
        "application/json",
        "application/x-npy",
    }
    assert "Operator-Descriptor" in {p["name"] for p in operation["parameters"]}


def test_the_descriptor_schema_has_the_four_dialects(document: dict[str, Any]) -> None:
    descriptor = document["components"]["schemas"]["Descriptor"]
    assert set(descriptor["discriminator"]["mapping"]) == {
        "ieee754",
        "onnx",
        "openvino",
        "directml",
    }


def test_every_refusal_is_documented(document: dict[str, Any]) -> None:
    told = json.dumps(document["paths"])
    schema = document["components"]["schemas"]["Problem"]
    for code in REFUSALS:
        assert code in schema["properties"]["code"]["enum"]
    for code in set(REFUSALS) - {"not_found", "method_not_allowed", "internal_error"}:
        assert f"`{code}`" in told


def test_the_check_of_hosts_is_documented_everywhere(document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert "421" in operation["responses"], (method, path)
            changes = method == "post" and path.startswith("/v2")
            assert not changes or "403" in operation["responses"], path
