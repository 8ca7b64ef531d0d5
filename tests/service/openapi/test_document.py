"""The OpenAPI document tells of everything that routes take and answer, as generators read it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

import pytest
from pydantic import TypeAdapter

from support.cases.descriptors import EXAMPLES
from support.devices.host_device import HostDevice
from support.devices.host_kernels import NO_COMPILER, compiler
from support.http.asgi import ask
from tensor_round.contract.errors import REFUSALS
from tensor_round.contract.operators import registry
from tensor_round.contract.operators.registry import DIALECTS
from tensor_round_service.app import create_app
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.backends.cuda.backend import CupyBackend
from tensor_round_service.engine.engine import Engine
from tensor_round_service.openapi.errors import EXAMPLES as REFUSED
from tensor_round_service.openapi.round_operation import Descriptor
from tensor_round_service.settings import Settings

Document = dict[str, Any]


@pytest.fixture(scope="module")
def document() -> Document:
    """Of a service with everything off."""
    return create_app(Settings(backend="numpy")).openapi()


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Document:
    """Of a service with everything on."""
    if compiler() is None:
        pytest.skip(NO_COMPILER)
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(hashlib.sha256(b"secret").hexdigest())
    settings = Settings(shared_memory_prefix="x", cuda_shared_memory=True, api_keys_file=keys)
    engine = Engine(CupyBackend([HostDevice()], NumpyBackend()), 64 << 20)
    try:
        return create_app(settings, engine).openapi()
    finally:
        engine.close()


@pytest.fixture(params=["document", "full"])
def either(request: pytest.FixtureRequest) -> Document:
    found: Document = request.getfixturevalue(request.param)
    return found


def operations(document: Document) -> Iterator[tuple[str, str, Document]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def objects(node: Any) -> Iterator[Document]:
    """Every JSON object in a document, but in examples."""
    if isinstance(node, dict):
        yield node
        for name, value in node.items():
            if name not in ("example", "examples"):
                yield from objects(value)
    elif isinstance(node, list):
        for value in node:
            yield from objects(value)


def test_every_reference_leads_somewhere(either: Document) -> None:
    for reference in {found["$ref"] for found in objects(either) if "$ref" in found}:
        node = either
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]


# What follows is what openapi-python-client and openapi-typescript make nothing, or too little, of.


def test_every_parameter_has_a_schema_that_is_never_null(either: Document) -> None:
    for path, _, operation in operations(either):
        for parameter in operation.get("parameters", []):
            assert "content" not in parameter, path
            assert "null" not in json.dumps(parameter["schema"]), path
            assert (parameter["in"] == "path") == (f"{{{parameter['name']}}}" in path)


def test_enumerations_are_of_one_type_arrays_have_items_and_no_member_a_default(
    either: Document,
) -> None:
    types = {"string": str, "integer": int}
    for found in objects(either):
        if isinstance(found.get("enum"), list):
            assert {type(value) for value in found["enum"]} == {types[found["type"]]}
        assert "default" not in found or isinstance(found["default"], dict)
        assert found.get("type") != "array" or "items" in found


def test_every_status_document_has_members(either: Document) -> None:
    """None but one that says no more than that it was done."""
    for path, _, operation in operations(either):
        if operation["operationId"] in REFUSED_ALWAYS:
            assert "200" not in operation["responses"]
            continue
        for content in operation["responses"]["200"]["content"].values():
            schema = content["schema"]
            schema = schema.get("items", schema) if schema.get("type") == "array" else schema
            if schema.get("type") == "string":
                continue
            name = schema["$ref"].rpartition("/")[2]
            assert either["components"]["schemas"][name]["properties"] or name == "Nothing", path


REFUSED_ALWAYS = {
    "unload_model",
    "change_log_settings",
    "change_trace_settings",
    "change_model_trace_settings",
}
IDS = {
    *REFUSED_ALWAYS,
    "round",
    "compare",
    "service_info",
    "list_operators",
    "show_conformance",
    "livez",
    "readyz",
    "show_metrics",
    "infer",
    "infer_version",
    "server_metadata",
    "server_live",
    "server_ready",
    "all_statistics",
    "model_metadata",
    "model_ready",
    "model_config",
    "model_statistics",
    "model_version_metadata",
    "model_version_ready",
    "model_version_config",
    "model_version_statistics",
    "repository_index",
    "load_model",
    "log_settings",
    "trace_settings",
    "model_trace_settings",
}
MEMORY_IDS = {
    f"{verb}{kind}_region{many}"
    for verb in ("", "register_", "unregister_")
    for kind in ("system", "cuda")
    for many in ("", "s")
} - {"register_system_regions", "register_cuda_regions"}


def ids(document: Document) -> dict[str, str]:
    found = {op["operationId"]: f"{method} {path}" for path, method, op in operations(document)}
    assert len(found) == sum(1 for _ in operations(document))
    return found


def test_operation_ids_are_no_matter_of_settings(document: Document, full: Document) -> None:
    assert ids(document).keys() == IDS
    assert ids(full).keys() == IDS | MEMORY_IDS
    assert ids(document).items() <= ids(full).items()
    assert document["components"]["schemas"].items() <= full["components"]["schemas"].items()


def test_document_has_version_license_and_tags(either: Document) -> None:
    assert either["openapi"].startswith("3.1")
    assert either["info"]["license"]["identifier"] == "Apache-2.0"
    (server,) = either["servers"]
    for folder in ("https://h/", "https://h/behind/a/proxy/"):
        assert urljoin(f"{folder}openapi.json", server["url"]) == folder
    assert "-0.0 as 0" in either["info"]["description"]
    named = {tag["name"] for tag in either["tags"]}
    assert {tag for _, _, op in operations(either) for tag in op["tags"]} == named


def test_the_page_begins_with_round_as_json(document: Document) -> None:
    assert next(iter(document["paths"])) == "/round"
    assert document["tags"][0]["name"] == "round"
    content = document["paths"]["/round"]["post"]["requestBody"]["content"]
    assert list(content) == [
        "application/json",
        "application/octet-stream",
        "application/x-npy",
    ]
    requests = content["application/json"]["examples"]
    assert requests.keys() == DIALECTS.keys()
    for dialect, request in requests.items():
        if dialect != "ieee754":
            operator = registry.operator_from_text(request["value"]["operator"])
            assert operator.descriptor("float32", (4,)).dialect == dialect
    # A header that is filled in beforehand would be sent with the JSON.
    for parameter in document["paths"]["/round"]["post"]["parameters"]:
        assert not {"example", "examples"} & parameter.keys()
        assert not {"example", "default"} & parameter["schema"].keys()


def test_the_descriptors_are_components(document: Document) -> None:
    schemas = document["components"]["schemas"]

    def component(reference: str) -> tuple[str, Document]:
        name = reference.rpartition("/")[2]
        # Generators name their classes by titles, where there are any.
        assert schemas[name].get("title", name) == name
        return name, schemas[name]

    mapping = schemas["Descriptor"]["discriminator"]["mapping"]
    assert mapping.keys() == DIALECTS.keys()
    for dialect, reference in mapping.items():
        _, union = component(reference)
        forms = dict(component(one["$ref"]) for one in union["oneOf"])
        assert [*forms] == [form.__name__ for form in DIALECTS[dialect].forms]
        for form in forms.values():
            assert "dialect" in form["required"]
            (example,) = form["examples"]
            assert example in EXAMPLES.values()
    (header, *_) = document["paths"]["/round"]["post"]["parameters"]
    assert header["name"] == "Operator-Descriptor"
    assert header["schema"].keys() == {"type", "examples"}
    (text,) = header["schema"]["examples"]
    assert registry.parse(text.encode())
    assert text in header["description"]


def test_the_schema_documents_every_operator() -> None:
    schema = TypeAdapter(Descriptor).json_schema()

    def target(reference: str) -> Any:
        return schema["$defs"][reference.rpartition("/")[2]]

    assert schema["discriminator"]["propertyName"] == "dialect"
    mapping = schema["discriminator"]["mapping"]
    assert mapping.keys() == DIALECTS.keys()
    assert [one["$ref"] for one in schema["oneOf"]] == [mapping[name] for name in DIALECTS]
    for name, reference in mapping.items():
        forms = [target(one["$ref"]) for one in target(reference)["oneOf"]]
        examples = [form.example for form in DIALECTS[name].forms]
        assert [model["examples"] for model in forms] == [[example] for example in examples]
        for model in forms:
            assert model["additionalProperties"] is False
            # Which a constructor need not be told.
            assert model["required"][0] == "dialect"
            assert model["properties"]["dialect"]["const"] == name
            assert "default" not in model["properties"]["dialect"]
            assert model["description"]
    modes = schema["$defs"]["ElementWiseRoundDesc"]["properties"]["RoundingMode"]
    names, numbers = modes["anyOf"]
    assert {"TOWARD_ZERO", "DML_ROUNDING_MODE_TOWARD_ZERO"} <= set(names["enum"])
    assert set(numbers["enum"]) == {0, 1, 2}


@pytest.mark.parametrize("operator", EXAMPLES)
def test_the_schema_s_type_reads_each_example(operator: str) -> None:
    read = TypeAdapter(Descriptor).validate_python(EXAMPLES[operator])
    assert read == registry.validate(EXAMPLES[operator])
    assert TypeAdapter(Descriptor).validate_python(read) is read


def test_every_refusal_has_an_example_of_its_code(document: Document) -> None:
    responses = document["paths"]["/round"]["post"]["responses"]
    told = set()
    for status, response in responses.items():
        if status != "200":
            (content,) = response["content"].values()
            for code, example in content["examples"].items():
                assert example["value"]["code"] == code
                assert example["value"]["status"] == REFUSALS[code].status == int(status)
                assert f"`{code}`" in response["description"]
                told.add(code)
    assert told == REFUSALS.keys() - {"not_found", "method_not_allowed", "internal_error"}
    assert REFUSED.keys() == REFUSALS.keys()
    problem = document["components"]["schemas"]["Problem"]
    assert set(problem["properties"]["code"]["enum"]) == REFUSALS.keys()


def test_document_has_every_method_that_a_path_allows(document: Document) -> None:
    app = create_app(Settings(backend="numpy"))
    for path, methods in document["paths"].items():
        answer = ask(app, "OPTIONS", path.format(name="round", model_version="1"))
        allowed = {*answer.headers["allow"].lower().split(", ")}
        assert allowed - {"head", "options"} == methods.keys(), path


def test_headers_that_name_the_remedy_are_documented(either: Document) -> None:
    headers = {"401": "WWW-Authenticate", "415": "Accept-Encoding", "503": "Retry-After"}
    for path, method, operation in operations(either):
        for status, response in operation["responses"].items():
            name = headers.get(status)
            assert name is None or name in response["headers"], (method, path, status)


def test_the_check_of_hosts_is_documented_everywhere(either: Document) -> None:
    for path, method, operation in operations(either):
        assert {"400", "421"} <= operation["responses"].keys(), (method, path)
        changes = method == "post" and path.startswith("/v2")
        assert changes == ("403" in operation["responses"]), path
