"""Arrays of every kind through the real service, rounded and compared, whole and in tiles."""

from __future__ import annotations

import time
from typing import Any

import httpx2
import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import LAYOUTS, bits, expected_bits, patterns
from support.cases.every import every
from support.clients import AnyClient, SteppedClient, answered
from support.http.proxy import Fault, Proxy, answer
from support.memory import traced
from support.services.server import Service
from tensor_round.contract.digests import differing
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.operators import registry
from tensor_round.contract.quantization_digests import published


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


def test_out_of_either_byte_order_and_in_place(client: AnyClient) -> None:
    def check(layout: str, kind: tuple[str, Any]) -> None:
        dtype, order = kind
        whole = patterns(dtype, 96)
        whole = whole.astype(whole.dtype.newbyteorder(order))
        x = LAYOUTS[layout](whole)
        expected, untouched = expected_bits(x), bits(whole)[1::2].copy()
        for out in (*(LAYOUTS[layout](np.zeros_like(whole, f"{o}f{x.itemsize}")) for o in "<>"), x):
            assert client.round(x, out=out) is out
            assert np.array_equal(bits(out), expected)
        if layout == "every-other":
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
    rounding = client.conformance()
    assert (rounding["conforms"], "casts" in rounding) == (True, False)
    casts = client.conformance("cast", dtype=np.int8, to="float4_e2m1fn")
    assert {**casts, "casts": None} == {**rounding, "casts": None}
    for rows in casts["casts"].values():
        assert differing(rows, published("cast", "int8", "float4_e2m1fn")) == []
    with pytest.raises(tr.InvalidDescriptor, match="float32"):
        client.conformance("cast", dtype="float32")


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


@pytest.mark.parametrize("layout", ["flat", "fortran", "permuted", "every-other", "broadcast"])
@pytest.mark.parametrize(
    "operator",
    ["ties_to_away", tr.OpenVINORound(mode="half_away_from_zero"), tr.DirectMLRound(2)],
    ids=["ieee754", "openvino", "directml"],
)
def test_tiles_make_the_whole(
    kind: type[AnyClient], service: Service, layout: str, operator: Any
) -> None:
    x = LAYOUTS[layout](patterns("float32", 24 * 997))
    with kind(service.url, tile_bytes=7000, connections=3) as client:
        y = client.round(x, operator)
        assert np.array_equal(bits(y), expected_bits(x, "ties_to_away"))
        inside = x.copy()
        client.round(inside, operator, out=inside)
        assert np.array_equal(bits(inside), bits(y))


def test_tiles_travel_on_as_many_connections_as_allowed(
    kind: type[AnyClient], service: Service
) -> None:
    x = patterns("float32", 1 << 20)
    with (
        Proxy(service.address) as proxy,
        kind(proxy.url, tile_bytes=64 << 10, connections=3) as client,
    ):
        client.round(x)
        client.round(x)
        assert proxy.open_most <= 3
        assert len(proxy.seen) >= 2, "connections are used at the same time"
        assert len(proxy.seen) <= 3, "and used again"


@pytest.mark.parametrize("method", ["round", "compare"])
def test_progress_is_told_tile_by_tile(
    kind: type[AnyClient], service: Service, method: str
) -> None:
    told: list[tuple[int, int]] = []
    x = patterns("float32", 1000)
    with kind(service.url, tile_bytes=400, connections=1) as client:
        getattr(client, method)(x, progress=lambda done, total: told.append((done, total)))
    assert told == [(done, 4000) for done in range(0, 4001, 400)]


