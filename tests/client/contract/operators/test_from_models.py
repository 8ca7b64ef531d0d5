"""Round operators of ONNX and of OpenVINO's IR: alone and in a model, and their limits.

ONNX's are objects with the fields of onnx's classes; `make test-oracles` has the package itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import tensor_round as tr
from tensor_round.contract.operators.importers.openvino_layer import MAX_LENGTH
from tensor_round.contract.operators.importers.sources import read_file


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
    **{"op_type": {"op_type": "Abs"}, "domain": {"domain": "com.microsoft"}},
    **{"attribute": {"attribute": ["mode"]}, "input": {"input": []}},
    "output": {"output": ["y", "z"]},
}


@pytest.mark.parametrize("field", OTHERS)
def test_another_node_is_refused(field: str) -> None:
    with pytest.raises(tr.InvalidDescriptor, match="onnx: Round ") as caught:
        tr.from_onnx(node(**OTHERS[field]), 22)
    assert caught.value.faults[0].loc == (field,)


def attribute(name: str, value: int | bytes) -> Any:
    """An AttributeProto: type 2 has an integer, 3 a string."""
    is_text = isinstance(value, bytes)
    return SimpleNamespace(name=name, type=3 if is_text else 2, i=0 if is_text else value, s=value)


def cast(**attributes: int | bytes) -> Any:
    listed = [attribute(name, value) for name, value in attributes.items()]
    return node(op_type="Cast", name="convert", attribute=listed)


def test_quantizations_are_read_with_their_attributes() -> None:
    listed = [attribute(name, value) for name, value in (("axis", 0), ("precision", 10))]
    given = node(op_type="QuantizeLinear", attribute=listed, input=["x", "s", "z"])
    assert tr.from_onnx(given, 23) == tr.OnnxQuantizeLinear(None, 23, axis=0, precision="float16")
    listed = [attribute("output_dtype", 10), attribute("block_size", 4)]
    given = node(op_type="DequantizeLinear", attribute=listed, input=["x", "s"])
    assert tr.from_onnx(given, 25) == tr.OnnxDequantizeLinear("float16", 25, block_size=4)
    for wrong, loc in (({"input": ["x"]}, "input"), ({"attribute": [attribute("to", 1)]}, "attri")):
        with pytest.raises(tr.InvalidDescriptor, match="onnx: QuantizeLinear has ") as caught:
            tr.from_onnx(node(**{"op_type": "QuantizeLinear", "input": ["x", "s"], **wrong}), 25)
        assert str(caught.value.faults[0].loc[0]).startswith(loc)


def test_other_operators_that_round_are_read() -> None:
    assert tr.from_onnx(node(op_type="Floor"), 6) == tr.OnnxFloor(6)
    assert tr.from_onnx(node(op_type="Ceil", domain="ai.onnx"), 13) == tr.OnnxCeil(13)
    assert tr.from_onnx(cast(to=10), 9) == tr.OnnxCast("float16", 9)
    # torch's exporter writes saturate whatever the target is.
    assert tr.from_onnx(cast(to=6, saturate=1), 20) == tr.OnnxCast("int32", 20, saturate=True)
    fp8 = tr.from_onnx(cast(to=17, saturate=0), 23)
    assert fp8 == tr.OnnxCast("float8_e4m3fn", 23, saturate=False)
    assert fp8.descriptor("float32", (3,)).to == "FLOAT8E4M3FN"
    scale = tr.from_onnx(cast(to=24, round_mode=b"down"), 24)
    assert scale == tr.OnnxCast("float8_e8m0fnu", 24, round_mode="down")
    several = model(cast(to=1), node(), node(op_type="Floor", name="lower"))
    assert tr.from_onnx(several) == tr.OnnxRound(22)
    assert tr.from_onnx(several, name="convert") == tr.OnnxCast("float32", 22)
    assert tr.from_onnx(several, name="lower") == tr.OnnxFloor(22)


@pytest.mark.parametrize(
    ("given", "opset", "why"),
    [
        (cast(), 22, "to: is required"),
        (cast(to=9), 22, "to: got BOOL: a conversion of bool rounds nothing"),
        (cast(to=8), 22, "to: got STRING: text is no tensor"),
        (cast(to=99), 22, "to: got 99; onnx: Cast takes"),
        (cast(to=17), 18, "to: FLOAT8E4M3FN needs opset 19"),
        (cast(to=1, saturate=1), 18, "saturate needs opset 19"),
        (cast(to=1, saturate=2), 19, "saturate: must be at most 1, got 2"),
        (cast(to=1, axis=1), 19, "attribute: onnx: Cast has only the attributes to, saturate"),
        (cast(to=24, round_mode=b"\xff"), 24, "round_mode: "),
    ],
)
def test_cast_that_an_opset_does_not_have_is_refused(given: Any, opset: int, why: str) -> None:
    with pytest.raises(tr.InvalidDescriptor, match=why):
        tr.from_onnx(given, opset)


def linear(kind: str, inputs: int = 3, **attributes: int) -> Any:
    listed = [attribute(name, value) for name, value in attributes.items()]
    return node(op_type=f"{kind}Linear", attribute=listed, input=["x", "s", "z"][:inputs])


def test_quantizations_are_read() -> None:
    quantize, dequantize = tr.OnnxQuantizeLinear, tr.OnnxDequantizeLinear
    assert tr.from_onnx(linear("Quantize"), 10) == quantize(opset_version=10)
    given = linear("Quantize", 2, axis=0, block_size=32, output_dtype=22, saturate=0, precision=10)
    blocked = quantize("int4", 23, 0, 32, saturate=False, precision="float16")
    assert tr.from_onnx(given, 23) == blocked
    assert tr.from_onnx(linear("Dequantize", axis=-1), 13) == dequantize(None, 13, -1)
    assert tr.from_onnx(linear("Dequantize", output_dtype=1), 25) == dequantize("float32")
    found = tr.from_onnx(model(linear("Quantize"), linear("Dequantize"), node()))
    assert found == tr.OnnxRound(22)


@pytest.mark.parametrize(
    ("given", "opset", "why"),
    [
        (linear("Quantize", 1), 22, "input: onnx: QuantizeLinear has two or three inputs"),
        (linear("Quantize", axis=0), 10, "axis: onnx: axis needs opset 13"),
        (linear("Dequantize", saturate=1), 22, "attribute: onnx: DequantizeLinear has only the "),
        (linear("Dequantize", output_dtype=3), 25, "output_dtype: .* takes FLOAT, "),
        (linear("Quantize"), 9, "opset_version: "),
    ],
)
def test_quantization_that_an_opset_does_not_have_is_refused(
    given: Any, opset: int, why: str
) -> None:
    with pytest.raises(tr.InvalidDescriptor, match=why):
        tr.from_onnx(given, opset)


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


def test_one_of_several_nodes_is_chosen_by_name() -> None:
    two = model(node(), node(name="", output=["z"], attribute=["mode"]))
    why = r"graph.node: onnx: .* one operator that rounds, got 2 \(quantize, z\): choose by name="
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
@pytest.mark.parametrize("read", [tr.from_onnx, tr.from_openvino, tr.from_dxdispatch])
def test_a_file_that_is_not_there_is_named(read: Callable[[Any], Any], make: Any) -> None:
    with pytest.raises(tr.InvalidArgument, match=r"file no/model\.x cannot be read: No such file"):
        read(make("no/model.x"))


LAYER = """<layer id="3" name="Round_3" type="Round" version="opset5">
    <data mode="half_away_from_zero"/>
    <rt_info><attribute name="fused_names" version="0" value="Round_3"/></rt_info>
    <input><port id="0" precision="FP16"><dim>2</dim><dim>3</dim></port></input>
    <output><port id="1" precision="FP16" names="y"><dim>2</dim><dim>3</dim></port></output>
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
DECLARED = '<?xml version="1.0"?>' + LAYER


