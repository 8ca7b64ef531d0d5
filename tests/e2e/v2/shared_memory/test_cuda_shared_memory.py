"""CUDA shared memory on a real service whose device is this CPU.

Its memory can be shared by handles too: they name POSIX objects. So a test is one process
and the service another, as with CUDA.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from support.devices.host_kernels import NO_COMPILER, compiler
from support.http.inference_form import AWAY, EVEN, OF_X, X, document, error_of, tensor
from support.segments import PREFIX, Segment, segment
from support.services.device_service import DeviceService
from support.services.server import Service
from support.v2 import regions
from support.v2.callers import Caller, Outcome
from support.v2.regions import at, into, put, source
from tensor_round_verify.reference import all_patterns, rounded

pytestmark = [pytest.mark.skipif(compiler() is None, reason=NO_COMPILER), pytest.mark.slow]
SIZE = 1 << 18


def handle(memory: Segment) -> bytes:
    return memory.key.encode().ljust(64, b"\0")


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    options = ("--cuda-shared-memory", "true", "--shared-memory-prefix", PREFIX)
    with DeviceService("--backend", "auto", *options) as running:
        yield running


@pytest.fixture(scope="module")
def closed() -> Iterator[Service]:
    """A service that has a device, and does not share its memory."""
    with DeviceService("--backend", "cupy") as running:
        yield running


@pytest.fixture(scope="module")
def without() -> Iterator[Service]:
    """A service that would share the memory of a device, but has none."""
    options = ("--backend", "numpy", "--cuda-shared-memory", "true")
    with Service(*options) as running:
        yield running


@pytest.fixture(scope="module")
def alone() -> Iterator[Service]:
    """A service that shares the memory of its device, and not the system's."""
    options = ("--backend", "auto", "--cuda-shared-memory", "true")
    with DeviceService(*options) as running:
        yield running


@pytest.fixture(scope="module")
def large() -> Iterator[Service]:
    """A service whose device rounds what has 1 MiB."""
    options = ("--gpu-min-bytes", str(1 << 20), "--shared-memory-prefix", PREFIX)
    with DeviceService("--backend", "auto", *options) as running:
        yield running


@pytest.fixture
def owned() -> Iterator[Segment]:
    with segment(SIZE) as made:
        yield made


def register(caller: Caller, name: str, raw: bytes, **members: Any) -> Outcome:
    sound = {"device_id": 0, "byte_size": SIZE}
    return caller.ask("CudaSharedMemoryRegister", name=name, raw_handle=raw, **sound | members)


@contextlib.contextmanager
def registered(caller: Caller, name: str, memory: Segment) -> Iterator[None]:
    assert register(caller, name, handle(memory)).head == {}
    yield
    assert caller.ask("CudaSharedMemoryUnregister", name=name).head == {}


@pytest.fixture
def region(caller: Caller, owned: Segment) -> Iterator[Segment]:
    """The whole of some memory, registered as r."""
    with registered(caller, "r", owned):
        yield owned


def content(memory: Segment, nbytes: int, offset: int = 0) -> bytes:
    return memory.memory[offset : offset + nbytes].tobytes()


@pytest.mark.parametrize(("start", "end"), [(0, 4096), (0, 0), (4, 132), (1, 4099)])
def test_rounding_within_the_devices_memory(
    caller: Caller, region: Segment, start: int, end: int
) -> None:
    put(region, X, start)
    outcome = caller.infer(document(source(40, start), outputs=into(40, end)))
    assert outcome.payload == b""
    assert outcome.fields["execution-backend"] == "cupy"
    assert content(region, 40, end) == EVEN.tobytes()
    assert start == end or content(region, 40, start) == X.tobytes()
    assert outcome.output["parameters"] == at(40, end or None)
    assert "data" not in outcome.output


