"""Arrays quantized and dequantized by both clients: parameters, tiles, outs, lost responses.

Right results are those of the judge's reference, and a few that are known.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import LAYOUTS, bits
from support.cases.every import every
from support.cases.linear_calls import operands_of, right
from support.clients import AnyClient
from support.http.proxy import Fault, Proxy
from support.memory import traced
from support.services.server import Service
from tensor_round.contract.call import Call

X = np.random.default_rng(5).normal(0, 20, 24 * 97).astype(np.float32)
BF16 = ml_dtypes.bfloat16

#: What elements share a scale: the shapes of elements and scales, and the attributes.
GRANULARITIES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, int]]] = {
    "one": ((7, 13, 9), (), {}),
    "one, in a vector": ((60,), (1,), {}),
    "an axis": ((7, 13, 9), (13,), {}),
    "the first axis": ((13, 7, 9), (13,), {"axis": 0}),
    "the last axis": ((7, 13, 9), (9,), {"axis": -1}),
    "a row": ((1, 801), (801,), {}),
    "blocks": ((7, 13, 9), (7, 4, 9), {"block_size": 4}),
    "long blocks": ((131, 5), (2, 5), {"axis": 0, "block_size": 100}),
    "blocks of a row": ((2, 701), (2, 88), {"block_size": 8}),
    "nothing": ((3, 0), (), {}),
}
#: The types of elements, scales and results.
QUANTIZED = (
    ("float32", "float32", "int8"),
    ("float16", "float16", "uint4"),
    ("bfloat16", "float32", "float8_e4m3fn"),
    ("int32", "float32", "int16"),
)
DEQUANTIZED = (
    ("int8", "float32", "float32"),
    ("uint4", "float16", "float32"),
    ("float8_e5m2", "bfloat16", "bfloat16"),
    ("uint16", "float32", "float16"),
)


def typed(bits: Any, layout: Any) -> Any:
    return None if layout is None else bits.view(layout.dtype.numpy)


@cache
def operands(call: Call) -> tuple[Any, Any, Any, Any]:
    """Elements, scales and zero points in one dimension, and the reference's results."""
    drawn, layouts = operands_of(call, 11), call.parameters
    assert layouts is not None
    scales, points = typed(drawn.scale, layouts.scale), typed(drawn.zero_point, layouts.zero_point)
    expected = typed(right(call, drawn), call.output).reshape(call.output.shape)
    return typed(drawn.x, call.input), scales, points, expected


def assert_same(y: Any, expected: Any) -> None:
    assert (type(y), y.dtype, y.shape) == (type(expected), expected.dtype, expected.shape)
    assert np.array_equal(bits(y), bits(expected))


#: Each granularity with types of both kinds. Zero points of floats cost the reference fractions.
CASES = [
    (*granularity, types, number % 4 < 2)
    for number, granularity in enumerate(GRANULARITIES.values())
    for types in (QUANTIZED[number % 4], DEQUANTIZED[number % 4])
]


@pytest.mark.parametrize("place", ["local", "whole", "tiles"])
def test_results_are_the_references(kind: type[AnyClient], service: Service, place: str) -> None:
    def check(case: Any) -> None:
        shape, counts, attributes, (source, scale, to), has_point = case
        is_forth = case[3] in QUANTIZED
        made = tr.OnnxQuantizeLinear if is_forth else tr.OnnxDequantizeLinear
        method = client.quantize if is_forth else client.dequantize
        operator = made(to, **attributes)
        point = (to if is_forth else source, counts) if has_point else None
        call = operator.descriptor(source, shape, (scale, counts), point).resolve()
        x, scales, points, expected = operands(call)
        given = scales.reshape(counts), points if points is None else points.reshape(counts)
        for form in (x, np.asfortranarray(x), x.astype(x.dtype.newbyteorder(">"))):
            assert_same(np.ascontiguousarray(method(form, *given, operator=operator)), expected)
        assert_same(method(x, *given, to=to, **attributes), expected)

    url = "local:" if place == "local" else service.url
    with kind(url, tile_bytes=900 if place == "tiles" else 1 << 20, connections=3) as client:
        every(check, CASES)


