"""Arrays of every kind through the real service, each bit against the reference."""

from __future__ import annotations

from typing import Any

import httpx2
import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import LAYOUTS, bits, expected_bits, patterns
from support.cases.every import every
from support.clients import AnyClient, SteppedClient
from support.services.server import Service
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.operators import registry


def test_layouts(client: AnyClient) -> None:
    def check(layout: str, order: Any) -> None:
        flat = patterns("float64", 96)
        x = LAYOUTS[layout](flat.astype(flat.dtype.newbyteorder(order)))
        before = bits(x)
        y = client.round(x)
        assert np.array_equal(bits(y), expected_bits(x))
        assert (y.dtype, y.shape) == (x.dtype, x.shape)
        assert y.strides == np.copy(x, order="K").strides
        assert np.array_equal(bits(x), before)

    every(check, LAYOUTS, ("<", ">"))


WRITABLE = ("flat", "fortran", "every-other", "reversed", "scalar-0d")


def test_out(client: AnyClient) -> None:
    def check(layout: str, order: str) -> None:
        x = LAYOUTS[layout](patterns("float32", 96))
        out = LAYOUTS[layout](np.zeros(96, f"{order}f4"))
        assert client.round(x, out=out) is out
        assert np.array_equal(bits(out), expected_bits(x))

    every(check, WRITABLE, ("<", ">"))


def test_in_place(client: AnyClient) -> None:
    def check(layout: str, kind: tuple[str, Any]) -> None:
        dtype, order = kind
        whole = patterns(dtype, 96)
        whole = whole.astype(whole.dtype.newbyteorder(order))
        x = LAYOUTS[layout](whole)
        expected = expected_bits(x)
        untouched = bits(whole)[1::2].copy() if layout == "every-other" else None
        assert client.round(x, out=x) is x
        assert np.array_equal(bits(x), expected)
        if untouched is not None:
            assert np.array_equal(bits(whole)[1::2], untouched)

    every(check, WRITABLE, (("float64", ">"), ("float16", "<")))


@pytest.mark.parametrize("tile_bytes", [64, 1 << 20], ids=["tiles", "whole"])
@pytest.mark.parametrize("shift", [1, -1])
def test_an_out_that_overlaps_x_askew(
    kind: type[AnyClient], service: Service, shift: int, tile_bytes: int
) -> None:
    memory = patterns("float32", 1000)
    x, out = (memory[:-1], memory[1:]) if shift > 0 else (memory[1:], memory[:-1])
    expected = expected_bits(x)
    with kind(service.url, tile_bytes=tile_bytes) as client:
        client.round(x, out=out)
    assert np.array_equal(bits(out), expected)


def test_unsupported_array_is_refused(client: AnyClient) -> None:
    for x, operator, why in (
        (np.zeros(2, "c8"), tr.IEEE754Round(), "complex64"),
        (np.zeros(2, "i4"), tr.OnnxRound(), "INT32"),
        ({0.5, 1.5}, None, "x is a set, not an array"),
    ):
        with pytest.raises((tr.InvalidDescriptor, tr.InvalidArgumentType), match=why):
            client.round(x, operator)
    with pytest.raises(tr.InvalidArgumentType, match="progress"):
        client.round(np.zeros(3), progress="yes")


def test_a_whole_tensor_is_refused_though_its_tiles_would_be_lawful(
    kind: type[AnyClient], service: Service
) -> None:
    sent: list[int] = []
    with (
        kind(service.url, tile_bytes=64) as client,
        pytest.raises(tr.InvalidDescriptor, match="exactly 4"),
    ):
        client.round(
            np.zeros((2, 1000), "f4"),
            tr.DirectMLRound(feature_level="2_1"),
            progress=lambda done, total: sent.append(done),
        )
    assert sent == []


def test_over_the_service_s_limit(service: Service) -> None:
    with tr.Client(service.url) as client:
        limit = client.operators()["limits"]["max_tensor_bytes"]
    vast = np.broadcast_to(np.int8(1), (limit + 1,))
    with (
        tr.Client(service.url, tile_bytes=2 * limit) as untiled,
        pytest.raises(tr.TensorTooLarge) as caught,
    ):
        untiled.round(vast)
    assert (caught.value.limit_bytes, caught.value.got_bytes) == (limit, limit + 1)


def test_the_service_describes_itself(client: AnyClient) -> None:
    assert client.ready() is True
    told = client.operators()
    assert set(told["dialects"]) == registry.DIALECTS.keys()
    assert set(told["dtypes"]) == BY_NAME.keys()
    assert client.conformance()["conforms"] is True


@pytest.mark.not_behind("unix", reason="the transport is made for TCP")
@pytest.mark.parametrize("foreign", [httpx2.HTTPTransport, httpx2.AsyncHTTPTransport])
def test_over_httpx2_s_own_transport(service: Service, foreign: Any) -> None:
    kind = tr.Client if foreign is httpx2.HTTPTransport else SteppedClient
    x = LAYOUTS["permuted"](patterns("float32", 24 * 997))
    with kind(service.url, transport=foreign(), tile_bytes=9000, digest=True) as client:
        assert np.array_equal(bits(client.round(x)), expected_bits(x))
        inside = x.copy()
        client.round(inside, out=inside)
        assert np.array_equal(bits(inside), expected_bits(x))
        assert client.ready()


def test_masked_arrays(client: AnyClient) -> None:
    x = np.ma.MaskedArray([0.5, 1.5, -2.5], [True, False, False], np.float32)
    y = client.round(x)
    assert np.array_equal(np.ma.getmaskarray(y), np.ma.getmaskarray(x))
    assert y.data.tolist() == [0, 2, -2]
    with pytest.raises(tr.InvalidArgument, match="masked"):
        client.round(x, out=np.zeros(3, np.float32))
    assert client.round(x, out=x) is x
    assert x.data.tolist() == [0, 2, -2]
    assert x.mask.tolist() == [True, False, False]
