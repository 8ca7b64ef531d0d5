"""What importers read: paths, text, bytes, parsed objects, and models of several operators."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

import tensor_round as tr
from tensor_round.contract.operators.importers import openvino_layer
from tensor_round.contract.operators.importers.sources import read_file

LAYER = """<layer id="3" name="Round_3" type="Round" version="opset5">
    <data mode="half_away_from_zero"/>
    <input><port id="0" precision="FP16"><dim>2</dim></port></input>
</layer>"""
NET = f"""<?xml version="1.0"?>
<net name="m" version="11">
    <layers>
        <layer id="0" name="x" type="Parameter" version="opset1"><data shape="2"/></layer>
        {LAYER}
        <layer id="4" name="y" type="Result"><rt_info><a><b>{"<c/>" * 9}</b></a></rt_info></layer>
    </layers>
    <edges><edge from-layer="0" from-port="0" to-layer="3" to-port="0"/></edges>
</net>"""
#: The Round is in the body of a loop.
LOOP = NET.replace(LAYER, f'<layer type="Loop"><body><layers>{LAYER}</layers></body></layer>')
TWO = NET.replace(LAYER, LAYER + LAYER.replace("Round_3", "Round_5").replace("_away_from", "_to"))


@pytest.mark.parametrize("text", [LAYER, NET, LOOP], ids=["layer", "net", "loop"])
@pytest.mark.parametrize(
    "make",
    [
        str,
        str.encode,
        ElementTree.fromstring,
        lambda text: ElementTree.ElementTree(ElementTree.fromstring(text)),
    ],
    ids=["text", "bytes", "element", "tree"],
)
def test_openvino_s_round_in_every_form(text: str, make: Callable[[str], Any]) -> None:
    operator = tr.from_openvino(make(text))
    assert operator == tr.OpenVINORound("half_away_from_zero")
    assert (operator.dtype, operator.shape) == ("float16", (2,))


@pytest.mark.parametrize("make", [Path, str], ids=["path", "text"])
def test_openvino_s_round_in_a_file(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    path = tmp_path / "model.xml"
    with pytest.raises(tr.InvalidArgument, match=r"model\.xml cannot be read: No such file"):
        tr.from_openvino(make(path))
    path.write_text(NET)
    assert tr.from_openvino(make(path)).shape == (2,)


def test_a_file_is_read_to_one_byte_beyond_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"12345678")
    assert read_file(path) == read_file(path, 8) == b"12345678"
    assert read_file(path, 3) == b"1234"


def test_one_of_several_rounds_of_a_net_is_chosen_by_name() -> None:
    told = r"exactly one Round, got 2 \(Round_3, Round_5\): choose by name="
    with pytest.raises(tr.InvalidDescriptor, match=told):
        tr.from_openvino(TWO)
    away = tr.from_openvino(TWO, name="Round_3")
    assert (away.mode, away.shape) == ("half_away_from_zero", (2,))
    with pytest.raises(tr.InvalidDescriptor, match=r'no Round called "Round_4"; there are Round_3'):
        tr.from_openvino(TWO, name="Round_4")
    with pytest.raises(tr.InvalidDescriptor, match="has 2 Round called"):
        tr.from_openvino(NET.replace(LAYER, LAYER * 2), name="Round_3")
    with pytest.raises(tr.InvalidDescriptor, match="exactly one Round, got 0"):
        tr.from_openvino("<net><layers/></net>")
    for count, end in ((8, "Round_7"), (9, "Round_7, 1 more"), (1009, "Round_7, 1,001 more")):
        many = NET.replace(LAYER, "".join(LAYER.replace("_3", f"_{i}") for i in range(count)))
        with pytest.raises(tr.InvalidDescriptor, match=rf", Round_6, {end}\): choose by name="):
            tr.from_openvino(many)


def test_every_fault_of_another_layer_is_told() -> None:
    floor = LAYER.replace('"Round"', '"Floor"').replace("half_away_from_zero", "up")
    with pytest.raises(tr.InvalidDescriptor) as caught:
        tr.from_openvino(floor)
    assert {fault.loc for fault in caught.value.faults} == {("type",), ("data", "mode")}


BAD_NETS = {
    "deep": ("<net>" + "<a>" * 99, "nests deeper than 64"),
    "doctype": ("<!DOCTYPE net>" + NET, "must not have a document type"),
    "many": (
        "<net><layer type='Round'>" + "<a/>" * openvino_layer.MAX_ELEMENTS + "</layer></net>",
        "at most 131072 elements",
    ),
    "cut": (NET[:-9], "not XML"),
    "long": ("<net>" + " " * openvino_layer.MAX_MODEL_LENGTH, "at most 67108864 bytes"),
    "a-rule": (
        NET.replace("half_away_from_zero", "half_down"),
        "data.mode: .* openvino Round-5 takes",
    ),
}


@pytest.mark.parametrize(("text", "why"), BAD_NETS.values(), ids=BAD_NETS)
def test_invalid_net_is_refused(text: str, why: str) -> None:
    with pytest.raises(tr.InvalidDescriptor, match=why):
        tr.from_openvino(text)


def test_a_net_without_its_other_layers_is_short() -> None:
    """Other layers are not kept, however many there are."""
    others = "<layer type='Abs'><data/></layer>" * openvino_layer.MAX_ELEMENTS
    text = NET.replace(LAYER, LAYER + others)
    assert tr.from_openvino(text).shape == (2,)


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


@pytest.mark.parametrize("field", ["graph", "opset_import"])
def test_object_with_one_field_of_an_onnx_model_is_refused(field: str) -> None:
    part = SimpleNamespace(**{field: getattr(model(node()), field)})
    with pytest.raises(tr.InvalidArgument, match="the node must be an onnx"):
        tr.from_onnx(part, 22)


def test_onnx_s_opset_as_a_number_and_as_its_model_has_it() -> None:
    opset = model(opset=13).opset_import[1]
    for given in (13, opset):
        assert tr.from_onnx(node(), given) == tr.OnnxRound(13)
    with pytest.raises(tr.InvalidArgument, match=r'of the domain "com\.example"'):
        tr.from_onnx(node(), model().opset_import[0])
    told = r"states no opset: write from_onnx\(node, model.opset_import\[0\]\), or give the model"
    with pytest.raises(tr.InvalidArgument, match=told):
        tr.from_onnx(node())


def test_a_model_of_onnx_states_its_opset() -> None:
    assert tr.from_onnx(model(node(), opset=13)) == tr.OnnxRound(13)
    assert tr.from_onnx(model(node()), 22) == tr.OnnxRound(22)
    with pytest.raises(tr.InvalidArgument, match="the model states opset 22, got 13"):
        tr.from_onnx(model(node()), 13)
    stateless = model(node())
    del stateless.opset_import[1]
    with pytest.raises(tr.InvalidDescriptor, match="imports no opset of the default domain"):
        tr.from_onnx(stateless)


def test_one_of_several_rounds_of_a_model_is_chosen_by_name() -> None:
    two = model(node(), node(name="", output=["z"], attribute=["mode"]))
    told = r"graph.node: onnx: must have exactly one Round, got 2 \(quantize, z\): choose by name="
    with pytest.raises(tr.InvalidDescriptor, match=told):
        tr.from_onnx(two)
    assert tr.from_onnx(two, name="quantize") == tr.OnnxRound(22)
    with pytest.raises(tr.InvalidDescriptor, match="Round has no attributes"):
        tr.from_onnx(two, name="z")
    with pytest.raises(tr.InvalidDescriptor, match="did you mean quantize"):
        tr.from_onnx(two, name="quantise")
    with pytest.raises(tr.InvalidDescriptor, match="exactly one Round, got 0"):
        tr.from_onnx(model())


class DecodeError(Exception):
    """As onnx's own: of a class that it does not publish."""


