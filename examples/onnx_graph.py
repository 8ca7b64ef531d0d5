"""Check every Round node of an ONNX model against the exact result.

``python onnx_graph.py model.onnx x.npz`` checks yours, with its inputs by their names; without
arguments a model of two nodes. For several runtimes, and casts and quantization too, there is a
command: ``tensor-round verify model.onnx --input x.npz --runtime onnxruntime``.
"""

# needs onnx
import os
import sys

import numpy as np
import onnx
import onnx.parser
from onnx.reference import ReferenceEvaluator

import tensor_round as tr

if len(sys.argv) == 3:
    model, inputs = onnx.load(sys.argv[1]), dict(np.load(sys.argv[2]))
elif len(sys.argv) == 1:
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 22]>
        example (float[N] x) => (float[N] y) <float scale = {0.25}> {
            [quantize] r = Round (x)
            [dequantize] y = Mul (r, scale)
        }""")
    inputs = {"x": np.array([-2.5, -0.3, 0.5, 1.5, 2.5, 8388609], np.float32)}
else:
    sys.exit("usage: python onnx_graph.py [model.onnx x.npz]")
opset = next(entry for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
rounds = [node for node in model.graph.node if node.op_type == "Round"]
if not rounds:
    sys.exit(f"{sys.argv[1]} has no Round")

# The evaluator returns what goes into and what comes out of each Round node.
known = {value.name for value in (*model.graph.input, *model.graph.output)}
for name in {name for node in rounds for name in (*node.input, *node.output)} - known:
    model.graph.output.append(onnx.ValueInfoProto(name=name))
names = [value.name for value in model.graph.output]
values = {**inputs, **dict(zip(names, ReferenceEvaluator(model).run(None, inputs), strict=True))}

wrong = 0
with tr.Client(os.environ.get("TENSOR_ROUND_URL", "http://127.0.0.1:8000")) as client:
    for node in rounds:
        exact = client.round(values[node.input[0]], tr.from_onnx(node, opset))
        got = values[node.output[0]]
        is_right = got.tobytes() == exact.tobytes()
        wrong += not is_right
        print(node.name or node.output[0], got, "right" if is_right else f"wrong, want {exact}")
sys.exit(1 if wrong else 0)
