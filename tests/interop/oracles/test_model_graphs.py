"""Models verified node by node in the runtimes that run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import openvino as ov
import pytest
from onnx import numpy_helper
from openvino import opset5

import tensor_round as tr
from support.pages import ROOT, blocks
from tensor_round_verify import CannotVerify, ModelReport, verify_model

#: The Rounds of inputs, of an initializer, of a constant, and casts and quantization.
GRAPH = """
    <ir_version: 10, opset_import: ["": 22]>
    g (float[N] x) => (float[N] y)
    <float s = {0.5}, uint8 z = {3}, float[2] stored = {2.5, -0.3}> {
        a = Mul (x, s)
        [quant_round] r = Round (a)
        down = Floor (a)
        half = Cast <to = 10> (a)
        brain = Cast <to = 16> (a)
        eighth = Cast <to = 17> (a)
        whole = Cast <to = 7> (a)
        wide = Cast <to = 11> (a)
        q = QuantizeLinear (a, s, z)
        d = DequantizeLinear (q, s, z)
        of_stored = Round (stored)
        k = Constant <value_float = 1.5> ()
        of_constant = Round (k)
        of_input = Round (x)
        y = Add (d, r)
    }"""
X = np.array([-2.5, -0.3, 0.5, 1.5, 5, 8388609, 70000], np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(GRAPH), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def wrong(report: ModelReport) -> dict[tuple[str, str], tuple[int, str]]:
    """The wrong verdicts, by node and runtime: the count and the explanation."""
    return {
        (row.node.name, row.runtime.partition(" ")[0]): (
            row.verdict.wrong,
            str(row.verdict.explanation),
        )
        for row in report.verdicts
        if not row.right
    }


def test_onnx_s_own_runtimes_are_right_on_every_node(model: Path) -> None:
    report = verify_model(model, {"x": X}, ["onnxruntime", "onnx-reference", "numpy"])
    assert report.right, str(report)
    judged = {row.node.name for row in report.verdicts if row.in_model}
    assert judged == {
        "quant_round",
        "down",
        "half",
        "brain",
        "eighth",
        "whole",
        "wide",
        "q",
        "d",
        "of_stored",
        "of_constant",
        "of_input",
    }
    by_numpy = [row for row in report.verdicts if row.runtime.startswith("numpy")]
    assert {row.node.name for row in by_numpy} == judged - {"q", "d", "eighth"}
    # The first runtime that runs the model has what reaches NumPy's operators.
    assert {row.source.partition(" ")[0] for row in by_numpy} == {"onnxruntime"}
    assert not [row for row in report.lacking if not row.runtime]


def test_openvino_casts_and_quantizes_otherwise(model: Path) -> None:
    report = verify_model(model, X, ["openvino"])
    found = wrong(report)
    assert found.pop(("eighth", "openvino")) == (2, "this is does not saturate")
    # Its plugin adds half a place to odd patterns alone; floor explains so few elements too.
    assert found.pop(("brain", "openvino")) == (1, "this is floor")
    assert found == {("q", "openvino"): (3, "this is zero point inside")}
    (row,) = [row for row in report.verdicts if row.node.name == "q"]
    assert str(row.first[0]) == (
        "[0]: x -1.25 (0xbfa00000) by scale 0.5 and zero point 3: got 0 (0x00), want 1 (0x01)"
    )


def test_an_operator_alone_gets_the_tensor_of_the_reference_evaluator(model: Path) -> None:
    report = verify_model(model, X, [np.rint])
    (row,) = [row for row in report.verdicts if row.node.name == "quant_round"]
    assert (row.right, row.in_model) == (True, False)
    assert row.source.startswith("onnx ")
    (floor,) = [row for row in report.verdicts if row.node.name == "down"]
    assert floor.note == ""
    assert not floor.right


VERIFY = ("verify", "model.onnx", "--input", "x.npz", "--runtime", "onnxruntime")


def run(model: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What this Python prints beside the model; no service is asked."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=model.parent,
        env={**os.environ, "TENSOR_ROUND_URL": "local:"},
        capture_output=True,
        text=True,
        timeout=110,
    )


def test_the_example_checks_the_model_that_it_is_given(model: Path) -> None:
    np.savez(model.parent / "x.npz", x=X)
    example = str(ROOT / "examples/onnx_graph.py")
    done = run(model, example, "model.onnx", "x.npz")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("quant_round [")
    assert done.stdout.count("] right\n") + done.stdout.count(" 2.0 right\n") == 4
    without = run(model, example, "model.onnx")
    assert without.returncode == 1
    assert "usage: python onnx_graph.py [model.onnx x.npz]" in without.stderr


def saved(text: str, folder: Path) -> Path:
    onnx.save(onnx.parser.parse_model(text), folder / "model.onnx")
    return folder / "model.onnx"


def test_nodes_in_bodies_and_of_other_domains_are_told(tmp_path: Path) -> None:
    path = saved(
        """<ir_version: 10, opset_import: ["": 22, "com.microsoft": 1]>
        g (bool c, float[N] x) => (float[N] y, float[N] v, uint8[N] w, uint8[N] u)
        <float s = {0.5}, uint8 z = {3}> {
            [branch] y = If (c) <
                then_branch = t () => (float[N] a) {
                    [inner] r = Round (x) [narrow] h = Cast <to = 10> (r) a = CastLike (h, x)
                },
                else_branch = e () => (float[N] b) { b = Identity (x) }
            >
            v = Round (x)
            w = com.microsoft.QuantizeLinear (x, s, z)
            u, us, uz = DynamicQuantizeLinear (x)
        }""",
        tmp_path,
    )
    report = verify_model(path, {"c": np.array(True), "x": X}, ["onnxruntime"])
    assert report.right
    assert [row.node.name for row in report.verdicts] == ["v"]
    assert [row.output for row in report.outputs] == ["y", "v", "w", "u"]
    body = "not judged: it is in the body of branch"
    assert [str(row) for row in report.lacking] == [
        f"inner, Round: {body}",
        f"narrow, Cast: {body}",
        f"a, CastLike: {body}",
        "w, QuantizeLinear: not judged: it is of the domain com.microsoft",
        "u, DynamicQuantizeLinear: not judged: no rule is known here for this operator",
    ]
    assert report.others == {"If": 1}


def test_the_page_shows_the_printed_tables(tmp_path: Path) -> None:
    saved(
        """<ir_version: 10, opset_import: ["": 22]>
        g (float[N, 4] x) => (float[N, 4] y) <float s = {0.5}, uint8 z = {3}> {
            [round] r = Round (x)
            [quantize] q = QuantizeLinear (x, s, z)
            [dequantize] d = DequantizeLinear (q, s, z)
            y = Add (r, d)
        }""",
        tmp_path,
    )
    x = np.arange(-1000, 1000, dtype=np.float32).reshape(500, 4) / 16
    np.savez(tmp_path / "x.npz", x=x)
    done = run(tmp_path / "model.onnx", "-m", "tensor_round", *VERIFY, "--runtime", "openvino")
    (page,) = [
        block.text
        for block in blocks("docs/verify.md")
        if "model.onnx --input" in block.text and not block.language
    ]
    versions = re.compile(r"(?<=onnxruntime )[\d.]+|(?<=openvino )[\d.]+")
    shown = page.partition("\n")[2]
    assert versions.sub("", done.stdout) == versions.sub("", shown)


ONNX = ["onnxruntime", "onnx-reference"]
#: The text of a model, its inputs as in a file, runtimes; the elements that each verdict is of.
RIGHT: dict[str, tuple[str, dict[str, Any], list[str], list[int]]] = {
    "of-a-function": (
        """<ir_version: 10, opset_import: ["": 22, "local": 1]>
        g (float[N] x) => (float[N] y) { y = local.twice (x) }
        <domain: "local", opset_import: ["": 22]>
        twice (a) => (c) { b = Add (a, a) c = Round (b) }""",
        {"x": X},
        ONNX[:1],
        [7],
    ),
    "input-of-bfloat16": (
        """<ir_version: 10, opset_import: ["": 22]>
        g (bfloat16[N] x) => (float[N] y) { y = Cast <to = 1> (x) r = Round (y) }""",
        {"x": X.astype(ml_dtypes.bfloat16)},
        [*ONNX, "openvino"],
        [7] * 6,
    ),
    "by-axis": (
        """<ir_version: 10, opset_import: ["": 22]>
        g (float[N, 2] x, float[2] s, int8[2] z) => (int8[N, 2] q, float[N, 2] d)
        { q = QuantizeLinear <axis = 1> (x, s, z) d = DequantizeLinear <axis = 1> (q, s, z) }""",
        {
            "x": np.arange(-40, 40, dtype=np.float32).reshape(40, 2) / 8,
            **{"s": np.float32([0.25, 0.1]), "z": np.int8([1, -3])},
        },
        ONNX,
        [80] * 4,
    ),
    "in-blocks": (
        """<ir_version: 10, opset_import: ["": 22]>
        g (float[2, 8] x, float[2, 2] s, int4[2, 2] z) => (int4[2, 8] q, float[2, 8] d) {
            q = QuantizeLinear <axis = 1, block_size = 4> (x, s, z)
            d = DequantizeLinear <axis = 1, block_size = 4> (q, s, z)
        }""",
        {
            "x": np.arange(-8, 8, dtype=np.float32).reshape(2, 8) / 4,
            "s": np.float32([[0.25, 0.1], [0.3, 0.5]]),
            "z": np.array([[1, -2], [0, 3]], ml_dtypes.int4),
        },
        ONNX,
        [16] * 4,
    ),
    "with-a-precision": (
        """<ir_version: 11, opset_import: ["": 23]>
        g (float[N] x, float s, int16 z) => (int16[N] q)
        { q = QuantizeLinear <precision = 10> (x, s, z) }""",
        {"x": np.float32([2049, 2.5]), "s": np.float32(1), "z": np.int16(0)},
        ONNX,
        [2, 2],
    ),
}


@pytest.mark.parametrize(("text", "inputs", "runtimes", "tried"), RIGHT.values(), ids=RIGHT)
def test_every_node_is_right(
    tmp_path: Path, text: str, inputs: dict[str, Any], runtimes: list[str], tried: list[int]
) -> None:
    np.savez(tmp_path / "x.npz", **inputs)
    report = verify_model(saved(text, tmp_path), tmp_path / "x.npz", runtimes)
    assert report.right
    assert [row.verdict.tried for row in report.verdicts] == tried


BAD: dict[str, tuple[Any, list[str], str]] = {
    "rank": (X.reshape(1, -1), ["onnxruntime"], "onnxruntime .* failed on the model: .*rank"),
    "provider": (X, ["onnxruntime:nothing"], "has no provider nothing"),
}


@pytest.mark.parametrize(("x", "runtimes", "why"), BAD.values(), ids=BAD)
def test_no_verdict(model: Path, x: Any, runtimes: list[str], why: str) -> None:
    with pytest.raises(CannotVerify, match=why):
        verify_model(model, x, runtimes)


@pytest.mark.parametrize("name", ["a.onnx", "a.xml"])
def test_a_file_that_is_no_model(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\xff\xff")
    with pytest.raises(CannotVerify, match=f"{name} is not an? (ONNX )?model"):
        verify_model(tmp_path / name, {}, ["onnxruntime"])


def ir(folder: Path) -> Path:
    x = opset5.parameter([-1, 3], ov.Type.f32, name="x")
    away = opset5.round(x, "half_away_from_zero", name="away")
    narrow = opset5.convert(away, "bf16", name="narrow")
    up = opset5.ceiling(x, name="up")
    whole = opset5.convert(up, "i32", name="whole")
    model = ov.Model([narrow, whole], [x], "g")
    ov.save_model(model, folder / "model.xml", compress_to_fp16=False)
    return folder / "model.xml"


def test_an_ir_with_quantization_alone_is_told_as_such(tmp_path: Path) -> None:
    x = opset5.parameter([4], ov.Type.f32, name="x")
    ends = [opset5.constant(np.float32(end)) for end in (0, 10)]
    narrow = opset5.fake_quantize(x, *ends, *ends, 256, name="narrow")
    path = tmp_path / "model.xml"
    ov.save_model(ov.Model([narrow], [x], "g"), path, compress_to_fp16=False)
    with pytest.raises(CannotVerify, match="has FakeQuantize, which is not judged"):
        verify_model(path, {"x": X[:4]}, ["openvino"])
    up = opset5.ceiling(narrow, name="up")
    ov.save_model(ov.Model([up], [x], "g"), path, compress_to_fp16=False)
    report = verify_model(path, {"x": X[:4]}, ["openvino"])
    assert [str(row) for row in report.lacking] == [
        "narrow, FakeQuantize: not judged: no rule is known here for this operator"
    ]


def test_an_ir_in_openvino_and_its_tensors_elsewhere(tmp_path: Path) -> None:
    path = ir(tmp_path)
    x = np.array([[-2.5, 0.49999997, 0.5], [1.5, 2.5, 8388609]], np.float32)
    report = verify_model(path, {"x": x}, ["openvino", "onnxruntime"])
    assert wrong(report) == {
        ("away", "openvino"): (2, "this is trunc(x + copysign(0.5, x))"),
        ("away", "onnxruntime"): (3, "this is half to even"),
    }
    by_node = {(row.node.name, row.runtime.partition(" ")[0]): row for row in report.verdicts}
    away = by_node["away", "openvino"]
    assert [one.index for one in away.first] == [(0, 1), (1, 2)]
    assert (away.in_model, by_node["up", "onnxruntime"].source) == (True, away.source)
    assert ("narrow", "openvino") in by_node
    assert not [row.node for row in report.lacking if not row.runtime]


def test_an_ir_s_round_is_read_from_its_file(tmp_path: Path) -> None:
    operator = tr.from_openvino(ir(tmp_path))
    assert operator == tr.OpenVINORound("half_away_from_zero")
    assert (operator.dtype, operator.shape) == ("float32", None)


def test_onnx_s_models_in_every_form(model: Path) -> None:
    proto = onnx.load(model)
    forms = [proto, proto.SerializeToString(), model, str(model), GRAPH]
    for form in forms:
        with pytest.raises(tr.InvalidDescriptor, match=r"got 12 \(quant_round, down, half, "):
            tr.from_onnx(form)
        assert tr.from_onnx(form, name="of_input") == tr.OnnxRound(22)
    for opset in (proto.opset_import[0], proto.opset_import[0].version):
        assert tr.from_onnx(proto.graph.node[1], opset) == tr.OnnxRound(22)
        assert tr.from_onnx(proto, opset, name="quant_round") == tr.OnnxRound(22)
    with pytest.raises(tr.InvalidArgument, match="states no opset"):
        tr.from_onnx(proto.graph.node[1])
    for broken in (b"\xff\xff", "a => b"):
        with pytest.raises(tr.InvalidArgument, match="this is not an ONNX model: "):
            tr.from_onnx(broken)


def test_external_data_is_read(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 22]>
        g (float[N] x) => (float[N] y) { a = Add (x, big) y = Round (a) }"""
    )
    proto.graph.initializer.append(numpy_helper.from_array(np.full(7, 0.5, "f4"), "big"))
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, size_threshold=0)
    report = verify_model(path, X, ["onnxruntime", "openvino"])
    assert report.right
    assert len(report.verdicts) == 2
