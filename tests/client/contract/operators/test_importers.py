"""Operators read from where other programs write them down, whole."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tensor_round as tr
from tensor_round.contract.operators.importers import dxdispatch, openvino_layer

TENSORS = {
    "InputTensor": {
        "DataType": "FLOAT16",
        "Sizes": [2, 3],
        "Strides": [1, 2],
        "TotalTensorSizeInBytes": 20,
        "GuaranteedBaseOffsetAlignment": 16,
        "Flags": "DML_TENSOR_FLAG_OWNED_BY_DML",
    },
    "OutputTensor": {
        "Type": "BUFFER",
        "Desc": {"DataType": 2, "Sizes": [2, 3], "Strides": [4, 1], "DimensionCount": 2},
    },
}
OPERATOR: dict[str, Any] = {
    "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
    "desc": {**TENSORS, "RoundingMode": "DML_ROUNDING_MODE_TOWARD_ZERO"},
}


def test_dxdispatch_keeps_both_tensors_whole() -> None:
    operator = tr.from_dxdispatch(OPERATOR, feature_level=0x4000)
    descriptor = operator.descriptor()
    source, target = descriptor.desc.InputTensor, descriptor.desc.OutputTensor
    assert isinstance(source, tr.BufferTensorDesc)
    assert (source.Strides, source.TotalTensorSizeInBytes) == ((1, 2), 20)
    assert (source.GuaranteedBaseOffsetAlignment, source.Flags) == (16, "OWNED_BY_DML")
    assert target.buffer[0].Strides == (4, 1)
    assert (descriptor.feature_level, descriptor.desc.RoundingMode) == ("4_0", "TOWARD_ZERO")
    sent = json.loads(descriptor.to_json())
    assert sent["desc"]["InputTensor"] == {**TENSORS["InputTensor"], "Flags": "OWNED_BY_DML"}
    assert sent["desc"]["OutputTensor"]["Desc"]["Strides"] == [4, 1]


def test_imported_operator_rounds_any_tensor() -> None:
    operator = tr.from_dxdispatch(OPERATOR)
    assert operator == tr.DirectMLRound("TOWARD_ZERO")
    descriptor = operator.descriptor(np.float32, (7,))
    assert descriptor == tr.DirectMLRound("TOWARD_ZERO").descriptor("float32", [7])
    with pytest.raises(tr.InvalidArgument, match="shape is needed"):
        operator.descriptor("float32")
    with pytest.raises(tr.InvalidArgument, match="dtype is needed"):
        tr.DirectMLRound().descriptor()


RELAXED = """
// As people write it.
{
  "dispatchables": {
    "round": { /* one, */
      "type": "ELEMENT_WISE_ROUND", // ]}
      "Desc": DESC,
    },
  },
  "note": "no // comment, no /* comment */, and \\",] no last comma,}",
}
""".replace("DESC", json.dumps(OPERATOR["desc"]))


def test_dxdispatch_s_comments_last_commas_and_desc(tmp_path: Path) -> None:
    expected = tr.from_dxdispatch(OPERATOR).descriptor()
    file = tmp_path / "model.json"
    file.write_text(RELAXED)
    for document in (RELAXED, RELAXED.encode(), file, str(file)):
        assert tr.from_dxdispatch(document).descriptor() == expected


BAD_DXDISPATCH: dict[str, tuple[Any, type[tr.TensorRoundError], str]] = {
    "no-file": ("no/such/file.json", tr.InvalidArgument, "no/such/file.json cannot be read: No"),
    "a-folder": (Path("/"), tr.InvalidArgument, "cannot be read"),
    "no-path": ("a\0b", tr.InvalidArgument, "cannot be read"),
    "both-descs": ({**OPERATOR, "Desc": {}}, tr.InvalidDescriptor, "there is a desc, too"),
    "no-end-of-comment": ("{ /* ", tr.MalformedJSON, "not JSON"),
    "no-end-of-string": ('{"', tr.MalformedJSON, "not JSON"),
    "two-commas": ('{"type": 99,,}', tr.MalformedJSON, "not JSON"),
    "a-comma-alone": ("[,]", tr.MalformedJSON, "not JSON"),
    "latin-1": (b'{"\xe9": 1}', tr.MalformedJSON, "not UTF-8 at byte 2"),
    "deep": ("[" * 99, tr.MalformedJSON, "nests deeper"),
    "long": ("{" + " " * dxdispatch.MAX_LENGTH, tr.MalformedJSON, "more than"),
    "arrays": (f"[{'[],' * (1 << 16)}]", tr.MalformedJSON, "more than 65536 arrays"),
    "arrays-at-the-limit": (
        f"[{'[],' * ((1 << 16) - 1)}]",
        tr.InvalidDescriptor,
        "must be a JSON object",
    ),
    "a-number": (7, tr.InvalidDescriptor, "must be a JSON object"),
    "no-strides-of-an-output": (
        {**OPERATOR, "desc": {**OPERATOR["desc"], "OutputTensor": {**TENSORS["InputTensor"]}}},
        tr.InvalidDescriptor,
        "OWNED_BY_DML is for inputs only",
    ),
}


@pytest.mark.parametrize(("document", "kind", "why"), BAD_DXDISPATCH.values(), ids=BAD_DXDISPATCH)
def test_invalid_dxdispatch_is_refused(
    document: Any, kind: type[tr.TensorRoundError], why: str
) -> None:
    with pytest.raises(kind, match=why):
        tr.from_dxdispatch(document)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "text", ['{"' + '\\"' * 200_000, "{" + "/*" * 200_000, "{" + '"a' * 99_999]
)
def test_relaxed_json_is_read_in_linear_time(text: str) -> None:
    with pytest.raises(tr.MalformedJSON):
        tr.from_dxdispatch(text)


#: Begin, part and end of texts of 5 MB, by what takes memory for each part of them.
LARGE = {
    "a-string": ('{"a": "', "x", '"}'),
    "escapes": ('{"a": "', '\\"', '"}'),
    "no-end": ('{"', "x", ""),
    "strings": ("[", '"",', "]"),
    "comments": ("[", "1,/**/", "]"),
    "arrays": ("[", "[],", "]"),
    "objects": ("[", "{},", "]"),
}
READER = """
import sys
import tensor_round as tr
text = sys.stdin.read()
def peak():  # getrusage has the most of the process that it was forked from, too
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM"))
try:
    tr.from_dxdispatch("{}")
