"""CUDA shared memory on a real service whose device is this CPU.

Its memory can be shared by handles too: they name POSIX objects. So a test is one process
and the service another, as with CUDA.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton

from support.devices.host_kernels import NO_COMPILER, compiler
from support.http.inference_form import (
    AWAY,
    EVEN,
    Answer,
    X,
    binary,
    document,
    error_of,
    infer,
    tensor,
)
from support.http.region_form import at, into, put, source
from support.segments import PREFIX, Segment, segment
from support.services.device_service import DeviceService
from support.services.server import Reply, Service
from tensor_round_verify.reference import all_patterns, rounded

pytestmark = pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)
SIZE = 1 << 18


def handle(memory: Segment) -> bytes:
    return memory.key.encode().ljust(64, b"\0")


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    options = ("--cuda-shared-memory", "true", "--shared-memory-prefix", PREFIX)
    with DeviceService("--backend", "auto", *options) as running:
        yield running


@pytest.fixture
def owned() -> Iterator[Segment]:
    with segment(SIZE) as made:
        yield made


def post(service: Service, path: str, **members: Any) -> Reply:
    return service.request("POST", "/v2/cudasharedmemory" + path, json.dumps(members).encode())


def register(service: Service, name: str, raw: bytes, nbytes: int = SIZE, device: int = 0) -> Reply:
    raw_handle = {"b64": base64.b64encode(raw).decode()}
    path = f"/region/{name}/register"
    return post(service, path, raw_handle=raw_handle, device_id=device, byte_size=nbytes)


@contextlib.contextmanager
def registered(service: Service, name: str, memory: Segment) -> Iterator[None]:
    reply = register(service, name, handle(memory))
    assert reply.status == 200, reply.content
    yield
    assert post(service, f"/region/{name}/unregister").status == 200


@pytest.fixture
def region(service: Service, owned: Segment) -> Iterator[Segment]:
    """The whole of some memory, registered as r."""
    with registered(service, "r", owned):
        yield owned


def content(memory: Segment, nbytes: int, offset: int = 0) -> bytes:
    return memory.memory[offset : offset + nbytes].tobytes()


@pytest.mark.parametrize(("start", "end"), [(0, 4096), (0, 0), (4, 132), (1, 4099)])
def test_rounding_within_the_devices_memory(
    service: Service, region: Segment, start: int, end: int
) -> None:
    put(region, X, start)
    reply = infer(service, document(source(40, start), outputs=into(40, end)))
    assert reply.status == 200, reply.content
    assert reply.headers["Execution-Backend"] == "cupy"
    assert content(region, 40, end) == EVEN.tobytes()
    assert start == end or content(region, 40, start) == X.tobytes()
    (output,) = json.loads(reply.content)["outputs"]
    assert output["parameters"] == at(40, end or None)
    assert "data" not in output


@pytest.mark.parametrize(("dtype", "datatype"), [("float16", "FP16"), ("bfloat16", "BF16")])
def test_every_pattern_and_every_kernel(
    service: Service, region: Segment, dtype: str, datatype: str
) -> None:
    patterns = all_patterns(dtype)
    for rounding in ("ties_to_away", "toward_negative"):
        put(region, patterns)
        given = tensor(datatype, [patterns.size], parameters=at(patterns.nbytes))
        request = document(given, parameters={"rounding": rounding}, outputs=into(patterns.nbytes))
        reply = infer(service, request)
        assert reply.status == 200, reply.content
        right = rounded(patterns, dtype, rounding).tobytes()
        assert content(region, patterns.nbytes) == right


def test_integers_are_copied_within_the_device(service: Service, region: Segment) -> None:
    given = np.arange(40, dtype="<i4")
    put(region, given)
    request = document(tensor("INT32", [40], parameters=at(160)), outputs=into(160, 512))
    assert infer(service, request).status == 200
    assert content(region, 160, 512) == given.tobytes()


def test_a_body_is_rounded_into_the_devices_memory(service: Service, region: Segment) -> None:
    request = document(binary("FP32", [10], 40), outputs=into(40, 64))
    reply = infer(service, request, X.tobytes())
    assert reply.status == 200, reply.content
    assert reply.headers["Execution-Backend"] == "cupy"
    assert content(region, 40, 64) == EVEN.tobytes()
    numbers = document(tensor("FP32", [2], data=[2.5, -0.5]), outputs=into(8))
    assert infer(service, numbers).status == 200
    assert content(region, 8) == np.array([2, -0.0], "<f4").tobytes()


def test_the_devices_memory_is_answered_in_a_body(service: Service, region: Segment) -> None:
    put(region, X, 8)
    request = document(
        source(40, 8),
        parameters={"rounding": "ties_to_away"},
        outputs=[{"name": "Y", "parameters": {"binary_data": True}}],
    )
    answer = Answer.of(infer(service, request))
    assert answer.payload == AWAY.tobytes()
    assert content(region, 40, 8) == X.tobytes(), "a client's input is not ours to write in"


def test_between_the_devices_memory_and_the_hosts(service: Service, region: Segment) -> None:
    with segment(SIZE) as system:
        body = json.dumps({"key": system.key, "offset": 0, "byte_size": SIZE}).encode()
        path = "/v2/systemsharedmemory/region/s/register"
        assert service.request("POST", path, body).status == 200
        put(region, X)
        reply = infer(service, document(source(40), outputs=into(40, 80, "s")))
        assert reply.status == 200, reply.content
        assert content(system, 40, 80) == EVEN.tobytes()
        put(system, X, 160)
        reply = infer(service, document(source(40, 160, "s"), outputs=into(40, 240)))
        assert reply.status == 200, reply.content
        assert content(region, 40, 240) == EVEN.tobytes()
        service.request("POST", "/v2/systemsharedmemory/unregister")


def test_tritonclients_own_calls(service: Service, owned: Segment) -> None:
    """Its helper for allocations needs a device; what goes over the wire does not."""
    with contextlib.closing(triton.InferenceServerClient(f"127.0.0.1:{service.port}")) as client:
        raw = base64.b64encode(handle(owned))
        client.register_cuda_shared_memory("t", raw, 0, SIZE)
        assert client.get_cuda_shared_memory_status() == [
            {"name": "t", "device_id": 0, "byte_size": SIZE}
        ]
        put(owned, X)
        given = triton.InferInput("X", [10], "FP32")
        given.set_shared_memory("t", 40)
        wanted = triton.InferRequestedOutput("Y")
        wanted.set_shared_memory("t", 40, offset=128)
        client.infer("round", [given], outputs=[wanted])
        assert content(owned, 40, 128) == EVEN.tobytes()
        client.unregister_cuda_shared_memory("t")
        assert client.get_cuda_shared_memory_status() == []


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "overlap": (document(source(40), outputs=into(40, 8)), "share no byte with it"),
    "behind-the-end": (document(source(40, SIZE - 36), outputs=into(40)), "reach to"),
    "far-behind-the-end": (document(source(40), outputs=into(40, 1 << 62)), "reach to"),
}


@pytest.mark.parametrize(("request_", "says"), REFUSED.values(), ids=REFUSED)
def test_refused_requests(
    service: Service, region: Segment, request_: dict[str, Any], says: str
) -> None:
    before = content(region, SIZE)
    reply = infer(service, request_)
    assert reply.status == 400
    assert says in error_of(reply)
    assert content(region, SIZE) == before


def test_a_region_that_is_not_registered_is_not_found(service: Service) -> None:
    reply = infer(service, document(source(40, name="nobody's"), outputs=into(40)))
    assert reply.status == 404
    assert service.get("/v2/cudasharedmemory/region/nobodys/status").status == 404


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"byte_size": SIZE + 1}, f"the allocation has {SIZE} bytes"),
        ({"byte_size": 0}, "byte_size"),
        ({"device_id": 3}, "this service does not use device 3"),
        ({"device_id": -1}, "device_id"),
        ({"device_id": True}, "device_id"),
        ({"raw_handle": None}, "64 bytes"),
        ({"raw_handle": {"b64": "####"}}, "64 bytes"),
        ({"raw_handle": {"b64": base64.b64encode(b"x" * 63).decode()}}, "64 bytes"),
        ({"raw_handle": {"b64": base64.b64encode(b"x" * 64).decode()}}, "cannot be opened"),
    ],
)
def test_refused_registrations(
    service: Service, owned: Segment, members: dict[str, Any], says: str
) -> None:
    sound = {
        "raw_handle": {"b64": base64.b64encode(handle(owned)).decode()},
        "device_id": 0,
        "byte_size": SIZE,
    }
    reply = post(service, "/region/bad/register", **{**sound, **members})
    assert reply.status == 400
    assert says in error_of(reply)
    assert service.get("/v2/cudasharedmemory/status").json() == []


def test_a_name_is_taken_once(service: Service, region: Segment) -> None:
    reply = register(service, "r", handle(region))
    assert (reply.status, "registered already" in error_of(reply)) == (400, True)


def test_it_is_an_extension_and_off_by_default(service: Service) -> None:
    assert "cuda_shared_memory" in service.get("/v2").json()["extensions"]
    with DeviceService("--backend", "cupy") as closed:
        assert "cuda_shared_memory" not in closed.get("/v2").json()["extensions"]
        reply = register(closed, "r", b"x" * 64)
        assert (reply.status, "CUDA_SHARED_MEMORY" in error_of(reply)) == (501, True)
    with Service("--backend", "numpy", "--cuda-shared-memory", "true") as without:
        reply = register(without, "r", b"x" * 64)
        assert (reply.status, "numpy" in error_of(reply)) == (501, True)


def test_without_system_memory_a_name_that_is_no_devices_is_not_offered(owned: Segment) -> None:
    with DeviceService("--backend", "auto", "--cuda-shared-memory", "true") as alone:
        with registered(alone, "r", owned):
            put(owned, X)
            assert infer(alone, document(source(40), outputs=into(40))).status == 200
        for unknown in (
            infer(alone, document(source(40))),
            infer(alone, document(binary("FP32", [10], 40), outputs=into(40)), X.tobytes()),
        ):
            assert unknown.status == 501
            assert 'no CUDA shared memory region "r"' in error_of(unknown)
            assert "without --shared-memory-prefix" in error_of(unknown)


def test_regions_are_refused_once_the_device_is_lost(owned: Segment) -> None:
    options = ("--backend", "cupy", "--cuda-shared-memory", "true", "--drain-delay", "3")
    with DeviceService(*options) as running:
        with registered(running, "r", owned):
            running.fault()
            put(owned, X)
            request = document(source(40), outputs=into(40))
            assert [infer(running, request).status for _ in range(2)] == [503, 503]
            assert infer(running, document(binary("FP32", [10], 40)), X.tobytes()).status == 200
        assert running.process.wait(20) == 1


@pytest.mark.parametrize("to", [0, 1 << 20], ids=["in-place", "elsewhere"])
def test_a_device_rounds_the_hosts_shared_memory_as_a_whole(to: int) -> None:
    """Read and written in pieces that would not be worth it each."""
    nbytes = 1 << 20
    options = ("--gpu-min-bytes", str(nbytes), "--shared-memory-prefix", PREFIX)
    with DeviceService("--backend", "auto", *options) as running, segment(2 * nbytes) as system:
        body = json.dumps({"key": system.key, "offset": 0, "byte_size": 2 * nbytes}).encode()
        path = "/v2/systemsharedmemory/region/s/register"
        assert running.request("POST", path, body).status == 200
        for size, backend in ((nbytes, "cupy"), (nbytes - 4, "numpy")):
            put(system, np.full(nbytes // 4, 0.75, "<f4"))
            reply = infer(running, document(source(size, 0, "s"), outputs=into(size, to, "s")))
            assert reply.status == 200, reply.content
            assert reply.headers["Execution-Backend"] == backend
            assert content(system, size, to) == np.ones(size // 4, "<f4").tobytes()