@pytest.mark.parametrize("text", [LAYER, DECLARED, NET, LOOP])
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
def test_a_round_is_read_in_every_form(text: str, make: Callable[[str], Any]) -> None:
    operator = tr.from_openvino(make(text))
    assert operator == tr.OpenVINORound("half_away_from_zero")
    assert (operator.dtype, operator.shape) == ("float16", (2, 3))


CONVERT = """<layer name="Convert_9" type="Convert" version="opset1">
    <data destination_type="f8e5m2"/>
    <input><port id="0" precision="FP32"><dim>2</dim><dim>3</dim></port></input>
    <output><port id="1" precision="F8E5M2"><dim>2</dim><dim>3</dim></port></output>
</layer>"""
FLOOR = CONVERT.replace("Convert", "Floor").replace('<data destination_type="f8e5m2"/>', "")
FLOOR = FLOOR.replace("F8E5M2", "FP32")
OTHER_LAYERS: dict[str, tuple[str, tr.RoundOperator]] = {
    "Floor_9": (FLOOR, tr.OpenVINOFloor()),
    "Ceiling_9": (FLOOR.replace("Floor", "Ceiling"), tr.OpenVINOCeiling()),
    "Convert_9": (CONVERT, tr.OpenVINOConvert("float8_e5m2")),
}