def test_a_progress_bar_goes_to_stderr(
    kind: type[AnyClient], service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    with kind(service.url) as client:
        client.round(patterns("float32", 1000), progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "rounding 100 %, 3.9 of 3.9 KiB, " in shown.err.splitlines()[-1]


@pytest.mark.parametrize("make", ["gaps", "big-endian"])
def test_the_client_s_memory_is_bounded_by_tiles(
    kind: type[AnyClient], service: Service, make: str
) -> None:
    x = (
        np.zeros((1 << 12, 1 << 13), "<f4")[:, ::2]
        if make == "gaps"
        else np.zeros((1 << 12, 1 << 12), ">f4")
    )
    out = np.empty_like(x)
    with kind(service.url, tile_bytes=1 << 20, connections=2) as client:
        client.round(x[:64], out=out[:64])
        with traced() as most:
            client.round(x, out=out)
            peak = most()
    # Two tiles at once, each copied out, and in, and by the asynchronous transport once more.
    assert x.nbytes == 64 << 20
    assert peak < 10 << 20


def test_one_deadline_for_all_tiles(kind: type[AnyClient], service: Service) -> None:
    with (
        Proxy(service.address, lambda _: Fault(delay_down=0.3)) as proxy,
        kind(proxy.url, tile_bytes=4, connections=1, timeout=0.5) as client,
    ):
        client_began = time.monotonic()
        x = patterns("float32", 4000)
        with pytest.raises(tr.DeadlineExceeded):
            client.round(x)
        assert time.monotonic() - client_began < 30


def test_the_first_error_ends_the_call_in_every_thread(
    kind: type[AnyClient], service: Service
) -> None:
    """One connection is refused for good while others wait for slow answers."""
    refusal = answer("403 Forbidden")
    with (
        Proxy(
            service.address,
            lambda number: Fault(answer=refusal) if number == 2 else Fault(delay_down=60),
        ) as proxy,
        kind(proxy.url, tile_bytes=400, connections=3) as client,
    ):
        began = time.monotonic()
        with pytest.raises(tr.UnknownRefusal) as caught:
            client.round(patterns("float32", 4000))
        assert caught.value.status == 403
        assert time.monotonic() - began < 30


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_whole_and_in_tiles(
    kind: type[AnyClient], service: Service, layout: str
) -> None:
    x = LAYOUTS[layout](patterns("float32", 24 * 97))
    expected = tr.compare(x)
    for url in (service.url, "local:"):
        with kind(url) as client:
            assert client.compare(x) == expected
        with kind(url, tile_bytes=1000, connections=3, digest=True) as client:
            assert client.compare(x) == expected


def test_uncomparable_values_are_refused_before_anything_is_sent(kind: type[AnyClient]) -> None:
    with kind("http://127.0.0.1:9", retries=0) as client:
        with pytest.raises(tr.InvalidDescriptor, match="complex128"):
            client.compare(np.zeros(3, complex))
        with pytest.raises(tr.InvalidArgumentType, match="x is a str, not an array"):
            client.compare("1.5")
        with pytest.raises(tr.InvalidArgumentType, match="progress"):
            client.compare(np.zeros(3), progress=7)
        with pytest.raises(tr.ConnectionFailed):
            client.compare(np.zeros(3))


def test_a_tile_that_is_cut_short_is_sent_again(kind: type[AnyClient], service: Service) -> None:
    x = patterns("float32", 3000)
    cut = Fault(cut_down=900)
    with (
        Proxy(service.address, lambda number: cut if number == 0 else Fault()) as proxy,
        kind(proxy.url, tile_bytes=4000, connections=2) as client,
    ):
        assert client.compare(x) == tr.compare(x)
        assert len(proxy.seen) > 1


HEADERS = "Content-Type: application/json", f"Content-Digest: sha-256=:{'A' * 43}=:"


@pytest.mark.parametrize(
    ("digest", "why"), [(False, "is not a comparison"), (True, "Content-Digest")]
)
def test_another_answer_is_refused(kind: type[AnyClient], digest: bool, why: str) -> None:
    another = answer("200 OK", b'{"dtype": "float32"}', *HEADERS)
    with (
        answered(kind, Fault(answer=another), digest=digest) as client,
        pytest.raises(tr.ProtocolViolation, match=why),
    ):
        client.compare(np.ones(3))
