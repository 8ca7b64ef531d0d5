"""No byte of any answer is another request's: not in gaps, padding, errors or short answers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

from support.cases.descriptors import varied
from support.http.native_form import ieee754, npy, post
from support.services.fronts import Front
from support.services.server import Reply, Service

#: What other requests leave in the service's memory; as int32 it rounds to itself.
SECRET = b"\xa5"
SIZES = [64, 4096, 60_000, 64 << 10, 100_000, 1 << 20, 3 << 20, 8 << 20]


@pytest.fixture(scope="module")
def service(front: Front) -> Iterator[Service]:
    with front("--max-bytes-in-flight", "128MiB") as running:
        yield running


def soak(service: Service) -> None:
    """Fill the service's memory with the secret, in buffers of every size."""
    for size in SIZES:
        secret = SECRET * size
        assert post(service, ieee754("int32", [size // 4]), secret).content == secret
        # Left half way too: the sender of the rest is gone.
        assert post(service, ieee754("int32", [size // 4]), secret[:-4]).status == 400
    kept = json.dumps({"inputs": [{"name": SECRET.decode("latin-1") * 500}]}).encode()
    service.request("POST", "/v2/models/round/infer", kept)


def check_clean(reply: Reply) -> None:
    """No secret in the content, or in any header."""
    assert SECRET not in reply.content
    for value in reply.headers.values():
        assert SECRET.decode("latin-1") not in value


@pytest.mark.parametrize("gap", [2, 7])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "int64"])
def test_gaps_of_an_output_are_zeros(service: Service, dtype: str, gap: int) -> None:
    numpy = np.dtype(dtype)
    for size in SIZES:
        count = size // numpy.itemsize // gap
        soak(service)
        x = np.ones(count, numpy)
        descriptor = json.loads(ieee754(dtype, [count]))
        length = (count - 1) * gap * numpy.itemsize + numpy.itemsize + 5
        layout = {"strides": [gap], "byte_length": length}
        descriptor["output"] = {**descriptor["input"], **layout}
        reply = post(service, json.dumps(descriptor), x.tobytes())
        assert reply.status == 200, reply.content
        check_clean(reply)
        expected = np.zeros(length, np.uint8)
        view = np.ndarray(x.shape, numpy, expected.data, strides=(gap * numpy.itemsize,))
        view[:] = x
        assert reply.content == expected.tobytes()


def test_gaps_of_an_input_do_not_come_back(service: Service) -> None:
    """The sender's own bytes between elements do not come back either."""
    for count in (10, 5000, 500_000):
        payload = np.full((count, 2), 0xA5A5A5A5, np.uint32)
        payload[:, 0] = 0
        descriptor = ieee754("float32", [count], strides=[2])
        reply = post(service, descriptor, payload.tobytes()[:-4])
        assert reply.content == bytes(4 * count)


@pytest.mark.parametrize("count", [1, 3, 1023, 40_001, 2_000_001])
def test_directml_padding_is_zeros(service: Service, count: int) -> None:
    soak(service)
    sizes = {"Sizes": [1, 1, 1, count], "DataType": "FLOAT16"}
    changes = {"desc.InputTensor": sizes, "desc.OutputTensor": sizes}
    descriptor = json.dumps(varied("directml", changes))
    x = np.ones(count, "<f2")
    padded = x.tobytes() + bytes(-x.nbytes % 4)
    for payload in (x.tobytes(), padded):
        reply = post(service, descriptor, payload)
        assert reply.content == padded
    # Into another layout: the padding of the input has no place there.
    apart = {**sizes, "Strides": [2 * count, 2 * count, 2 * count, 2]}
    into_gaps = json.dumps(varied("directml", {**changes, "desc.OutputTensor": apart}))
    reply = post(service, into_gaps, x.tobytes())
    assert reply.status == 200, reply.content
    check_clean(reply)
    assert np.count_nonzero(np.frombuffer(reply.content, "<f2") == 1) == count
    # What the sender has in the padding is not kept either.
    if len(padded) > x.nbytes:
        assert post(service, descriptor, x.tobytes() + SECRET * 2).content == padded


X = np.ones(30_000, "<f4")
TENSOR = {"dialect": "ieee754", "input": {"dtype": "float32", "shape": [X.size]}}
HEAD = {"inputs": [{"name": "X", "datatype": "FP32", "shape": [X.size], "data": X.tolist()}]}
SHORT = json.dumps(TENSOR)
JSON = {"Content-Type": "application/json"}
OCTETS = {"Operator-Descriptor": SHORT}

ANSWERS = {
    "octets": (200, "/round", X.tobytes(), OCTETS),
    "npy": (200, "/round", npy(X), {"Content-Type": "application/x-npy"}),
    "json": (200, "/round", json.dumps({"descriptor": TENSOR, "data": X.tolist()}), JSON),
    "inference": (200, "/v2/models/round/infer", json.dumps(HEAD), JSON),
    "no-descriptor": (400, "/round", bytes(100_000), {}),
    "short": (400, "/round", bytes(X.nbytes - 1), OCTETS),
    "long": (400, "/round", bytes(X.nbytes + 1), OCTETS),
    "gzip": (
        400,
        "/round",
        b"\x1f\x8b\x08" + bytes(50_000),
        {**OCTETS, "Content-Encoding": "gzip"},
    ),
    "digest": (400, "/round", X.tobytes(), {**OCTETS, "Content-Digest": "sha-256=:AAAA:"}),
    "not-json": (400, "/round", b"{" * 100_000, JSON),
    "not-npy": (400, "/round", npy(X)[:-1], {"Content-Type": "application/x-npy"}),
    "unknown": (415, "/round", b"", {"Content-Type": "text/plain"}),
    "nothing-there": (404, "/nothing", b"", {}),
    "not-inference": (400, "/v2/models/round/infer", b"[" * 1000, JSON),
}


@pytest.mark.parametrize("case", ANSWERS.values(), ids=ANSWERS)
def test_no_response_has_a_byte_of_another_request(
    service: Service, case: tuple[int, str, bytes | str, dict[str, str]]
) -> None:
    status, path, body, headers = case
    content = body.encode() if isinstance(body, str) else body
    for _ in range(3):
        soak(service)
        reply = service.request("POST", path, content, headers)
        assert reply.status == status, reply.content[:200]
        check_clean(reply)
