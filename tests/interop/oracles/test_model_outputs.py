"""Models as they run: the outputs of the unchanged model, in the runtimes that run it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import onnx.parser
import openvino as ov
import pytest
from openvino import opset5

from tensor_round_verify import verify_model

X = np.array([-2.5, -0.3, 0.5, 1.5, 5, 8388609, 70000], np.float32)
VERIFY = ("verify", "model.onnx", "--input", "x.npz", "--runtime")


def saved(text: str, folder: Path) -> Path:
    onnx.save(onnx.parser.parse_model(text), folder / "model.onnx")
    return folder / "model.onnx"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tensor_round", *VERIFY, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=110)


#: Models whose outputs differ from what their nodes say when each is looked at alone; their inputs.
PAIR = """<ir_version: 10, opset_import: ["": 21]>
    g (float[2] x) => (float[2] y) { [down] c = Cast <to = 10> (x) [up] y = Cast <to = 1> (c) }"""
MOVED = """<ir_version: 10, opset_import: ["": 21]>
    g (float[6] x) => (float[3, 2] y) <int64[2] s = {2, 3}> {
        [down] c = Cast <to = 10> (x) [shape] r = Reshape (c, s)
        [turn] t = Transpose <perm = [1, 0]> (r) [up] y = Cast <to = 1> (t)
    }"""
ADD = """<ir_version: 10, opset_import: ["": 21]>
    g (uint8[65536] a, uint8[65536] b) => (uint8[65536] c)
    <float as = {0.05}, uint8 az = {128}, float bs = {0.03}, uint8 bz = {120}, float cs = {0.08},
    uint8 cz = {127}> {
        [left] fa = DequantizeLinear (a, as, az) [right] fb = DequantizeLinear (b, bs, bz)
        [sum] fc = Add (fa, fb) [narrow] c = QuantizeLinear (fc, cs, cz)
    }"""
COSINE = """<ir_version: 10, opset_import: ["": 21]>
    g (float16[1] x) => (float16[1] y) { [cosine] c = Cos (x) [floor] y = Floor (c) }"""
ONNX = ["onnxruntime", "onnx-reference"]
BYTES = np.arange(256, dtype=np.uint8)
OTHERWISE: dict[str, tuple[str, dict[str, Any]]] = {
    "pair": (PAIR, {"x": np.float32([1.0003, 2049])}),
    "moved": (MOVED, {"x": np.float32([1.0003, 2049, 2.5, np.nan, -0.3, 70000])}),
    "add": (ADD, {"a": BYTES.repeat(256), "b": np.tile(BYTES, 256)}),
    "cosine": (COSINE, {"x": np.float16([6.27734375])}),
}
WIDER = (
    "alone is right for these operands: the tensor inside is wider than the one that is handed out"
)
FUSED = "the runtime fuses or drops some of"
#: By model and runtime: the wrong nodes and a part of their sentence, and a part of the output's.
TOLD = {
    ("pair", "onnxruntime"): ({}, "2 elements, right"),
    ("pair", "openvino"): (
        {"up": f"2 of 2 wrong, but its own Cast to float32 {WIDER}"},
        f"2 of 2 elements wrong: {FUSED} down, up, and passes on wider tensors than it hands out",
    ),
    ("moved", "onnxruntime"): ({}, "6 elements, right"),
    ("moved", "openvino"): (
        {"up": f"4 of 6 wrong, but its own Cast to float32 {WIDER}"},
        f"4 of 6 elements wrong: {FUSED} down, shape, turn, up, and passes on wider tensors",
    ),
    ("add", "onnxruntime"): (
        {},
        f"6,129 of 65,536 elements wrong: {FUSED} left, right, sum, narrow: right when the tensors "
        "between are asked for; right with graph_optimization_level ORT_DISABLE_ALL",
    ),
    ("add", "openvino"): ({"narrow": " of 65,536 wrong: "}, "wrong: narrow is wrong, see above"),
    **{
        ("cosine", runtime): (
            {"floor": f"1 of 1 wrong, but its own Floor {WIDER}"},
            f"1 of 1 element wrong: {FUSED} cosine, floor, and passes on wider tensors",
        )
        for runtime in ("onnxruntime", "openvino")
    },
}


@pytest.mark.parametrize(("which", "told"), TOLD.items(), ids=map("-".join, TOLD))
def test_a_model_is_judged_as_it_runs(
    tmp_path: Path, which: tuple[str, str], told: tuple[dict[str, str], str]
) -> None:
    name, runtime = which
    text, inputs = OTHERWISE[name]
    report = verify_model(saved(text, tmp_path), inputs, [runtime])
    found = {row.node.name: row.sentence for row in report.verdicts if not row.right}
    assert found.keys() == told[0].keys()
    assert all(part in found[node] for node, part in told[0].items())
    (output,) = report.outputs
    assert told[1] in output.sentence
    assert report.right == output.right == output.sentence.endswith("elements, right")
    data = json.loads(json.dumps(report.as_data()))
    (row,) = data["outputs"]
    assert (row["sentence"], row["right"]) == (output.sentence, output.right)
    assert (row["beside"], row["behind"][-1]) == ("the reference", next(reversed(row["behind"])))
    assert [len(one["first"]) for one in data["outputs"]] == [min(3, output.different)]


def test_the_command_tells_what_a_runtime_fuses(tmp_path: Path) -> None:
    saved(ADD, tmp_path)
    np.savez(tmp_path / "x.npz", **OTHERWISE["add"][1])
    done = run(tmp_path, "onnxruntime", "--junit", "x.xml")
    assert done.returncode == 1
    assert "    [4]: got 4 (0x04), want 3 (0x03)\n" in done.stdout
    assert done.stdout.endswith("not judged, for they neither round nor convert: Add\n")
    assert done.stderr.endswith("3 nodes and 1 output by 1 runtime, 1 of 4 checks failed\n")
    failed = ElementTree.parse(tmp_path / "x.xml").findall(".//failure/..")
    assert [case.get("name") for case in failed] == ["output c"]
    right = run(tmp_path, "onnx-reference")
    assert (right.returncode, right.stdout.count(", right\n")) == (0, 4)


def test_outputs_that_follow_from_no_rule_are_compared_with_the_observed_run(
    tmp_path: Path,
) -> None:
    text = """<ir_version: 10, opset_import: ["": 21]>
        g (float[N] x) => (float[N] y, int64[1] n) {
            r = Round (x) y = Neg (r) n = Shape (x)
        }"""
    report = verify_model(saved(text, tmp_path), X, ["onnxruntime", "openvino"])
    assert {(row.beside, row.sentence) for row in report.outputs} == {
        ("the observed run", "7 elements, the same when the tensors between are asked for"),
        ("the observed run", "1 element, the same when the tensors between are asked for"),
    }


def test_runtimes_that_differ_in_an_output_are_told(tmp_path: Path) -> None:
    report = verify_model(saved(ADD, tmp_path), OTHERWISE["add"][1], ONNX)
    first, second = [row.runtime for row in report.outputs]
    (difference,) = report.differences
    assert (difference.output, difference.runtimes) == ("c", (first, second))
    assert (difference.tried, difference.different) == (65_536, report.outputs[0].different)
    assert f"{first} and {second} differ in 6,129 of 65,536 elements" in " ".join(
        str(report).split()
    )
    assert "; runtimes differ in 1 output" in report.summary
    assert json.loads(json.dumps(report.as_data()))["differences"][0]["output"] == "c"


def test_a_right_output_names_the_nodes_before_it_that_have_no_rule(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["": 21]>
        g (float[N] x) => (float[N] y) {
            [narrow] q, s, z = DynamicQuantizeLinear (x) [wide] f = Cast <to = 1> (q)
            [up] y = Ceil (f)
        }"""
    report = verify_model(saved(text, tmp_path), X, ["onnxruntime"])
    (output,) = report.outputs
    unjudged = "narrow (DynamicQuantizeLinear)"
    assert output.unjudged == (unjudged,)
    assert output.sentence == f"7 elements, right; {unjudged} before it is not judged"


