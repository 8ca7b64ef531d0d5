"""Code that uses the packages, as strict type checkers see it: ``make types`` reads it."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import tensor_round as tr
import tensor_round_verify as conformance

Floats = npt.NDArray[np.float32]


def rounded(client: tr.Client, x: Floats) -> Floats:
    """By every way of naming an operator."""
    assert_type(client.round(x), Floats)
    assert_type(tr.round(x, "onnx"), Floats)
    client.round(x, "ties_to_away")
    client.round(x, rounding="toward_zero", out=x)
    client.round(x, tr.Rounding.TIES_TO_EVEN, progress=print)
    client.round(x, "directml:TOWARD_INFINITY")
    client.round(x, "directml:TOWARD_ZERO:2_1")
    client.round(x, str(np.random.default_rng().choice(["onnx:13", "webnn"])))
    client.round(x, tr.OnnxRound(opset_version=22))
    client.round(x, tr.OpenVINORound(mode="half_away_from_zero"))
    client.round(x, tr.DirectMLRound("TOWARD_ZERO", feature_level="3_0"))
    return client.round(x, tr.DirectMLRound(2, feature_level=0x3000))


async def awaited(x: Floats) -> Floats:
    """The same, awaited."""
    async with tr.AsyncClient("local:", timeout=None) as client:
        return await client.round(x, rounding="ties_to_even")


assert_type(tr.__version__, str)

# What type checkers must refuse.
client, zeros = tr.Client("local:"), np.zeros(3)
client.round(zeros, rounding="half_to_even")  # type: ignore[arg-type]  # pyright: ignore
client.round(zeros, 2)  # type: ignore[arg-type]  # pyright: ignore
print(client.settings)  # type: ignore[attr-defined]  # pyright: ignore
tr.Client("local:", timeout="5")  # type: ignore[arg-type]  # pyright: ignore
tr.Client("local:", tiemout=5)  # type: ignore[call-arg]  # pyright: ignore
tr.Client(["http://a"])  # type: ignore[arg-type]  # pyright: ignore
tr.Client("local:", retries=None)  # type: ignore[arg-type]  # pyright: ignore
tr.IEEE754Round("up")  # type: ignore[arg-type]  # pyright: ignore
tr.OnnxRound(opset_version=10)  # type: ignore[arg-type]  # pyright: ignore
tr.OpenVINORound(mode="HALF_TO_EVEN")  # type: ignore[arg-type]  # pyright: ignore
tr.DirectMLRound("CEIL")  # type: ignore[arg-type]  # pyright: ignore
tr.DirectMLRound(feature_level="1_0")  # type: ignore[arg-type]  # pyright: ignore
tr.OnnxRound().descriptor("float33", [2])  # type: ignore[arg-type]  # pyright: ignore


tensor = tr.BufferTensorDesc(DataType="FLOAT32", Sizes=[2, 3], Strides=(1, 2), Flags=1)
descriptor = tr.DirectMLDescriptor(
    feature_level=0x3000,
    type="DML_OPERATOR_ELEMENT_WISE_ROUND",
    desc=tr.ElementWiseRoundDesc(InputTensor=tensor, OutputTensor=tensor, RoundingMode=2),
)
openvino = tr.OpenVINODescriptor(
    type="Round", input=tr.OpenVINOTensor(element_type="f32", shape=np.zeros((2, 3)).shape)
)
assert_type(
    tr.from_dxdispatch("model.json"),
    tr.DirectMLRound
    | tr.DirectMLFloor
    | tr.DirectMLCeil
    | tr.DirectMLCast
    | tr.DirectMLQuantizeLinear
    | tr.DirectMLDequantizeLinear,
)
assert_type(
    tr.from_openvino(b"<layer/>").descriptor(np.float32),
    tr.OpenVINODescriptor | tr.OpenVINOFloorDescriptor | tr.OpenVINOConvertDescriptor,
)
assert_type(tr.OnnxRound().descriptor("float16", [2]), tr.OnnxDescriptor)
assert_type(tr.IEEE754Round().descriptor(np.dtype("f4"), ()), tr.IEEE754Descriptor)


def executed(client: tr.Client) -> int:
    """With every form of a descriptor and of data."""
    x = np.zeros((2, 3), np.float32)
    for form in (descriptor, openvino, {"dialect": "onnx"}, "{}", b"{}"):
        result = client.execute(form, x, out=bytearray(24), progress=True)
        assert_type(result, tr.Output)
        assert_type(result.data, memoryview)
        assert_type(result.layout.shape, tuple[int, ...])
    return client.execute(openvino, b"").layout.byte_length


async def execution(client: tr.AsyncClient) -> bytes:
    """The same, awaited."""
    result = await client.execute(openvino, memoryview(b""), out=np.zeros(3))
    assert_type(result, tr.Output)
    return result.data.tobytes()


# What type checkers must refuse.
tr.OnnxTensor(elem_type="FLOAT", shape="23")  # type: ignore[arg-type]  # pyright: ignore
tr.OnnxTensor(elem_type="FLOAT")  # type: ignore[call-arg]  # pyright: ignore
tr.Client("x").execute(7, b"")  # type: ignore[arg-type]  # pyright: ignore


x = np.array([-2.5, 0.5], np.float32)
found = tr.compare(x, np.rint(x), progress=print)
assert_type(found, tr.Comparison)
assert_type(found.rounding, str | None)
assert_type(found.exact, bool)
assert_type(tr.compare(x), tr.Differences)
assert_type(tr.compare(x, x.astype(np.int8), scale=0.1, zero_point=3), tr.Comparison)


async def compares(client: tr.Client, asynchronous: tr.AsyncClient) -> None:
    """Both clients, and what a pair is."""
    assert_type(client.compare(x), tr.Differences)
    pair = (await asynchronous.compare(x, progress=True)).pairs[0]
    assert_type(pair.different, int)
    assert_type([row.name for row in pair.classes.values()], list[str])


# What type checkers must refuse.
tr.compare(x, x, "ties_to_even")  # type: ignore[call-overload]  # pyright: ignore


def kernel(x: npt.NDArray[Any]) -> npt.NDArray[Any]:  # of any type of element
    """A function, to be verified."""
    return np.asarray(np.rint(x))


report = conformance.verify(kernel, dtypes=["float16"], roundings=["ties_to_even"], nans="quiet")
assert_type(report, conformance.Report)
assert_type(report.right, bool)
assert_type([verdict.wrong for verdict in report.verdicts], list[int])
conformance.verify("cmd:./kernel", roundings=[tr.Rounding.TIES_TO_AWAY], every=True, progress=print)
assert_type(conformance.complaints(report, conformance.Baseline.of(report)), conformance.Complaints)

# What type checkers must refuse.
conformance.verify(kernel, dtypes=["float31"])  # type: ignore[list-item]  # pyright: ignore
conformance.verify(kernel, roundings=["nearest"])  # type: ignore[list-item]  # pyright: ignore
conformance.verify(kernel, nans="all")  # type: ignore[arg-type]  # pyright: ignore
