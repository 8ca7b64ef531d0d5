"""Round nodes of ONNX: alone and in a model, by objects with the fields of onnx's classes.

`make test-oracles` has the package itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tensor_round as tr


def node(**changes: Any) -> Any:
    fields = {"op_type": "Round", "domain": "", "attribute": [], "input": ["x"], "output": ["y"]}
    return SimpleNamespace(**{"name": "quantize", **fields, **changes})


def model(*nodes: Any, opset: int = 22) -> Any:
    others = [node(op_type="Abs"), node(domain="com.example")]
    opsets = [
        SimpleNamespace(domain="com.example", version=1),
        SimpleNamespace(domain="", version=opset),
    ]
    return SimpleNamespace(graph=SimpleNamespace(node=[*others, *nodes]), opset_import=opsets)


def test_a_node_keeps_its_domain() -> None:
    assert tr.from_onnx(node(), 11) == tr.OnnxRound(opset_version=11)
    operator = tr.from_onnx(node(domain="ai.onnx"), opset=21)
    assert operator == tr.OnnxRound(21)
    assert repr(operator) == "OnnxRound(opset_version=21)"
    descriptor = operator.descriptor("float16", (2,))
    assert descriptor.domain == json.loads(descriptor.to_json())["domain"] == "ai.onnx"


OTHERS: dict[str, dict[str, Any]] = {
    **{"op_type": {"op_type": "Ceil"}, "domain": {"domain": "com.microsoft"}},
    **{"attribute": {"attribute": ["mode"]}, "input": {"input": []}},
    "output": {"output": ["y", "z"]},
}


@pytest.mark.parametrize("field", OTHERS)
def test_another_node_is_refused(field: str) -> None:
    with pytest.raises(tr.InvalidDescriptor, match="onnx: Round ") as caught:
        tr.from_onnx(node(**OTHERS[field]), 22)
    assert caught.value.faults[0].loc == (field,)


NO_NODES = {
    "a number": 7,
    "a graph": SimpleNamespace(graph=model(node()).graph),
    "opsets": SimpleNamespace(opset_import=model(node()).opset_import),
}


@pytest.mark.parametrize("given", NO_NODES.values(), ids=NO_NODES)
def test_value_that_is_no_node_is_refused(given: Any) -> None:
    why = r"the node must be an onnx.*, one of model.graph.node, or a model, got "
    with pytest.raises(tr.InvalidArgument, match=why):
        tr.from_onnx(given, 22)


def test_an_opset_is_a_number_or_as_its_model_has_it() -> None:
    for given in (13, model(opset=13).opset_import[1]):
        assert tr.from_onnx(node(), given) == tr.OnnxRound(13)
    with pytest.raises(tr.InvalidDescriptor, match="opset 11"):
        tr.from_onnx(node(), 10)
    with pytest.raises(tr.InvalidArgument, match=r'of the domain "com\.example"'):
        tr.from_onnx(node(), model().opset_import[0])
    why = r"states no opset: write from_onnx\(node, model.opset_import\[0\]\), or give the model"
    with pytest.raises(tr.InvalidArgument, match=why):
        tr.from_onnx(node())


def test_a_model_states_its_opset() -> None:
    assert tr.from_onnx(model(node(), opset=13)) == tr.OnnxRound(13)
    assert tr.from_onnx(model(node()), 22) == tr.OnnxRound(22)
    with pytest.raises(tr.InvalidArgument, match="the model states opset 22, got 13"):
        tr.from_onnx(model(node()), 13)
    stateless = model(node())
    del stateless.opset_import[1]
    with pytest.raises(tr.InvalidDescriptor, match="imports no opset of the default domain"):
        tr.from_onnx(stateless)


def test_one_of_several_rounds_is_chosen_by_name() -> None:
    two = model(node(), node(name="", output=["z"], attribute=["mode"]))
    why = r"graph.node: onnx: must have exactly one Round, got 2 \(quantize, z\): choose by name="
    with pytest.raises(tr.InvalidDescriptor, match=why):
        tr.from_onnx(two)
    assert tr.from_onnx(two, name="quantize") == tr.OnnxRound(22)
    with pytest.raises(tr.InvalidDescriptor, match="Round has no attributes"):
        tr.from_onnx(two, name="z")
    with pytest.raises(tr.InvalidDescriptor, match="did you mean quantize"):
        tr.from_onnx(two, name="quantise")
    with pytest.raises(tr.InvalidArgument, match="this is one operator alone"):
        tr.from_onnx(node(), 22, name="quantize")


class DecodeError(Exception):
    """As onnx's own: of a class that it does not publish."""


@pytest.fixture
def onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for the package, with its names."""

    def parse(source: Any, kind: type, begin: object) -> Any:
        assert isinstance(source, kind)
        if source[:2] != begin:
            raise DecodeError("\n  wrong wire type\nmore" if source else "")
        return model(node(), opset=13)

    parser = SimpleNamespace(parse_model=lambda text: parse(text, str, "<i"))
    package = SimpleNamespace(
        load_model_from_string=lambda data: parse(data, bytes, b"\x08\n"), parser=parser
    )
    monkeypatch.setitem(sys.modules, "onnx", package)
    monkeypatch.setitem(sys.modules, "onnx.parser", parser)


TEXT = '<ir_version: 10, opset_import: ["" : 13]> g (float x) => (float y) { y = Round(x) }'


@pytest.mark.usefixtures("onnx")
def test_bytes_files_and_text_are_read_by_the_package(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(b"\x08\n")
    for source in (b"\x08\n", file, str(file), TEXT):
        assert tr.from_onnx(source) == tr.OnnxRound(13)
    for source, why in ((b"<i", "wrong wire type$"), (b"", "DecodeError$"), ("=>", "wrong wire")):
        with pytest.raises(tr.InvalidArgument, match=f"this is not an ONNX model: {why}"):
            tr.from_onnx(source)


@pytest.mark.parametrize("source", [b"\x08\n", TEXT])
def test_without_the_package_the_error_names_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch, source: str | bytes
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)  # its import fails
    with pytest.raises(tr.InvalidArgument, match="by the onnx package: pip install onnx"):
        tr.from_onnx(source)


@pytest.mark.parametrize("make", [Path, str])
def test_a_file_that_is_not_there_is_named(make: Callable[[str], Any]) -> None:
    with pytest.raises(tr.InvalidArgument, match=r"file no/model\.onnx cannot be read: No such"):
        tr.from_onnx(make("no/model.onnx"))