except tr.InvalidDescriptor:
    before = peak()
try:
    tr.from_dxdispatch(text)
except tr.TensorRoundError:
    print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="of its memory Linux tells in KiB")
@pytest.mark.parametrize(("begin", "part", "end"), LARGE.values(), ids=LARGE)
def test_large_dxdispatch_takes_little_memory(begin: str, part: str, end: str) -> None:
    """A few copies of the text, in MiB, and nothing for each character."""
    text = begin + part * (5_000_000 // len(part)) + end
    done = subprocess.run(
        [sys.executable, "-c", READER], input=text, stdout=subprocess.PIPE, text=True, check=True
    )
    assert 10 < int(done.stdout) < 50


LAYER = """
<layer id="3" name="Round_3" type="Round" version="opset5">
    <data mode="half_away_from_zero"/>
    <rt_info><attribute name="fused_names" version="0" value="Round_3"/></rt_info>
    <input>
        <port id="0" precision="{precision}"><dim>2</dim><dim>{dim}</dim></port>
    </input>
    <output>
        <port id="1" precision="{precision}" names="y"><dim>2</dim><dim>{dim}</dim></port>
    </output>
</layer>
"""
PRECISIONS = {
    **{"FP16": "float16", "BF16": "bfloat16", "FP32": "float32", "FP64": "float64"},
    **{"F8E4M3": "float8_e4m3fn", "F8E5M2": "float8_e5m2", "I8": "int8", "U64": "uint64"},
    "f32": "float32",
}


@pytest.mark.parametrize(("precision", "dtype"), PRECISIONS.items(), ids=PRECISIONS)
def test_a_layer_states_its_tensor(precision: str, dtype: str) -> None:
    text = LAYER.format(precision=precision, dim=3)
    for layer in (text, text.encode(), '<?xml version="1.0"?>' + text.strip()):
        operator = tr.from_openvino(layer)
        assert operator == tr.OpenVINORound("half_away_from_zero")
        descriptor = operator.descriptor()
        assert descriptor.mode == "half_away_from_zero"
        call = descriptor.resolve()
        assert (call.input.dtype.name, call.input.shape) == (dtype, (2, 3))
        assert operator.descriptor(np.int8, [5]).resolve().input.shape == (5,)


def test_missing_parts_of_a_layer_have_defaults_or_are_asked_for() -> None:
    bare = tr.from_openvino('<layer type="Round"/>')
    assert bare.mode == "half_to_even"
    with pytest.raises(tr.InvalidArgument, match="dtype is needed"):
        bare.descriptor()
    dynamic = tr.from_openvino(LAYER.format(precision="FP32", dim=-1))
    with pytest.raises(tr.InvalidArgument, match="shape is needed"):
        dynamic.descriptor()
    assert dynamic.descriptor(shape=(2, 9)).input.element_type == "f32"
    untyped = tr.from_openvino(
        '<layer type="Round"><data mode="half_to_even"/><input><port id="0"><dim>256</dim></port>'
        '</input><output><port id="1"><dim>256</dim></port></output></layer>'
    )
    assert untyped.descriptor("float16").input.shape == (256,)
    scalar = tr.from_openvino('<layer type="Round"><input><port precision="I8"/></input></layer>')
    assert scalar.descriptor().resolve().input.shape == ()


def layer(body: str = "", **attributes: str) -> str:
    told = {"type": "Round", "version": "opset5", **attributes}
    return f"<layer {' '.join(f'{k}={v!r}' for k, v in told.items())}>{body}</layer>"


PORT = '<port id="0" precision="FP32"><dim>4</dim></port>'
BAD_LAYERS: dict[str, tuple[Any, str]] = {
    "no-xml": ("<>", "not XML"),
    "cut": ("<layer", "not XML"),
    "two": (layer() * 2, "not XML"),
    "nothing": ("", "not XML"),
    "a-port": ("<port/>", 'must be one layer, the Round of an IR, or a net, got "port"'),
    "other-type": (layer(type="Floor"), "type: must be 'Round'"),
    "other-version": (layer(version="opset1"), "version: must be 'opset5'"),
    "no-type": ("<layer/>", "type: is required"),
    "upper-case": (layer('<data mode="HALF_TO_EVEN"/>'), "data.mode: .* openvino Round-5 takes"),
    "attribute": (layer('<data mode="half_to_even" axis="1"/>'), "data.axis: unknown field"),
    "two-datas": (layer("<data/><data/>"), "one data at most"),
    "no-port": (layer("<input/>"), "input: openvino Round-5: a Round has exactly one port"),
    "two-ports": (layer(f"<input>{PORT}{PORT}</input>"), "exactly one port here, got 2"),
    "two-outputs": (layer(f"<output>{PORT}</output>" * 2), "exactly one port here, got 2"),
    "dim": (layer(f"<input>{PORT.replace('4', 'x')}</input>"), 'input.port.dim.0: .* got "x"'),
    "negative": (layer(f"<input>{PORT.replace('4', '-2')}</input>"), "of at least 0, or -1"),
    "vast": (layer(f"<input>{PORT.replace('4', '9' * 20)}</input>"), "of at least 0, or -1"),
    "beyond": (layer(f"<input>{PORT.replace('4', '9' * 19)}</input>"), "input.shape.0"),
    "types-differ": (
        layer(f"<input>{PORT}</input><output>{PORT.replace('FP32', 'FP16')}</output>"),
        "output.port.precision: .* must equal the input's",
    ),
    "shapes-differ": (
        layer(f"<input>{PORT}</input><output>{PORT.replace('4', '5')}</output>"),
        "output.port.dim: .* must equal the input's",
    ),
    "boolean": (LAYER.format(precision="BOOL", dim=3), 'got "boolean"; openvino Round-5 takes f16'),
    "i4": (LAYER.format(precision="I4", dim=3), "less than a byte"),
    "u1": (LAYER.format(precision="BIN", dim=3), "got u1: .* less than a byte"),
    "nf4": (LAYER.format(precision="NF4", dim=3), "less than a byte"),
    "f8e8m0": (LAYER.format(precision="F8E8M0", dim=3), "not closed under rounding"),
    "doctype": ("<!DOCTYPE layer>" + layer(), "must not have a document type"),
    "entity": (
        '<!DOCTYPE l [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + layer("&b;"),
        "must not have a document type",
    ),
    "external": (
        '<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + layer("&x;"),
        "must not have a document type",
    ),
    "unknown-entity": (layer("&x;"), "not XML: undefined entity"),
    "deep": (layer("<a>" * 99), "nests deeper than 16"),
    "long": (layer(" " * openvino_layer.MAX_LENGTH), "at most 65536 bytes"),
    "encoding": (b'<?xml version="1.0" encoding="klingon"?><layer/>', "unknown encoding"),
    "surrogate": (layer("\ud800"), "not XML"),
    "rank-33": (layer(f"<input><port>{'<dim>1</dim>' * 33}</port></input>"), "at most 32"),
}


@pytest.mark.parametrize(("text", "why"), BAD_LAYERS.values(), ids=BAD_LAYERS)
def test_invalid_layer_is_refused(text: Any, why: str) -> None:
    with pytest.raises(tr.InvalidDescriptor, match=why):
        tr.from_openvino(text)


def test_a_layer_is_a_path_text_or_an_element() -> None:
    argument: Any = {"type": "Round"}
    with pytest.raises(tr.InvalidArgument, match=r"XML as str or bytes, .*, got an object"):
        tr.from_openvino(argument)


def test_a_node_keeps_its_domain() -> None:
    node = SimpleNamespace(op_type="Round", domain="ai.onnx", attribute=[], input=[1], output=[1])
    operator = tr.from_onnx(node, 21)
    assert operator == tr.OnnxRound(21)
    assert operator.descriptor("float16", (2,)).domain == "ai.onnx"
    assert json.loads(operator.descriptor("float16", (2,)).to_json())["domain"] == "ai.onnx"
    with pytest.raises(tr.InvalidArgument, match=r"one of model.graph.node, or a model, got 7"):
        tr.from_onnx(7, 21)
    node.op_type = "Abs"
    with pytest.raises(tr.InvalidDescriptor, match='op_type: onnx: Round is read, got "Abs"'):
        tr.from_onnx(node, 21)
