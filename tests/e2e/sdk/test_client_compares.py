"""``client.compare`` on a service and in the client's own process, whole and in tiles."""

from __future__ import annotations

import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import LAYOUTS, patterns
from support.clients import AnyClient
from support.http.proxy import Fault, Proxy, answer
from support.services.server import Service


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
        Proxy(None, lambda _: Fault(answer=another)) as proxy,
        kind(proxy.url, retries=0, digest=digest) as client,
        pytest.raises(tr.ProtocolViolation, match=why),
    ):
        client.compare(np.ones(3))
