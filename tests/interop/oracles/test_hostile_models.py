"""Models of strangers: each ends in one line, at the time limit at the latest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tensor_round_verify import CannotVerify, verify_model

X = np.array([-2.5, 0.5], np.float32)
IMPORTS = [helper.make_opsetid("", 22), helper.make_opsetid("local", 1)]


# Any: onnx has no annotations.
def model(nodes: list[Any], stored: list[Any] = [], functions: list[Any] = []) -> bytes:  # noqa: B006
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N"]) for name in "xy")
    graph = helper.make_graph([ROUND, *nodes], "g", [x], [y], stored)
    made = helper.make_model(graph, opset_imports=IMPORTS, ir_version=10, functions=functions)
    serialized: bytes = made.SerializeToString()
    return serialized


ROUND = helper.make_node("Round", ["x"], ["y"])


def stored(data_type: int, dims: list[int], data: bytes) -> bytes:
    """A model whose initializer says of its data what is not so."""
    return model([], [TensorProto(name="w", data_type=data_type, dims=dims, raw_data=data)])


def of(operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> bytes:
    return model([helper.make_node(operator, inputs, outputs, **attributes)])


INVALID: dict[str, tuple[bytes, str]] = {
    "short-data": (stored(1, [8], b"\0\0\0\0"), "initializer w: ValueError"),
    "odd-data": (stored(1, [8], b"\0"), "initializer w: ValueError"),
    "unknown-type": (stored(999, [1], b"\0"), "initializer w: KeyError: 999"),
    "no-type": (stored(0, [1], b"\0"), "initializer w: TypeError"),
    "huge": (stored(1, [1 << 40, 1 << 40], b"\0\0\0\0"), "initializer w: ValueError"),
    "negative": (stored(1, [-1], b"\0\0\0\0"), "initializer w: it has a negative dimension"),
    "cast-without-to": (of("Cast", ["x"], ["c"]), "Cast c: it needs the attribute to"),
    "cast-to-nothing": (of("Cast", ["x"], ["c"], to=12345), "Cast c: ValueError: .*12345"),
    "cast-to-text": (of("Cast", ["x"], ["c"], to="FLOAT"), "Cast c: TypeError"),
    "cast-to-several": (of("Cast", ["x"], ["c"], to=[1, 2]), "Cast c: TypeError"),
    "no-input": (of("Round", [], ["r"]), "Round r: it needs an input"),
    "empty-input": (of("Round", [""], ["r"]), "Round r: it needs an input"),
    "no-output": (of("Round", ["x"], []), "Round: it needs an output"),
    "no-type-to-cast-like": (of("CastLike", ["x"], ["c"]), "CastLike c: it needs two inputs"),
    "no-scale": (of("QuantizeLinear", ["x"], ["q"]), "QuantizeLinear q: it needs two inputs"),
    "axes": (of("DequantizeLinear", ["x", "x"], ["q"], axis=[1]), "Linear q: TypeError"),
    "unknown-tensor": (of("Round", ["nothing"], ["r"]), "failed on the model: .*nothing"),
}


def saved(folder: Path, content: bytes) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(("content", "why"), INVALID.values(), ids=INVALID)
def test_an_invalid_model_is_rejected_by_name(tmp_path: Path, content: bytes, why: str) -> None:
    path = saved(tmp_path, content)
    with pytest.raises(CannotVerify, match=why) as caught:
        verify_model(path, X, ["onnx-reference"])
    assert "\n" not in caught.value.detail


def loop() -> bytes:
    """2^60 times nothing, before a Round."""
    i, c, a, d, b = (
        helper.make_tensor_value_info(name, kind, [] if kind != TensorProto.FLOAT else ["N"])
        for name, kind in zip("icadb", (7, 9, 1, 9, 1), strict=True)
    )
    same = [helper.make_node("Identity", [x], [y]) for x, y in ("cd", "ab")]
    body = helper.make_graph(same, "body", [i, c, a], [d, b])
    endless = helper.make_node("Loop", ["times", "yes", "x"], ["l"], body=body)
    times = helper.make_tensor("times", TensorProto.INT64, [], [1 << 60])
    yes = helper.make_tensor("yes", TensorProto.BOOL, [], [True])
    return model([endless, helper.make_node("Round", ["l"], ["r"])], [times, yes])


def doubling() -> bytes:
    """A function that calls another twice, which calls another twice, 24 times."""
    functions = []
    for depth in range(24):
        called, domain = (f"f{depth - 1}", "local") if depth else ("Round", "")
        nodes = [helper.make_node(called, [x], [y], domain=domain) for x, y in ("ab", "bc")]
        functions.append(helper.make_function("local", f"f{depth}", "a", "c", nodes, IMPORTS))
    return model([helper.make_node("f23", ["x"], ["f"], domain="local")], [], functions)


ENDLESS = [
    *((loop, runtime) for runtime in ("onnxruntime", "onnx-reference", "openvino", "numpy")),
    (doubling, "onnxruntime"),
]


@pytest.mark.parametrize(("make", "runtime"), ENDLESS)
def test_a_model_without_end_ends_at_the_limit(
    tmp_path: Path, make: Callable[[], bytes], runtime: str
) -> None:
    path = saved(tmp_path, make())
    # A busy machine may need this long to read the model alone.
    with pytest.raises(CannotVerify, match=r"(reading|running) .* did not finish within 8 s"):
        verify_model(path, X, [runtime], timeout=8)


def test_an_ir_that_is_cut_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    for text in (
        "<net",
        "<net/>",
        '<net version="11"><layers><layer id="0" type="Round"/></layers></net>',
    ):
        path.write_text(text)
        with pytest.raises(CannotVerify, match=r"model\.xml (is not a|has no)"):
            verify_model(path, {}, ["openvino"])