@pytest.mark.parametrize("name", OTHER_LAYERS)
def test_other_layers_that_round_are_read(name: str) -> None:
    text, operator = OTHER_LAYERS[name]
    several = NET.replace(LAYER, LAYER + text)
    for read in (tr.from_openvino(text), tr.from_openvino(several, name=name)):
        assert read == operator
        assert (read.dtype, read.shape) == ("float32", (2, 3))
        call = read.descriptor().resolve()
        assert call.output.dtype.name == ("float8_e5m2" if text is CONVERT else "float32")
    assert tr.from_openvino(several) == tr.OpenVINORound("half_away_from_zero")
    bare = CONVERT.replace('<data destination_type="f8e5m2"/>', "")
    assert tr.from_openvino(bare) == tr.OpenVINOConvert("float8_e5m2")


@pytest.mark.parametrize("make", [Path, str])
def test_a_file_is_read(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    path = tmp_path / "model.xml"
    path.write_text(NET)
    assert tr.from_openvino(make(path)).shape == (2, 3)


def test_a_file_is_read_to_one_byte_beyond_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"12345678")
    assert read_file(path, 8) == b"12345678"
    assert read_file(path, 3) == b"1234"


PRECISIONS = {
    **{"FP16": "float16", "BF16": "bfloat16", "FP32": "float32", "FP64": "float64"},
    **{"F8E4M3": "float8_e4m3fn", "F8E5M2": "float8_e5m2", "I8": "int8", "U64": "uint64"},
    "f32": "float32",
}


@pytest.mark.parametrize(("precision", "dtype"), PRECISIONS.items(), ids=PRECISIONS)
def test_a_layer_states_its_tensor(precision: str, dtype: str) -> None:
    operator = tr.from_openvino(LAYER.replace("FP16", precision))
    descriptor = operator.descriptor()
    call = descriptor.resolve()
    assert descriptor.mode == "half_away_from_zero"
    assert (call.input.dtype.name, call.input.shape) == (dtype, (2, 3))
    assert operator.descriptor(np.int8, [5]).resolve().input.shape == (5,)


def test_missing_parts_of_a_layer_have_defaults_or_are_asked_for() -> None:
    bare = tr.from_openvino('<layer type="Round"/>')
    assert repr(bare) == "OpenVINORound(mode='half_to_even')"
    with pytest.raises(tr.InvalidArgument, match="dtype is needed"):
        bare.descriptor()
    dynamic = tr.from_openvino(LAYER.replace("<dim>3", "<dim>-1"))
    with pytest.raises(tr.InvalidArgument, match="shape is needed"):
        dynamic.descriptor()
    assert dynamic.descriptor(shape=(2, 9)).input.element_type == "f16"
    untyped = tr.from_openvino(LAYER.replace('precision="FP16"', ""))
    assert untyped.descriptor("float16").input.shape == (2, 3)
    scalar = tr.from_openvino('<layer type="Round"><input><port precision="I8"/></input></layer>')
    assert scalar.descriptor().resolve().input.shape == ()
    assert repr(scalar) == repr(bare)


def test_one_of_several_layers_is_chosen_by_name() -> None:
    why = r"exactly one operator that rounds, got 2 \(Round_3, Round_5\): choose by name="
    with pytest.raises(tr.InvalidDescriptor, match=why):
        tr.from_openvino(TWO)
    away = tr.from_openvino(TWO, name="Round_3")
    assert (away.mode, away.shape) == ("half_away_from_zero", (2, 3))
    with pytest.raises(tr.InvalidDescriptor, match=r'called "Round_4"; there are Round_3'):
        tr.from_openvino(TWO, name="Round_4")
    with pytest.raises(tr.InvalidDescriptor, match="has 2 operator that rounds called"):
        tr.from_openvino(NET.replace(LAYER, LAYER * 2), name="Round_3")
    with pytest.raises(tr.InvalidDescriptor, match="exactly one operator that rounds, got 0"):
        tr.from_openvino("<net><layers/></net>")
    for count, end in ((8, "Round_7"), (9, "Round_7, 1 more"), (1009, "Round_7, 1,001 more")):
        many = NET.replace(LAYER, "".join(LAYER.replace("_3", f"_{i}") for i in range(count)))
        with pytest.raises(tr.InvalidDescriptor, match=rf", Round_6, {end}\): choose by name="):
            tr.from_openvino(many)
    with pytest.raises(tr.InvalidArgument, match="this is one operator alone"):
        tr.from_openvino(LAYER, name="Round_3")


def layer(body: str = "", **attributes: str) -> str:
    stated = {"type": "Round", "version": "opset5", **attributes}
    return f"<layer {' '.join(f'{k}={v!r}' for k, v in stated.items())}>{body}</layer>"


