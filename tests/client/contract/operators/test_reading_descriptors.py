"""What holds for every dialect: examples, faults of form, the cache, catalog and schema."""

from __future__ import annotations

import json
import re
import time
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from support.cases.descriptors import CASES, EXAMPLES, faults, paths, resolved, varied
from support.cases.dialect import ABSENT, Document
from tensor_round.contract.errors import InvalidDescriptor, MalformedJSON, problem
from tensor_round.contract.operators import registry
from tensor_round.contract.operators.registry import Descriptor, catalog, parse, validate

DIALECTS = tuple(registry.DIALECTS)


def values(document: Document) -> list[tuple[str, Any]]:
    """Each field's dotted path and value."""
    return [(path, reduce(getitem, path.split("."), document)) for path in paths(document)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_field_is_converted(dialect: str) -> None:
    """Every value of an example replaced by what a lax reader would take for it."""
    for path, value in values(EXAMPLES[dialect]):
        if isinstance(value, list):
            assert faults(varied(dialect, {path: [*map(str, value)]})), path
        elif isinstance(value, int | str):
            assert faults(
                varied(dialect, {path: [value] if isinstance(value, str) else str(value)})
            )


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_field_is_required_or_has_a_default(dialect: str) -> None:
    for path in set(paths(EXAMPLES[dialect])) - {"dialect"}:
        document = varied(dialect, {path: ABSENT})
        if path in CASES[dialect].defaulted:
            assert resolved(document) == resolved(EXAMPLES[dialect])
        else:
            assert faults(document) == {path: "is required"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_unknown_field_is_refused_at_every_level(dialect: str) -> None:
    inner = [f"{path}." for path, value in values(EXAMPLES[dialect]) if isinstance(value, dict)]
    for path in ("", *inner):
        unknown = f"{path}surprise"
        assert faults(varied(dialect, {unknown: 1})) == {unknown: "unknown field"}


def test_the_page_shows_the_examples_and_names_their_optional_fields() -> None:
    page = (Path(__file__).parents[4] / "docs/descriptors.md").read_text()
    short, *shown = map(json.loads, re.findall(r"```json\n(.*?)```", page, re.S))
    assert validate(short)
    assert shown == [*EXAMPLES.values()]
    table = page.partition("| dialect | optional |")[2].partition("\n\n")[0]
    optional = re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.M)
    assert {dialect: {*re.findall(r"`([\w.]+)`", fields)} for dialect, fields in optional} == {
        name: cases.defaulted for name, cases in CASES.items() if cases.defaulted
    }


# document, the message's end
NO_DIALECT: dict[str, tuple[Any, str]] = {
    "none": ({}, "is required: one of "),
    "unknown": ({"dialect": "torch"}, 'got "torch"'),
    "upper case": ({"dialect": "ONNX"}, 'got "ONNX"; did you mean onnx?'),
    "list": ({"dialect": ["onnx"]}, "got an array"),
}


@pytest.mark.parametrize(("document", "begin"), NO_DIALECT.values(), ids=NO_DIALECT)
def test_without_a_dialect_all_are_named(document: Any, begin: str) -> None:
    found = faults(document)

    assert found.keys() == {"dialect"}
    assert found["dialect"].startswith(begin)
    assert found["dialect"].endswith(", ".join(DIALECTS))


@pytest.mark.parametrize(
    ("document", "got"), [([], "an array"), ("onnx", '"onnx"'), (1, "1"), (None, "null")]
)
def test_descriptor_must_be_an_object(document: Any, got: str) -> None:
    rule = f"a descriptor must be an object with dialect or operator, got {got}"
    assert faults(document) == {"": rule}


def test_a_long_value_is_not_echoed() -> None:
    found = faults(varied("onnx", {"op_type": "R" * 10_000, "x" * 10_000: 1}))

    assert all(len(path) <= 40 and len(message) < 100 for path, message in found.items())


def test_quoted_input_never_breaks_the_message() -> None:
    document = varied("openvino", {"data.mode": "{message}\n", "a\nb": 1, "{x}": 1})

    found = faults(document)

    assert found.keys() == {"data.mode", "a\\nb", "{x}"}
    assert found["data.mode"].startswith('got "{message}\\n"; openvino')


def test_a_lone_surrogate_never_reaches_an_answer() -> None:
    for document in (
        varied("onnx", {"\ud800": 1}),
        varied("onnx", {"op_type": "\ud800"}),
        {"dialect": "\ud800"},
    ):
        with pytest.raises(InvalidDescriptor) as refused:
            validate(document)
        json.dumps(problem(refused.value), ensure_ascii=False).encode("utf-8")


VAST: dict[str, Document] = {
    "unknown fields": varied("onnx", {str(n): n for n in range(100_000)}),
    "sizes": varied("onnx", {"input.shape": ["x"] * 100_000}),
    "nested lists": varied("onnx", {"input.shape": [[[]] * 500] * 500}),
}


@pytest.mark.parametrize("document", VAST.values(), ids=VAST)
def test_a_vast_document_is_refused_at_once_and_in_few_words(document: Document) -> None:
    start = time.thread_time()
    with pytest.raises(InvalidDescriptor) as refused:
        validate(document)

    assert time.thread_time() - start < 0.2
    assert len(refused.value.detail) < 10_000


@pytest.mark.parametrize("item", ['"%05x":0', '"%05x":[]', '"%05x":{"a":1}'])
def test_a_vast_text_is_refused_before_anything_is_made_of_it(item: str) -> None:
    few, many = ("{" + ",".join(item % i for i in range(n)) + "}" for n in (100, 1000))
    with pytest.raises(InvalidDescriptor, match="dialect: is required"):
        parse(few.encode())
    with pytest.raises(MalformedJSON, match="512 values"):
        parse(many.encode())


def test_as_many_faults_as_are_listed_are_all() -> None:
    for count in (32, 33, 100):
        with pytest.raises(InvalidDescriptor) as refused:
            validate(varied("onnx", {str(n): n for n in range(count)}))
        told = [fault.msg for fault in refused.value.faults]
        assert told == ["unknown field"] * 32 + [f"and {count - 32} more errors"] * (count > 32)


def test_a_text_nests_sixteen_levels_deep_and_a_document_has_512_values() -> None:
    deep = [b'{"dialect":"onnx","a":' + b"[" * n + b"]" * n + b"}" for n in (15, 16)]
    with pytest.raises(InvalidDescriptor, match="a: unknown field"):
        parse(deep[0])
    with pytest.raises(MalformedJSON, match="deeper than 16"):
        parse(deep[1])
    # Three members of the document, their keys not counted.
    short = [{"operator": "onnx", "dtype": "float32", "shape": [1] * n} for n in (509, 510)]
    with pytest.raises(InvalidDescriptor, match="shape: must have at most 32 dimensions, got 509"):
        validate(short[0])
    with pytest.raises(InvalidDescriptor, match="must have at most 512 values"):
        validate(short[1])


def test_every_version_in_the_catalog_is_accepted_by_its_field() -> None:
    described = json.loads(json.dumps(catalog()))
    assert tuple(described) == DIALECTS
    opsets = [version["selected_by"] for version in described["onnx"]["versions"]]
    assert opsets == [[*range(11, 22)], [*range(22, 29)]]
    for name, dialect in described.items():
        for version in dialect["versions"]:
            for value in version["selected_by"]:
                document = varied(name, {dialect["version_field"]: value})
                if version["min_rank"] > 2:
                    four = {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 3]}
                    document["desc"] |= {"InputTensor": four, "OutputTensor": four}
                assert resolved(document).input.element_count == 6


