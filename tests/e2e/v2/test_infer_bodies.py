"""Bodies of inferences as they travel: raw, chunked, coded, one after another."""

from __future__ import annotations

import base64
import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from support.http.inference_form import (
    BINARY_OUT,
    EVEN,
    HEADER_LENGTH,
    OF_X,
    Answer,
    X,
    document,
    infer,
    infer_path,
    tensor,
)
from support.services.server import Service

GOOD = document(OF_X, **BINARY_OUT)


PACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}
UNPACK: dict[str | None, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
    None: bytes,
}


def pieces(payload: bytes) -> Iterator[bytes]:
    yield from (payload[at : at + 50_000] for at in range(0, len(payload), 50_000))


@pytest.mark.parametrize("form", ["identity", "chunked", "gzip", "deflate"])
def test_raw_bodies(service: Service, form: str) -> None:
    x = np.tile(X, 20_000)
    data: Any = {"identity": bytes, "chunked": pieces, **PACK}[form](x.tobytes())
    field = "Transfer-Encoding" if form == "chunked" else "Content-Encoding"
    headers = {HEADER_LENGTH: "0", field: form}
    answer = Answer.of(service.request("POST", infer_path("round"), data, headers))
    assert answer.payload == np.rint(x).tobytes()
    assert answer.output["shape"] == [x.size]


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("gzip;q=0, br", None),
    ],
)
@pytest.mark.parametrize("wish", [{}, BINARY_OUT], ids=["json", "binary"])
def test_answers_are_packed_as_asked(
    service: Service, wish: dict[str, Any], accepted: str, coding: str | None
) -> None:
    headers = {"Accept-Encoding": accepted}
    reply = infer(service, document(OF_X, **wish), X.tobytes(), headers=headers)
    assert reply.headers["Content-Encoding"] == coding
    answer = Answer.of(reply, UNPACK[coding](reply.content))
    assert answer.payload == (EVEN.tobytes() if wish else b"")


@pytest.mark.parametrize("content_type", [None, "application/json", "text/plain", "a/b; c=d"])
def test_the_content_type_does_not_matter(service: Service, content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    reply = infer(service, document(tensor("FP32", [1], data=[2.5])), headers=headers)
    assert Answer.of(reply).output["data"] == [2.0]


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_digests_are_of_the_content_as_it_is_sent(service: Service, coding: str) -> None:
    headers = {"Want-Content-Digest": "sha-256=1", "Accept-Encoding": coding}
    reply = infer(service, GOOD, X.tobytes(), headers=headers)
    assert reply.status == 200
    digest = base64.b64encode(hashlib.sha256(reply.content).digest()).decode()
    assert reply.headers["Content-Digest"] == f"sha-256=:{digest}:"