@pytest.mark.parametrize(("dtype", "datatype"), [("float16", "FP16"), ("bfloat16", "BF16")])
def test_every_pattern_and_every_kernel(
    caller: Caller, region: Segment, dtype: str, datatype: str
) -> None:
    patterns = all_patterns(dtype)
    for rounding in ("ties_to_away", "toward_negative"):
        put(region, patterns)
        given = tensor(datatype, [patterns.size], parameters=at(patterns.nbytes))
        request = document(given, parameters={"rounding": rounding}, outputs=into(patterns.nbytes))
        assert caller.infer(request).payload == b""
        right = rounded(patterns, dtype, rounding).tobytes()
        assert content(region, patterns.nbytes) == right


def test_integers_are_copied_within_the_device(caller: Caller, region: Segment) -> None:
    given = np.arange(40, dtype="<i4")
    put(region, given)
    request = document(tensor("INT32", [40], parameters=at(160)), outputs=into(160, 512))
    assert caller.infer(request).status == 200
    assert content(region, 160, 512) == given.tobytes()


def test_a_body_is_rounded_into_the_devices_memory(caller: Caller, region: Segment) -> None:
    outcome = caller.infer(document(OF_X, outputs=into(40, 64)), X.tobytes())
    assert outcome.payload == b""
    assert outcome.fields["execution-backend"] == "cupy"
    assert content(region, 40, 64) == EVEN.tobytes()
    numbers = document(tensor("FP32", [2], data=[2.5, -0.5]), outputs=into(8))
    assert caller.infer(numbers).status == 200
    assert content(region, 8) == np.array([2, -0.0], "<f4").tobytes()


def test_the_devices_memory_is_answered_in_a_body(caller: Caller, region: Segment) -> None:
    put(region, X, 8)
    request = document(source(40, 8), parameters={"rounding": "ties_to_away"})
    assert caller.infer(request).payload == AWAY.tobytes()
    assert content(region, 40, 8) == X.tobytes(), "a client's input is not ours to write in"


def test_between_the_devices_memory_and_the_hosts(caller: Caller, region: Segment) -> None:
    with segment(SIZE) as system:
        assert regions.register(caller, "s", system.key, SIZE).status == 200
        put(region, X)
        assert caller.infer(document(source(40), outputs=into(40, 80, "s"))).payload == b""
        assert content(system, 40, 80) == EVEN.tobytes()
        put(system, X, 160)
        assert caller.infer(document(source(40, 160, "s"), outputs=into(40, 240))).payload == b""
        assert content(region, 40, 240) == EVEN.tobytes()
        assert regions.unregister(caller).status == 200


def test_status(caller: Caller, owned: Segment) -> None:
    def told(name: str = "") -> Outcome:
        return caller.ask("CudaSharedMemoryStatus", **({"name": name} if name else {}))

    with registered(caller, "t", owned):
        for name in ("", "t"):
            assert told(name).head == [{"name": "t", "device_id": 0, "byte_size": SIZE}]
        assert told("nobody's").status == 404
    assert told().head == []


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "overlap": (document(source(40), outputs=into(40, 8)), "share no byte with it"),
    "behind-the-end": (document(source(40, SIZE - 36), outputs=into(40)), "reach to"),
    "far-behind-the-end": (document(source(40), outputs=into(40, 1 << 62)), "reach to"),
}


@pytest.mark.parametrize(("request_", "says"), REFUSED.values(), ids=REFUSED)
def test_refused_requests(
    caller: Caller, region: Segment, request_: dict[str, Any], says: str
) -> None:
    before = content(region, SIZE)
    outcome = caller.infer(request_)
    assert outcome.status == 400
    assert says in outcome.error
    assert content(region, SIZE) == before


