"""Round layers of OpenVINO's IR: alone and in a model, what they state, and their limits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import tensor_round as tr
from tensor_round.contract.operators.importers.openvino_layer import MAX_LENGTH
from tensor_round.contract.operators.importers.sources import read_file

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


@pytest.mark.parametrize("make", [Path, str])
def test_a_file_is_read(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    path = tmp_path / "model.xml"
    with pytest.raises(tr.InvalidArgument, match=r"model\.xml cannot be read: No such file"):
        tr.from_openvino(make(path))
    path.write_text(NET)
    assert tr.from_openvino(make(path)).shape == (2, 3)


def test_a_file_is_read_to_one_byte_beyond_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"12345678")
    assert read_file(path) == read_file(path, 8) == b"12345678"
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


def test_one_of_several_rounds_is_chosen_by_name() -> None:
    why = r"exactly one Round, got 2 \(Round_3, Round_5\): choose by name="
    with pytest.raises(tr.InvalidDescriptor, match=why):
        tr.from_openvino(TWO)
    away = tr.from_openvino(TWO, name="Round_3")
    assert (away.mode, away.shape) == ("half_away_from_zero", (2, 3))
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
    "a port": ("<port/>", 'must be one layer, the Round of an IR, or a net, got "port"'),
    "another type": (layer(type="Floor"), "type: must be 'Round'"),
    "another version": (layer(version="opset1"), "version: must be 'opset5'"),
    "no type": ("<layer/>", "type: is required"),
    "attribute": (layer('<data mode="half_to_even" axis="1"/>'), "data.axis: unknown field"),
    "two datas": (layer("<data/><data/>"), "one data at most"),
    "no port": (layer("<input/>"), "input: openvino Round-5: a Round has exactly one port"),
    "two ports": (layer(f"<input>{PORT}{PORT}</input>"), "exactly one port here, got 2"),
    "dim": (dim("x"), 'input.port.dim.1: .* got "x"'),
    "negative": (dim("-2"), "of at least 0, or -1"),
    "vast": (dim("9" * 20), "of at least 0, or -1"),
    "beyond": (dim("9" * 19), "input.shape.1"),
    "types differ": (output("FP16", "FP32"), "output.port.precision: .* must equal the input's"),
    "shapes differ": (output("<dim>3", "<dim>4"), "output.port.dim: .* must equal the input's"),
    "boolean": (LAYER.replace("FP16", "BOOL"), 'got "boolean"; openvino Round-5 takes f16'),
    "storage codes": (LAYER.replace("FP16", "BIN"), "got u1: .* less than a byte"),
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
    floor = LAYER.replace('"Round"', '"Floor"').replace("half_away_from_zero", "up")
    with pytest.raises(tr.InvalidDescriptor) as caught:
        tr.from_openvino(floor)
    assert {fault.loc for fault in caught.value.faults} == {("type",), ("data", "mode")}


def test_value_of_another_type_is_refused() -> None:
    argument: Any = {"type": "Round"}
    with pytest.raises(tr.InvalidArgument, match=r"XML as str or bytes, .*, got an object"):
        tr.from_openvino(argument)


def test_longest_text_is_read_and_a_longer_one_refused() -> None:
    assert tr.from_openvino(layer().ljust(MAX_LENGTH)) == tr.OpenVINORound()
    with pytest.raises(tr.InvalidDescriptor, match="at most 67108864 bytes"):
        tr.from_openvino(layer().ljust(MAX_LENGTH + 1))