def test_random_outputs_are_not_judged(tmp_path: Path) -> None:
    path = saved(
        """<ir_version: 10, opset_import: ["": 21]>
        g (float[N] x) => (float[N] y, float[N] z) {
            noise = RandomNormalLike (x) a = Add (x, noise) y = Round (a) z = Round (x)
        }""",
        tmp_path,
    )
    report = verify_model(path, {"x": np.zeros(100, np.float32)}, ["onnx-reference"])
    assert report.right
    assert [row.output for row in report.outputs] == ["z"]
    assert [row.why for row in report.lacking] == [
        "it depends on RandomNormalLike, which is random"
    ]


def test_values_that_are_no_tensors_are_not_compared(tmp_path: Path) -> None:
    path = saved(
        """<ir_version: 10, opset_import: ["": 22]>
        g (float[N] x) => (seq(float[N]) q, bool[N] e, float[N] y, string[1] w) {
            y = Round (x) q = SequenceConstruct (y) e = Equal (x, y)
            w = Constant <value_strings = ["text"]> ()
        }""",
        tmp_path,
    )
    report = verify_model(path, {"x": X}, ONNX)
    assert report.right, str(report)
    assert [(row.output, row.tried) for row in report.outputs] == [("e", 7), ("y", 7)] * 2
    assert {row.node for row in report.lacking} == {"q", "w"}