@pytest.mark.parametrize("place", ["local", "whole", "tiles"])
def test_fake_quantization_is_both(kind: type[AnyClient], service: Service, place: str) -> None:
    def check(case: Any) -> None:
        shape, counts, attributes, (source, scale, through), _ = case
        to = "float32" if source == "int32" else source
        there = tr.OnnxQuantizeLinear(through, **attributes)
        given = (scale, counts), (through, counts)
        call = there.descriptor(source, shape, *given).resolve()
        back = tr.OnnxDequantizeLinear(to, **attributes).descriptor(through, shape, *given)
        x, scales, points, expected = operands(call.fake(back.resolve()))
        parameters = scales.reshape(counts), points.reshape(counts)
        assert_same(client.fake_quantize(x, *parameters, **attributes), expected)
        codes = client.quantize(x, *parameters, **attributes)
        assert_same(client.dequantize(codes, *parameters, to=to, **attributes), expected)

    url = "local:" if place == "local" else service.url
    with kind(url, tile_bytes=900 if place == "tiles" else 1 << 20) as client:
        every(check, [case for case in CASES if case[3] in QUANTIZED and case[4]])


def test_layouts(client: AnyClient) -> None:
    for layout in LAYOUTS.values():
        x = layout(X)
        expected = np.asarray(np.clip(np.rint(x * 2) + 3, -128, 127)).astype(np.int8)
        y = client.quantize(x, 0.5, 3)
        assert_same(y, expected)
        steps = [step // x.itemsize for step in np.copy(x, order="K").strides]
        assert y.size < 2 or list(y.strides) == steps
        assert_same(client.fake_quantize(x, 0.5, 3), np.asarray((expected.astype("f4") - 3) / 2))


def test_numbers_become_of_the_types_that_are_needed(client: AnyClient) -> None:
    x = np.array([[-1000, -0.3, 0.5], [2.5, np.nan, 1000]], np.float32)
    assert client.quantize(x, 1).tolist() == [[-128, 0, 0], [2, 0, 127]]
    assert client.quantize(x, np.float64(1), 7).tolist() == [[-128, 7, 7], [9, 7, 127]]
    codes = client.quantize(x, [1.0, 0.1, 2.0], np.uint8(128))
    assert (codes.dtype, codes.tolist()) == (np.uint8, [[0, 125, 128], [130, 128, 255]])
    assert client.quantize(x, 1.0, [0, 1, 2], to="int16").tolist() == [[-1000, 1, 2], [2, 1, 1002]]
    assert client.quantize(x, 0.5, [1, -1], axis=0, to="int4").dtype == ml_dtypes.int4
    assert client.dequantize(np.int8([[2, 4]]), [0.5, 0.1], 1).tolist() == [[0.5, np.float32(0.3)]]
    assert client.dequantize(np.int8([2]), 0.5, to="float16").dtype == np.float16
    assert client.dequantize(np.int8([2]), np.float16(0.5)).dtype == np.float32
    # A number is rounded once: above the tie between two of bfloat16, and below by way of float32.
    one = np.ones(1, BF16)
    assert client.dequantize(np.int8([1]), 1 + 2**-8 + 2**-40, to=BF16) > one
    assert client.dequantize(np.int8([1]), 3e-41, to=BF16) == np.array(3e-41, BF16)


def test_numbers_of_numpy_are_taken_as_python_s(client: AnyClient) -> None:
    x = np.array([[-1000, -0.3, 0.5], [2.5, 7, 1000]], np.float32)
    scale, own = np.array([1, 0.5], np.float32), {"axis": np.int64(0), "block_size": np.uint8(0)}
    codes = client.quantize(x, scale, np.int64(3), **own)
    assert_same(codes, client.quantize(x, scale, 3, axis=0))
    assert_same(
        client.dequantize(codes, scale, np.int64(3), **own),
        client.dequantize(codes, scale, 3, axis=0),
    )
    saturated = client.cast(x, "float8_e4m3fn", saturate=np.True_)
    assert_same(client.quantize(x, 1.0, to="float8_e4m3fn", saturate=np.True_), saturated)


def test_operators(client: AnyClient) -> None:
    x = np.array([-500, 0.3, 500], np.float32)
    by = tr.OnnxQuantizeLinear("uint8", opset_version=13)
    assert client.quantize(x, 2.0, 9, operator=by).tolist() == [0, 9, 255]
    assert client.quantize(x, 2.0, operator=tr.OnnxQuantizeLinear()).dtype == np.uint8
    assert client.quantize(x, 2.0, 0, operator="onnx:13").tolist() == [-128, 0, 127]
    wide = client.quantize(x, 1.0, to="float8_e4m3fn", saturate=False)
    assert np.isnan(wide.astype(np.float32)[[0, 2]]).all()
    by_scale = tr.OnnxDequantizeLinear()
    assert client.dequantize(np.int8([3]), np.float16(0.5), operator=by_scale).dtype == np.float16
    assert client.fake_quantize(x, 2.0, 0, operator="onnx:13").tolist() == [-256, 0, 254]


@pytest.mark.parametrize("tile_bytes", [40, 1 << 20], ids=["tiles", "whole"])
def test_other_dialects(kind: type[AnyClient], service: Service, tile_bytes: int) -> None:
    x = np.linspace(-9, 9, 51, dtype=np.float16).reshape(17, 3)
    codes = (np.rint(x * 2) + 3).astype(np.int8)
    columns = np.float16([[0.5, 1, 2]])
    with kind(service.url, tile_bytes=tile_bytes) as client:
        for word in ("onnx:21", "directml", "webnn"):
            assert_same(client.quantize(x, 0.5, 3, operator=word), codes)
            assert_same(
                client.dequantize(codes, 0.5, 3, to="float16", operator=word),
                codes / np.float16(2) - np.float16(1.5),
            )
            assert_same(
                client.fake_quantize(x, 0.5, 3, operator=word),
                codes / np.float16(2) - np.float16(1.5),
            )
            if word != "onnx:21":
                by_columns = client.quantize(x, columns, 3, operator=word)
                assert_same(by_columns, (np.rint(x / columns) + 3).astype(np.int8))
        wide = x.astype(np.float32)
        for scales in ("0.5:3", "1, {0.5:3, 0.5:3, 0.5:3}"):
            element = f"!quant.uniform<i8:f32{', ' if scales[0] == '0' else ':'}{scales}>"
            assert_same(client.quantize(wide, operator=tr.StableHLOUniformQuantize(element)), codes)
            back = client.dequantize(codes, operator=tr.StableHLOUniformDequantize(element))
            assert_same(back, (codes.astype("f4") - 3) / 2)


#: Arguments beside those of a valid call, and a part of the refusal.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "numbers in float64": ({"x": [0.5]}, "input.elem_type: got .DOUBLE"),
    "no scale": ({"scale": None}, "scale is needed"),
    "scale as text": ({"scale": "a"}, "scale is a str"),
    "scale of another type": ({"scale": np.ones(2)}, "y_scale.elem_type: got .DOUBLE"),
    "scales of another count": ({"scale": [1.0, 2.0, 3.0]}, r"y_scale.shape: must be \[2\]"),
    "a zero point beyond its type": ({"zero_point": 200}, "must be a number of int8, got 200"),
    "a zero point with a fraction": ({"zero_point": 0.5}, "must be a number of int8, got 0.5"),
    "zero points of another count": ({"zero_point": [1, 2, 3]}, r"y_scale.shape: must be \[2\]"),
    "a zero point of another type": (
        {"zero_point": np.uint8(1), "to": "int8"},
        "must be output_dtype, INT8",
    ),
    "an axis out of range": ({"scale": [1.0, 2.0], "axis": 2}, "axis: must be from -2 to 1"),
    "an axis of a float": ({"axis": np.float32(1)}, "axis: must be an integer, got 1.0"),
    "several axes": ({"axis": [0, 1]}, "axis: must be an integer, got an array"),
    "blocks below 0": ({"block_size": -1}, "block_size: must be at least 0, got -1"),
    "saturate as a number": ({"saturate": 1}, "saturate: must be true or false, got 1"),
    "an unknown type": ({"to": "half"}, "did you mean float16"),
    "a type of no codes": ({"to": "float32"}, "QuantizeLinear-25 .* takes .* got FLOAT"),
    "an operator's axis": (
        {"operator": tr.OnnxQuantizeLinear(), "axis": 0},
        "has its own attributes: omit axis",
    ),
    "a cast": ({"operator": tr.OnnxCast("int8")}, "use cast"),
    "its inverse": ({"operator": tr.OnnxDequantizeLinear()}, "use dequantize"),
    "an old opset": ({"operator": "onnx:12", "axis": 0}, "axis needs opset 13"),
    "a masked out": ({"out": np.ma.zeros((2, 2), np.int8)}, "masked"),
    "an out of another type": ({"out": np.zeros((2, 2), np.uint8)}, "out has dtype uint8"),
}