def test_a_region_that_is_not_registered_is_not_found(caller: Caller) -> None:
    assert caller.infer(document(source(40, name="nobody's"), outputs=into(40))).status == 404


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"byte_size": SIZE + 1}, f"the allocation has {SIZE} bytes"),
        ({"byte_size": 0}, "byte_size: must be an integer of at least 1"),
        ({"device_id": 3}, "this service does not use device 3"),
        ({"device_id": -1}, "device_id: must be an integer of at least 0"),
        ({"raw": b""}, "64 bytes"),
        ({"raw": b"x" * 63}, "64 bytes"),
        ({"raw": b"x" * 64}, "cannot be opened"),
    ],
)
def test_refused_registrations(
    caller: Caller, owned: Segment, members: dict[str, Any], says: str
) -> None:
    outcome = register(caller, "bad", **{"raw": handle(owned), **members})
    assert outcome.status == 400
    assert says in outcome.error
    assert caller.ask("CudaSharedMemoryStatus").head == []


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"device_id": True}, "device_id"),
        ({"raw_handle": None}, "64 bytes"),
        ({"raw_handle": {"b64": "####"}}, "64 bytes"),
    ],
)
def test_wrong_types_in_json(service: Service, members: dict[str, Any], says: str) -> None:
    sound = {"raw_handle": {"b64": "A" * 86 + "=="}, "device_id": 0, "byte_size": SIZE}
    body = json.dumps(sound | members).encode()
    reply = service.request("POST", "/v2/cudasharedmemory/region/bad/register", body)
    assert reply.status == 400
    assert says in error_of(reply)


def test_a_name_is_taken_once(caller: Caller, region: Segment) -> None:
    outcome = register(caller, "r", handle(region))
    assert (outcome.status, "registered already" in outcome.error) == (400, True)


def test_it_is_an_extension_and_off_by_default(
    call: type[Caller], caller: Caller, closed: Service, without: Service
) -> None:
    def extensions(caller: Caller) -> list[str]:
        told: list[str] = caller.ask("ServerMetadata").head["extensions"]
        return told

    assert "cuda_shared_memory" in extensions(caller)
    assert "cuda_shared_memory" not in extensions(call(closed))
    for service, says in ((closed, "CUDA_SHARED_MEMORY"), (without, "numpy")):
        outcome = register(call(service), "r", b"x" * 64)
        assert (outcome.status, says in outcome.error) == (501, True)


def test_without_system_memory_a_name_that_is_no_devices_is_not_offered(
    call: type[Caller], alone: Service, owned: Segment
) -> None:
    caller = call(alone)
    with registered(caller, "r", owned):
        put(owned, X)
        assert caller.infer(document(source(40), outputs=into(40))).status == 200
    for unknown in (
        caller.infer(document(source(40))),
        caller.infer(document(OF_X, outputs=into(40)), X.tobytes()),
    ):
        assert unknown.status == 501
        assert 'no CUDA shared memory region "r"' in unknown.error
        assert "without --shared-memory-prefix" in unknown.error


def test_regions_are_refused_once_the_device_is_lost(call: type[Caller], owned: Segment) -> None:
    options = ("--backend", "cupy", "--cuda-shared-memory", "true", "--drain-delay", "3")
    with DeviceService(*options) as running:
        caller = call(running)
        with registered(caller, "r", owned):
            running.fault()
            put(owned, X)
            request = document(source(40), outputs=into(40))
            assert [caller.infer(request).status for _ in range(2)] == [503, 503]
            assert caller.infer(document(OF_X), X.tobytes()).status == 200
        assert running.process.wait(20) == 1


@pytest.mark.parametrize("to", [0, 1 << 20], ids=["in-place", "elsewhere"])
def test_a_device_rounds_the_hosts_shared_memory_as_a_whole(
    call: type[Caller], large: Service, to: int
) -> None:
    """Read and written in pieces that would not be worth it each."""
    caller, nbytes = call(large), 1 << 20
    with segment(2 * nbytes) as system:
        assert regions.register(caller, "s", system.key, 2 * nbytes).status == 200
        for size, backend in ((nbytes, "cupy"), (nbytes - 4, "numpy")):
            put(system, np.full(nbytes // 4, 0.75, "<f4"))
            outcome = caller.infer(document(source(size, 0, "s"), outputs=into(size, to, "s")))
            assert outcome.payload == b""
            assert outcome.fields["execution-backend"] == backend
            assert content(system, size, to) == np.ones(size // 4, "<f4").tobytes()
        assert regions.unregister(caller, "s").status == 200
