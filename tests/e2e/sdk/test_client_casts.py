"""Arrays cast by both clients: forms, layouts, tiles, outs, lost responses, dialects' operators.

That results are right for every pattern is tested where kernels are; here are values on which
NumPy, ml_dtypes and IEEE 754 agree.
"""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import LAYOUTS, bits
from support.cases.every import every
from support.clients import AnyClient
from support.http.proxy import Fault, Proxy
from support.memory import traced
from support.services.server import Service

BF16 = ml_dtypes.bfloat16
X = np.random.default_rng(3).normal(0, 20, 24 * 97).astype(np.float32)
#: Narrower and wider types, of floats and of integers.
TARGETS: tuple[Any, ...] = (np.float16, BF16, ml_dtypes.float8_e5m2, np.float64, np.int8, np.int64)


def right(x: Any, to: Any) -> Any:
    """A cast by NumPy; to integers it is of values that are integral already."""
    return (np.rint(x) if np.dtype(to).kind == "i" else x).astype(to)


def assert_same(y: Any, expected: Any) -> None:
    assert (type(y), y.dtype, y.shape) == (type(expected), expected.dtype, expected.shape)
    assert np.array_equal(bits(y), bits(expected))


def test_layouts(client: AnyClient) -> None:
    def check(layout: str, order: Any, to: Any) -> None:
        x = LAYOUTS[layout](X.astype(X.dtype.newbyteorder(order)))
        before = bits(x)
        y = client.cast(x, to)
        assert_same(y, right(x, to))
        steps = [step // x.itemsize for step in np.copy(x, order="K").strides]
        assert [step // y.itemsize for step in y.strides] == steps
        assert np.array_equal(bits(x), before)

    every(check, LAYOUTS, ("<", ">"), (BF16, np.float64))


@pytest.mark.parametrize("layout", ["flat", "fortran", "permuted", "every-other", "broadcast"])
def test_tiles_make_the_whole(kind: type[AnyClient], service: Service, layout: str) -> None:
    x = LAYOUTS[layout](X)
    for options in ({}, {"digest": True}):
        with kind(service.url, tile_bytes=700, connections=3, **options) as client:
            for to in TARGETS:
                assert_same(client.cast(x, to), right(x, to))


@pytest.mark.parametrize("place", ["local", "whole", "tiles"])
def test_types_of_4_bits_have_a_byte_an_element(
    kind: type[AnyClient], service: Service, place: str
) -> None:
    url = "local:" if place == "local" else service.url
    with kind(url, tile_bytes=15 if place == "tiles" else 1 << 20) as client:
        for count, to in ((1, "int4"), (63, "int4"), (16, "uint4"), (63, "float4_e2m1fn")):
            x = (np.arange(count) % 8).astype(np.float32) / (2 if to == "float4_e2m1fn" else 1)
            expected = x.astype(getattr(ml_dtypes, to))
            y = client.cast(x, to)
            assert_same(y, expected)
            assert_same(client.cast(y, "float64"), expected.astype(np.float64))
            out = np.empty(2 * count, expected.dtype)[::2]
            assert np.array_equal(bits(client.cast(x[::-1], to, out=out)), bits(expected[::-1]))
            stated = tr.IEEE754Convert(to).descriptor("float32", (count,))
            output = client.execute(stated, x)
            assert output.data.nbytes == -(-count // 2)
            assert np.array_equal(bits(output.numpy()), bits(expected))


def test_neither_side_of_a_tile_is_larger_than_allowed(
    kind: type[AnyClient], service: Service
) -> None:
    told: list[tuple[int, int]] = []
    x = X[:1000].astype(np.int8)
    with kind(service.url, tile_bytes=800, connections=1) as client:
        y = client.cast(x, "float64", progress=lambda *seen: told.append(seen))
    assert_same(y, x.astype(np.float64))
    assert told == [(done, 1000) for done in range(0, 1001, 100)]


def test_out_of_either_byte_order_and_strides(client: AnyClient) -> None:
    for out in (
        np.empty(X.size, "<f2"),
        np.empty(X.size, ">f2"),
        np.empty(2 * X.size, "<f2")[::2],
        np.empty(X.size, "<f2")[::-1],
    ):
        assert client.cast(X, "float16", out=out) is out
        assert np.array_equal(out, X.astype(np.float16))
    for wrong in (np.empty(X.size, "f4"), np.empty(3, "f2"), X.astype("f2").tolist()):
        with pytest.raises(tr.InvalidArgument, match="out"):
            client.cast(X, "float16", out=wrong)


#: An out on the memory of the operand: the operand there, and the out.
SHARED: dict[str, Any] = {
    "its beginning": lambda memory: (memory.view("f4"), memory.view("f2")[:1000]),
    "its end": lambda memory: (memory.view("f4"), memory.view("f2")[1000:]),
    "elements' halves": lambda memory: (memory.view("f4"), memory.view("f2")[::2]),
    "wider": lambda memory: (memory.view("f4")[:500], memory.view("f8")),
    "same width": lambda memory: (memory.view("f4"), memory.view("i4")),
    "itself": lambda memory: (memory.view("f4"), memory.view("f4")),
}


@pytest.mark.parametrize("tile_bytes", [400, 1 << 20], ids=["tiles", "whole"])
@pytest.mark.parametrize("share", SHARED.values(), ids=SHARED)
def test_lost_response_does_not_spoil_an_operand_that_is_the_out(
    kind: type[AnyClient], service: Service, share: Any, tile_bytes: int
) -> None:
    x, out = share(X[:1000].copy().view(np.uint8))
    expected = right(x, out.dtype)
    lose = Fault(cut_down=500)
    with (
        Proxy(service.address, lambda number: lose if number in (0, 2) else Fault()) as proxy,
        kind(proxy.url, tile_bytes=tile_bytes, connections=2) as client,
    ):
        assert client.cast(x, out.dtype, out=out) is out
        assert len(proxy.seen) > 1
    assert np.array_equal(bits(out), bits(expected))


def test_memory_of_both_sides_is_bounded_by_tiles(kind: type[AnyClient], service: Service) -> None:
    x = np.zeros((1 << 12, 1 << 13), "<f4")[:, ::2]
    out = np.empty(x.shape, ">f8")
    with kind(service.url, tile_bytes=1 << 20, connections=2) as client:
        client.cast(x[:64], "float64", out=out[:64])
        with traced() as most:
            client.cast(x, "float64", out=out)
            peak = most()
    # As for rounding: two tiles at once, with the copies of each.
    assert peak < 10 << 20


def test_types_and_operators(client: AnyClient) -> None:
    x = np.array([-500, -0.3, 0.5, 2.5, 500], np.float32)
    fp8 = ml_dtypes.float8_e4m3fn
    for to in ("float8_e4m3fn", fp8, np.dtype(fp8)):
        assert client.cast(x, to).dtype == fp8
    largest = client.cast(x, fp8, "onnx:24")
    assert largest.astype(float).tolist() == [-448, -0.3125, 0.5, 2.5, 448]
    assert np.isnan(client.cast(x, fp8, "onnx:24", saturate=False).astype(float)[[0, -1]]).all()
    assert_same(client.cast(x, operator=tr.OnnxCast("float8_e4m3fn", 24)), largest)
    assert_same(client.cast(x, fp8, saturate=True), largest)
    for arguments, expected in (
        (("int32",), [-500, 0, 0, 2, 500]),
        (("int32", "ties_to_away"), [-500, 0, 1, 3, 500]),
        (("int32", "onnx"), [-500, 0, 0, 2, 500]),
        (("int8", "openvino"), [-128, 0, 0, 2, 127]),
        (("int32", "webnn"), [-500, 0, 0, 2, 500]),
    ):
        assert client.cast(x, *arguments).tolist() == expected
    assert client.cast(x, "int32", rounding="toward_negative").tolist() == [-500, -1, 0, 2, 500]
    assert client.cast(x, "float64", "directml:CAST:4_1").dtype == np.float64


def test_other_operators_to_integral_values(client: AnyClient) -> None:
    x = np.array([-2.5, -0.3, 1.5, 1.0009765625], np.float32)
    assert client.round(x, "onnx:Floor").tolist() == [-3, -1, 1, 1]
    assert client.round(x, "directml:CEIL").tolist() == [-2, -0.0, 2, 2]
    assert client.round(x, "webnn:floor").tolist() == [-3, -1, 1, 1]
    narrow = client.round(x, "stablehlo:reduce_precision:5:7")
    assert narrow.tolist() == [-2.5, -0.30078125, 1.5, 1]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no type": ({}, "to must be a dtype"),
    "unknown type": ({"to": "half"}, "to: got .half.; did you mean float16"),
    "unserved type": ({"to": complex}, "complex128"),
    "an operator as the type": ({"to": tr.OnnxCast("int8")}, "an operator is operator="),
    "another type": ({"to": "int8", "operator": tr.OnnxCast("int16")}, "is int16: omit to"),
    "two directions": ({"to": "int8", "operator": "onnx", "rounding": "toward_zero"}, "of the two"),
    "an operator's rounding": (
        {"operator": tr.OnnxCast("int8"), "rounding": "toward_zero"},
        "has its own rounding",
    ),
    "an unknown direction": ({"to": "int8", "rounding": "up"}, "did you mean toward_positive"),
    "saturate of WebNN": ({"to": "int8", "operator": "webnn", "saturate": True}, "saturate"),
    "saturate as a number": ({"to": "int8", "saturate": 1}, "saturate must be True"),
    "a class": (
        {"to": "int8", "operator": tr.OnnxCast},
        r"OnnxCast is a class: pass OnnxCast\(to=",
    ),
    "a rounding": ({"to": "int8", "operator": tr.OnnxRound()}, "OnnxRound keeps the type"),
    "a rounding's word": ({"to": "int8", "operator": "onnx:Floor"}, "does not cast"),
    "an old opset": ({"to": "float8_e5m2", "operator": "onnx:13"}, "needs opset 19"),
    "a masked out": ({"to": "int8", "out": np.ma.zeros(2, np.int8)}, "masked"),
}


@pytest.mark.parametrize(("arguments", "why"), REFUSED.values(), ids=REFUSED)
def test_refused_before_anything_is_sent(
    kind: type[AnyClient], arguments: dict[str, Any], why: str
) -> None:
    with (
        kind("http://127.0.0.1:9", retries=0) as client,
        pytest.raises((tr.InvalidArgument, tr.InvalidDescriptor), match=why),
    ):
        client.cast(np.zeros(2, np.float32), **arguments)


def test_round_refuses_a_cast(client: AnyClient) -> None:
    with pytest.raises(tr.InvalidArgument, match="OnnxCast converts to another type: use cast"):
        client.round(X, tr.OnnxCast("int8"))


def test_without_a_client() -> None:
    assert_same(tr.cast(X, "bfloat16"), X.astype(BF16))
    out = np.empty(X.shape, np.float64)
    assert tr.cast(X, np.float64, "stablehlo", out=out) is out
    assert np.array_equal(out, X)


DOCUMENTS: dict[str, dict[str, Any]] = {
    "packed": {"input": {"dtype": "float32", "shape": [24, 97]}, "output": {"dtype": "bfloat16"}},
    "fortran": {
        "input": {"dtype": "float32", "shape": [24, 97], "strides": [1, 24]},
        "output": {"dtype": "float64", "strides": [1, 24], "byte_length": 24 * 97 * 8 + 5},
    },
    "gaps": {
        "input": {"dtype": "float32", "shape": [24, 97], "strides": [100, 1]},
        "output": {"dtype": "float16", "strides": [1, 30]},
    },
}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
@pytest.mark.parametrize("place", ["local", "whole", "tiles"])
def test_descriptors(
    kind: type[AnyClient], service: Service, place: str, document: dict[str, Any]
) -> None:
    x = X.reshape(24, 97)
    stated = {"dialect": "ieee754", "operation": "convertFormat", **document}
    expected = x.astype(document["output"]["dtype"])
    url = "local:" if place == "local" else service.url
    with kind(url, tile_bytes=600 if place == "tiles" else 1 << 20) as client:
        for out in (None, np.empty(x.shape, expected.dtype), np.empty((97, 24), expected.dtype).T):
            output = client.execute(json.dumps(stated), x, out=out)
            assert_same(output.numpy(), expected)
            assert output.layout.dtype == expected.dtype
        memory = bytearray(output.layout.byte_length)
        assert_same(client.execute(stated, x, out=memory).numpy(), expected)
        assert bytes(memory) == bytes(output.data)


def test_an_out_on_the_input_of_a_descriptor_is_refused(client: AnyClient) -> None:
    memory = X[:8].copy()
    stated = tr.IEEE754Convert("int32").descriptor("float32", (8,))
    with pytest.raises(tr.InvalidArgument, match="overlaps the input"):
        client.execute(stated, memory, out=memory.view(np.int32))
    assert np.array_equal(memory, X[:8])


def test_masked_arrays(client: AnyClient) -> None:
    x = np.ma.MaskedArray([0.5, 1.5, -2.5], [True, False, False], np.float32)
    y = client.cast(x, "int8")
    assert isinstance(y, np.ma.MaskedArray)
    assert np.array_equal(np.ma.getmaskarray(y), np.ma.getmaskarray(x))
    assert (y.dtype, y.data.tolist()) == (np.int8, [0, 2, -2])
    assert client.cast(x, "bfloat16").dtype == BF16