@pytest.mark.parametrize(("arguments", "why"), REFUSED.values(), ids=REFUSED)
def test_refused_before_anything_is_sent(
    kind: type[AnyClient], arguments: dict[str, Any], why: str
) -> None:
    with (
        kind("http://127.0.0.1:9", retries=0) as client,
        pytest.raises((tr.InvalidArgument, tr.InvalidDescriptor), match=why),
    ):
        client.quantize(**{"x": np.zeros((2, 2), np.float32), "scale": 1.0, **arguments})


def test_other_calls_refuse_likewise(client: AnyClient) -> None:
    x, codes = np.zeros((2, 2), np.float32), np.zeros((2, 2), np.int8)
    with pytest.raises(tr.InvalidDescriptor, match=r"input\.elem_type.* takes .* got FLOAT"):
        client.dequantize(x, 1.0)
    with pytest.raises(tr.InvalidDescriptor, match="output_dtype needs opset 23"):
        client.dequantize(codes, np.float16(1), operator="onnx:21")
    with pytest.raises(tr.InvalidArgumentType, match="operator must be a word"):
        client.fake_quantize(x, 1.0, operator=tr.OnnxQuantizeLinear())
    with pytest.raises(tr.InvalidArgument, match="needs a scale: use quantize"):
        client.round(X, tr.OnnxQuantizeLinear())
    with pytest.raises(tr.InvalidArgument, match="needs a scale: use dequantize"):
        client.cast(X, "float32", tr.OnnxDequantizeLinear())