def test_the_schema_documents_every_dialect() -> None:
    schema = TypeAdapter(Descriptor).json_schema()

    assert schema["discriminator"]["propertyName"] == "dialect"
    assert tuple(schema["discriminator"]["mapping"]) == tuple(sorted(DIALECTS))
    for reference in schema["discriminator"]["mapping"].values():
        model = schema["$defs"][reference.rpartition("/")[2]]
        assert model["additionalProperties"] is False
        # Which a constructor need not be told.
        assert model["required"][0] == "dialect"
        assert model["properties"]["dialect"]["const"] in DIALECTS
        assert "default" not in model["properties"]["dialect"]
        assert model["description"]
        (example,) = model["examples"]
        assert example == EXAMPLES[example["dialect"]]
    modes = schema["$defs"]["ElementWiseRoundDesc"]["properties"]["RoundingMode"]
    names, numbers = modes["anyOf"]
    assert {"TOWARD_ZERO", "DML_ROUNDING_MODE_TOWARD_ZERO"} <= set(names["enum"])
    assert set(numbers["enum"]) == {0, 1, 2}


@pytest.mark.parametrize(
    ("path", "changed", "meant"),
    [
        ("roundng", {"rounding": ABSENT}, "rounding"),
        ("input.dtpe", {"input.dtype": ABSENT}, "dtype"),
    ],
)
def test_unknown_field_suggests_the_one_of_a_similar_name(
    path: str, changed: dict[str, Any], meant: str
) -> None:
    found = faults(varied("ieee754", {path: "x", **changed}))
    assert found[path] == f"unknown field; did you mean {meant}?"