@pytest.fixture
def onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for the package, with its names; `make test-oracles` has the real one."""

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
def test_onnx_in_bytes_in_a_file_and_in_text(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(b"\x08\n")
    for source in (b"\x08\n", file, str(file), TEXT):
        assert tr.from_onnx(source) == tr.OnnxRound(13)
    for source, why in ((b"<i", "wrong wire type$"), (b"", "DecodeError$"), ("=>", "wrong wire")):
        with pytest.raises(tr.InvalidArgument, match=f"this is no ONNX model: {why}"):
            tr.from_onnx(source)


@pytest.mark.parametrize("source", [b"\x08\n", TEXT], ids=["bytes", "text"])
def test_onnx_without_its_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, source: str | bytes
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)  # its import fails
    with pytest.raises(tr.InvalidArgument, match="by the onnx package: pip install onnx"):
        tr.from_onnx(source)


@pytest.mark.parametrize("make", [Path, str], ids=["path", "text"])
def test_a_file_that_is_not_there_is_named(make: Callable[[str], Any]) -> None:
    with pytest.raises(tr.InvalidArgument, match=r"file no/model\.onnx cannot be read: No such"):
        tr.from_onnx(make("no/model.onnx"))


OPERATOR: dict[str, Any] = {
    "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
    "desc": {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [3]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [3]},
        "RoundingMode": "TOWARD_ZERO",
    },
}


@pytest.mark.parametrize("make", [dict, json.dumps], ids=["dict", "text"])
def test_one_of_several_dispatchables_is_chosen_by_name(make: Callable[[Any], Any]) -> None:
    away = {**OPERATOR, "desc": {**OPERATOR["desc"], "RoundingMode": "TOWARD_INFINITY"}}
    two = make({"dispatchables": {"zero": OPERATOR, "away": away, "abs": {"type": "ABS"}}})
    told = r"exactly one ELEMENT_WISE_ROUND, got 2 \(zero, away\): choose by name="
    with pytest.raises(tr.InvalidDescriptor, match=told):
        tr.from_dxdispatch(two)
    assert tr.from_dxdispatch(two, name="away") == tr.DirectMLRound("TOWARD_INFINITY")
    with pytest.raises(tr.InvalidDescriptor, match='no ELEMENT_WISE_ROUND called "abs"; there are'):
        tr.from_dxdispatch(two, name="abs")


@pytest.mark.parametrize("name", ["Type", "Desc"])
def test_a_member_in_both_spellings_is_refused(name: str) -> None:
    for more in ({}, OPERATOR):
        document = {**more, name: 1, name.lower(): 1}
        with pytest.raises(tr.InvalidDescriptor, match=f"there is a {name.lower()}, too") as caught:
            tr.from_dxdispatch(document)
        assert caught.value.faults[0].loc == (name,)


def test_a_comment_separates_what_is_beside_it() -> None:
    text = json.dumps({**OPERATOR, "more": [12]})
    assert tr.from_dxdispatch(text.replace("12", "1/**/,2")) == tr.DirectMLRound("TOWARD_ZERO")
    for comment in ("/**/", "// two\n"):
        with pytest.raises(tr.MalformedJSON, match="not JSON"):
            tr.from_dxdispatch(text.replace("12", f"1{comment}2"))


ALONE: dict[str, Callable[[], object]] = {
    "onnx": lambda: tr.from_onnx(node(), 22, name="quantize"),
    "openvino": lambda: tr.from_openvino(LAYER, name="Round_3"),
    "dxdispatch": lambda: tr.from_dxdispatch(OPERATOR, name="round"),
}


@pytest.mark.parametrize("read", ALONE.values(), ids=ALONE)
def test_a_name_chooses_among_several_alone(read: Callable[[], object]) -> None:
    with pytest.raises(tr.InvalidArgument, match="this is one operator alone"):
        read()


def test_a_type_that_an_opset_lacks_is_refused_when_its_descriptor_is_made() -> None:
    told = r"input.elem_type: got BFLOAT16; use opset 22 or newer"
    with pytest.raises(tr.InvalidDescriptor, match=told):
        tr.OnnxRound(13).descriptor("bfloat16", (2,))
    assert tr.OnnxRound(22).descriptor("bfloat16", (2,)).input.elem_type == "BFLOAT16"
