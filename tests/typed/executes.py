"""Code that uses descriptors, and how strict type checkers see it: ``make types`` reads it."""

from __future__ import annotations

from typing import assert_type

import numpy as np

import tensor_round as tr

tensor = tr.BufferTensorDesc(
    DataType="FLOAT32",
    Sizes=[2, 3],
    Strides=(1, 2),
    TotalTensorSizeInBytes=40,
    GuaranteedBaseOffsetAlignment=16,
    Flags=1,
)
descriptor = tr.DirectMLDescriptor(
    feature_level=0x3000,
    type="DML_OPERATOR_ELEMENT_WISE_ROUND",
    desc=tr.ElementWiseRoundDesc(InputTensor=tensor, OutputTensor=tensor, RoundingMode=2),
)
onnx = tr.OnnxDescriptor(
    op_type="Round", opset_version=22, input=tr.OnnxTensor(elem_type="FLOAT", shape=(2, 3))
)
openvino = tr.OpenVINODescriptor(
    type="Round",
    data=tr.OpenVINOData(mode="half_to_even"),
    input=tr.OpenVINOTensor(element_type="f32", shape=[2, 3]),
)
ieee754 = tr.IEEE754Descriptor(
    input=tr.IEEE754Tensor(dtype="float32", shape=np.zeros((2, 3)).shape, strides=[3, 1])
)
assert_type(tr.from_dxdispatch("model.json").descriptor(), tr.DirectMLDescriptor)
assert_type(tr.from_openvino(b"<layer/>").descriptor(np.float32), tr.OpenVINODescriptor)
assert_type(tr.OnnxRound().descriptor("float16", [2]), tr.OnnxDescriptor)
assert_type(tr.IEEE754Round().descriptor(np.dtype("f4"), ()), tr.IEEE754Descriptor)


def executed(client: tr.Client) -> int:
    """With every form of a descriptor and of data."""
    x = np.zeros((2, 3), np.float32)
    for form in (descriptor, onnx, openvino, ieee754, {"dialect": "onnx"}, "{}", b"{}"):
        result = client.execute(form, x, out=bytearray(24), progress=True)
        assert_type(result, tr.Output)
        assert_type(result.data, memoryview)
        assert_type(result.layout.shape, tuple[int, ...])
    return client.execute(onnx, b"").layout.byte_length


async def awaited(client: tr.AsyncClient) -> bytes:
    """The same, awaited."""
    result = await client.execute(openvino, memoryview(b""), out=np.zeros(3))
    assert_type(result, tr.Output)
    return result.data.tobytes()


# What type checkers must refuse.
tr.OnnxTensor(elem_type="FLOAT", shape="23")  # type: ignore[arg-type]  # pyright: ignore
tr.OnnxTensor(elem_type="FLOAT")  # type: ignore[call-arg]  # pyright: ignore
tr.Client("x").execute(7, b"")  # type: ignore[arg-type]  # pyright: ignore