def test_a_node_that_a_runtime_cannot_run_leaves_the_others_verdicts(tmp_path: Path) -> None:
    path = saved(
        """<ir_version: 10, opset_import: ["": 22]>
        g (float[N] x) => (bfloat16[N] z, float[N] y) {
            b = Cast <to = 16> (x) [no_kernel] z = Round (b) y = Round (x)
        }""",
        tmp_path,
    )
    report = verify_model(path, {"x": X}, ONNX)
    judged = {(row.node.name, row.runtime.split()[0], row.in_model) for row in report.verdicts}
    assert judged == {
        ("b", "onnxruntime", False),
        ("y", "onnxruntime", False),
        *((name, "onnx", True) for name in ("b", "no_kernel", "y")),
    }
    assert {row.runtime.split()[0] for row in report.outputs} == {"onnx"}
    assert [row.node for row in report.lacking] == ["no_kernel"]
    assert "Could not find an implementation for Round(22)" in report.unjudged[0].why
    assert (report.wrong, report.right) == (0, False)
    np.savez(tmp_path / "x.npz", x=X)
    assert run(tmp_path, "onnxruntime").returncode == 2


def test_an_ir_whose_casts_are_dropped(tmp_path: Path) -> None:
    x = opset5.parameter([6], ov.Type.f32, name="x")
    up = opset5.convert(opset5.convert(x, "f16", name="down"), "f32", name="up")
    cosine = opset5.cos(opset5.convert(x, "f16", name="half"), name="cosine")
    parts = opset5.split(up, opset5.constant(0), 2, name="parts")
    ends = [up, opset5.floor(cosine, name="floor"), opset5.ceiling(parts.output(1), name="top")]
    path = tmp_path / "model.xml"
    ov.save_model(ov.Model(ends, [x], "g"), path, compress_to_fp16=False)
    given = np.float32([1.0003, 2049, 6.27734375, 2.5, 0.49999, 7])
    report = verify_model(path, {"x": given}, ["openvino"])
    inside = {row.node.name for row in report.verdicts if row.right_alone}
    assert inside == {row.node.name for row in report.verdicts if not row.right} == {"up", "floor"}
    outputs = {row.output: row for row in report.outputs}
    assert {name: row.behind for name, row in outputs.items()} == {
        "up": ("down", "up"),
        "floor": ("half", "cosine", "floor"),
        "top": ("down", "up", "parts", "top"),
    }
    assert [name for name, row in outputs.items() if not row.right] == ["up", "floor"]