#: Quantizations of 1000 float32 into the memory of the operand.
SHARED: dict[str, Any] = {
    "quantize": lambda client, x: client.quantize(x, 0.5, 3, out=x.view(np.int8)[::4]),
    "fake quantize": lambda client, x: client.fake_quantize(x, 0.5, 3, out=x),
    "scale in it": lambda client, x: client.fake_quantize(x, x[:1], out=x),
}


@pytest.mark.parametrize("share", SHARED.values(), ids=SHARED)
@pytest.mark.parametrize("tile_bytes", [400, 1 << 20], ids=["tiles", "whole"])
def test_lost_response_does_not_spoil_an_operand_that_is_the_out(
    kind: type[AnyClient], service: Service, share: Any, tile_bytes: int
) -> None:
    expected = share(tr.Client("local:", tile_bytes=1 << 20), X[:1000].copy())
    lose = Fault(cut_down=500)
    with (
        Proxy(service.address, lambda number: lose if number in (0, 2, 3) else Fault()) as proxy,
        kind(proxy.url, tile_bytes=tile_bytes, connections=2) as client,
    ):
        assert np.array_equal(share(client, X[:1000].copy()), expected)
        assert len(proxy.seen) > 1


def test_memory_is_bounded_and_progress_is_told(kind: type[AnyClient], service: Service) -> None:
    x = np.zeros((1 << 12, 1 << 12), np.float32)
    scales, out = np.ones(1 << 12, np.float32), np.empty(x.shape, np.int8)
    told: list[int] = []
    with kind(service.url, tile_bytes=1 << 20, connections=2) as client:
        client.quantize(x[:64], scales, out=out[:64])
        for scale in (1.0, scales):
            with traced() as most:
                client.quantize(x, scale, out=out, progress=lambda done, _: told.append(done))
                peak = most()
            # Two tiles at once, with the payload of each.
            assert peak < 6 << 20
            assert told[-1] == x.nbytes


def test_without_a_client() -> None:
    codes = tr.quantize(X, 0.25, 1, to="int16")
    assert codes.tolist() == (np.rint(X * 4).astype(int) + 1).tolist()
    assert_same(tr.dequantize(codes, 0.25, 1), np.rint(X * 4) / 4 + 0)
    assert_same(tr.fake_quantize(X, 0.25, 1, through="int16"), np.rint(X * 4) / 4 + 0)


def test_masked_arrays(client: AnyClient) -> None:
    x = np.ma.MaskedArray([0.5, 1.5, -2.5], [True, False, False], np.float32)
    y = client.quantize(x, 0.5)
    assert isinstance(y, np.ma.MaskedArray)
    assert (y.dtype, y.mask.tolist(), y.data.tolist()) == (np.int8, x.mask.tolist(), [1, 3, -5])
