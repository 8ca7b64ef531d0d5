"""Check every Round node of an ONNX model against the exact result."""

# needs onnx
import os

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import tensor_round as tr

# A model: y = Round(x) * 0.25. Use onnx.load("model.onnx") for yours.
model = helper.make_model(
    helper.make_graph(
        [
            helper.make_node("Round", ["x"], ["r"], name="quantize"),
            helper.make_node("Mul", ["r", "scale"], ["y"], name="dequantize"),
        ],
        "example",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None])],
        [helper.make_tensor("scale", TensorProto.FLOAT, [1], [0.25])],
    ),
    opset_imports=[helper.make_opsetid("", 22)],
)
opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
rounds = [node for node in model.graph.node if node.op_type == "Round"]

# The evaluator returns what goes into and what comes out of each Round node.
for node in rounds:
    for name in (*node.input, *node.output):
        if name not in {value.name for value in model.graph.input}:
            model.graph.output.append(onnx.ValueInfoProto(name=name))
x = np.array([-2.5, -0.3, 0.5, 1.5, 2.5, 8388609], np.float32)
names = [value.name for value in model.graph.output]
values = {"x": x, **dict(zip(names, ReferenceEvaluator(model).run(None, {"x": x}), strict=True))}

with tr.Client(os.environ.get("TENSOR_ROUND_URL", "http://127.0.0.1:8000")) as client:
    for node in rounds:
        exact = client.round(values[node.input[0]], tr.from_onnx(node, opset))
        got = values[node.output[0]]
        print(node.name, got, "right" if got.tobytes() == exact.tobytes() else "wrong")