def dim(text: str) -> str:
    return LAYER.replace("<dim>3", f"<dim>{text}")


def output(old: str, new: str) -> str:
    before, _, after = LAYER.partition("<output>")
    return f"{before}<output>{after.replace(old, new)}"


PORT = '<port id="0" precision="FP32"><dim>4</dim></port>'
_DOCTYPE = "must not have a document type"
REFUSED: dict[str, tuple[str | bytes, str]] = {
    "no XML": ("<>", "not XML"),
    "cut": ("<layer", "not XML"),
    "surrogate": (layer("\ud800"), "not XML"),
    "unknown entity": (layer("&x;"), "not XML: undefined entity"),
    "encoding": (b'<?xml version="1.0" encoding="klingon"?><layer/>', "unknown encoding"),
    "encoding of several bytes": (
        b'<?xml version="1.0" encoding="euc-jp"?><layer/>',
        "unknown encoding",
    ),
    "a port": ("<port/>", 'must be one layer, Round or .* or Convert, or a net, got "port"'),
    "another type": (layer(type="Abs"), 'type: got "Abs"; .* takes Round, Floor, Ceiling, Convert'),
    "a Floor's mode": (layer('<data mode="up"/>', type="Floor", version="opset1"), "data: unknown"),
    "no target": (layer(type="Convert", version="opset1"), "data: is required"),
    "a boolean target": (
        layer('<data destination_type="boolean"/>', type="Convert", version="opset1"),
        "a conversion of boolean rounds nothing",
    ),
    "another target": (
        layer(
            f'<data destination_type="f16"/><output>{PORT}</output>',
            type="Convert",
            version="opset1",
        ),
        "output.port.precision: openvino: must equal the destination_type",
    ),
    "another version": (layer(version="opset1"), "version: must be 'opset5'"),
    "no type": ("<layer/>", "type: is required"),
    "attribute": (layer('<data mode="half_to_even" axis="1"/>'), "data.axis: unknown field"),
    "two datas": (layer("<data/><data/>"), "one data at most"),
    "no port": (layer("<input/>"), "input: openvino: the layer has exactly one port"),
    "two ports": (layer(f"<input>{PORT}{PORT}</input>"), "exactly one port here, got 2"),
    "dim": (dim("x"), 'input.port.dim.1: .* got "x"'),
    "negative": (dim("-2"), "of at least 0, or -1"),
    "vast": (dim("9" * 20), "of at least 0, or -1"),
    "beyond": (dim("9" * 19), "input.shape.1"),
    "types differ": (output("FP16", "FP32"), "output.port.precision: .* must equal the input's"),
    "shapes differ": (output("<dim>3", "<dim>4"), "output.port.dim: .* must equal the input's"),
    "boolean": (LAYER.replace("FP16", "BOOL"), 'got "boolean"; openvino Round-5 takes f16'),
    "storage codes": (LAYER.replace("FP16", "BIN"), "got u1: its elements are storage"),
    "F8E8M0": (LAYER.replace("FP16", "F8E8M0"), "not closed under rounding"),
    "doctype": ("<!DOCTYPE layer>" + layer(), _DOCTYPE),
    "entity": ('<!DOCTYPE l [<!ENTITY a "a"><!ENTITY b "&a;&a;">]>' + layer("&b;"), _DOCTYPE),
    "external": ('<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/x">]>' + layer("&x;"), _DOCTYPE),
}


@pytest.mark.parametrize(("text", "why"), REFUSED.values(), ids=REFUSED)
def test_anything_else_is_refused(text: str | bytes, why: str) -> None:
    with pytest.raises(tr.InvalidDescriptor, match=why):
        tr.from_openvino(text)


def test_every_fault_of_a_layer_is_reported() -> None:
    floor = LAYER.replace('"opset5"', '"opset1"').replace("half_away_from_zero", "up")
    with pytest.raises(tr.InvalidDescriptor) as caught:
        tr.from_openvino(floor)
    assert {fault.loc for fault in caught.value.faults} == {("version",), ("data", "mode")}


def test_value_of_another_type_is_refused() -> None:
    argument: Any = {"type": "Round"}
    with pytest.raises(tr.InvalidArgument, match=r"XML as str or bytes, .*, got an object"):
        tr.from_openvino(argument)


def test_longest_text_is_read_and_a_longer_one_refused() -> None:
    assert tr.from_openvino(layer().ljust(MAX_LENGTH)) == tr.OpenVINORound()
    with pytest.raises(tr.InvalidDescriptor, match="at most 67108864 bytes"):
        tr.from_openvino(layer().ljust(MAX_LENGTH + 1))
