"""CUDA shared memory on a real service whose device is this CPU: what the system's has not."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from support.devices.host_kernels import NO_COMPILER, compiler
from support.http.inference_form import EVEN, OF_X, X, document, error_of, tensor
from support.segments import PREFIX, Segment, segment
from support.services.server import Service
from support.services.variants import DeviceService
from support.v2.callers import Caller
from support.v2.regions import CUDA, SIZE, SYSTEM, Memory, at, found, into, put, source
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import rounded

pytestmark = [pytest.mark.skipif(compiler() is None, reason=NO_COMPILER), pytest.mark.slow]
IN_PLACE = document(source(40), outputs=into(40))


@pytest.fixture(scope="module")
def memory() -> Memory:
    return CUDA


@pytest.mark.usefixtures("region")
@pytest.mark.parametrize(("dtype", "datatype"), [("float16", "FP16"), ("bfloat16", "BF16")])
def test_patterns_and_kernels(caller: Caller, owned: Segment, dtype: str, datatype: str) -> None:
    patterns = samples(dtype)[: SIZE // 2]
    nbytes = patterns.nbytes
    for rounding in ("ties_to_away", "toward_negative"):
        put(owned, patterns)
        given = tensor(datatype, [patterns.size], parameters=at(nbytes))
        request = document(given, parameters={"rounding": rounding}, outputs=into(nbytes))
        assert caller.infer(request).payload == b""
        assert owned.memory[:nbytes].tobytes() == rounded(patterns, dtype, rounding).tobytes()


@pytest.mark.usefixtures("region")
def test_integers_are_copied_within_the_device(caller: Caller, owned: Segment) -> None:
    given = np.arange(40, dtype="<i4")
    put(owned, given)
    request = document(tensor("INT32", [40], parameters=at(160)), outputs=into(160, 512))
    assert caller.infer(request).status == 200
    assert owned.memory[512:672].tobytes() == given.tobytes()


@pytest.mark.usefixtures("region")
def test_the_host_quantizes_what_has_no_kernel(caller: Caller, owned: Segment) -> None:
    x, scale = np.array([-300, -3, 0, 5, 7], "<i4"), np.array([2, 4], "<i4")
    put(owned, x)
    for index in (0, 1):
        put(owned, scale, 100)
        request = document(
            tensor("INT32", [5], "x", parameters=at(20)),
            outputs=[{"name": "y", "parameters": at(5, 300)}],
            parameters={"to": "int8"},
        )
        place = tensor("INT32", [], "y_scale", parameters=at(4, 100 + 4 * index))
        inline = tensor("INT32", [], "y_scale", data=scale[index : index + 1].tolist())
        request["inputs"] += [(place, inline)[index]]
        outcome = caller.infer(request, None, "onnx_quantize_linear")
        assert outcome.fields["execution-backend"] == "numpy", outcome
        right = np.clip(np.rint(x / scale[index]), -128, 127).astype("i1")
        np.testing.assert_array_equal(owned.memory[300:305].view("i1"), right)


@pytest.mark.usefixtures("region")
def test_between_the_devices_memory_and_the_hosts(caller: Caller, owned: Segment) -> None:
    with segment(SIZE) as system:
        assert SYSTEM.register(caller, "s", system.key).status == 200
        put(owned, X)
        assert caller.infer(document(source(40), outputs=into(40, 80, "s"))).payload == b""
        np.testing.assert_array_equal(found(system, 80), EVEN)
        put(system, X, 160)
        assert caller.infer(document(source(40, 160, "s"), outputs=into(40, 240))).payload == b""
        np.testing.assert_array_equal(found(owned, 240), EVEN)
        assert SYSTEM.unregister(caller).status == 200


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"byte_size": SIZE + 1}, f"the allocation has {SIZE} bytes"),
        ({"byte_size": 0}, "byte_size: must be an integer of at least 1"),
        ({"device_id": 3}, "this service does not use device 3"),
        ({"device_id": -1}, "device_id: must be an integer of at least 0"),
        ({"raw_handle": b""}, "64 bytes"),
        ({"raw_handle": b"x" * 63}, "64 bytes"),
        ({"raw_handle": b"x" * 64}, "cannot be opened"),
    ],
)
def test_refused_registrations(
    caller: Caller, owned: Segment, members: dict[str, Any], says: str
) -> None:
    outcome = CUDA.register(caller, "bad", owned.key, **members)
    assert outcome.status == 400
    assert says in outcome.error
    assert CUDA.registered(caller).head == []


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"device_id": True}, "device_id"),
        ({"raw_handle": None}, "64 bytes"),
        ({"raw_handle": {}}, "64 bytes"),
        ({"raw_handle": {"b64": "####"}}, "64 bytes"),
    ],
)
def test_wrong_types_in_json(service: Service, members: dict[str, Any], says: str) -> None:
    sound = {"raw_handle": {"b64": "A" * 86 + "=="}, "device_id": 0, "byte_size": SIZE}
    body = json.dumps(sound | members).encode()
    reply = service.request("POST", "/v2/cudasharedmemory/region/bad/register", body)
    assert reply.status == 400
    assert says in error_of(reply)


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        (DeviceService, ("--backend", "cupy"), "CUDA_SHARED_MEMORY"),
        (Service, ("--backend", "numpy", "--cuda-shared-memory", "true"), "numpy"),
    ],
    ids=["off", "without a device"],
)
def test_it_may_not_be_offered(
    call: type[Caller], kind: type[Service], options: tuple[str, ...], says: str
) -> None:
    with kind(*options) as service:
        caller = call(service)
        assert "cuda_shared_memory" not in caller.ask("ServerMetadata").head["extensions"]
        outcome = CUDA.register(caller, "r", "x" * 64)
        assert (outcome.status, says in outcome.error) == (501, True)


def test_without_system_memory_a_name_that_is_no_devices_is_not_offered(
    call: type[Caller], owned: Segment
) -> None:
    with DeviceService("--backend", "auto", "--cuda-shared-memory", "true") as service:
        caller = call(service)
        assert CUDA.register(caller, "r", owned.key).status == 200
        put(owned, X)
        assert caller.infer(IN_PLACE).status == 200
        assert CUDA.unregister(caller).status == 200
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
        assert CUDA.register(caller, "r", owned.key).status == 200
        running.fault()
        put(owned, X)
        assert [caller.infer(IN_PLACE).status for _ in range(2)] == [503, 503]
        assert caller.infer(document(OF_X), X.tobytes()).status == 200
        assert CUDA.unregister(caller).status == 200
        assert running.process.wait(20) == 1


@pytest.mark.parametrize("to", [0, 1 << 20], ids=["in-place", "elsewhere"])
def test_a_device_rounds_the_hosts_shared_memory_as_a_whole(call: type[Caller], to: int) -> None:
    """Read and written in pieces that would not be worth it each."""
    nbytes = 1 << 20
    options = ("--gpu-min-bytes", str(nbytes), "--shared-memory-prefix", PREFIX)
    with DeviceService("--backend", "auto", *options) as service, segment(2 * nbytes) as system:
        caller = call(service)
        assert SYSTEM.register(caller, "s", system.key, 2 * nbytes).status == 200
        for size, backend in ((nbytes, "cupy"), (nbytes - 4, "numpy")):
            put(system, np.full(nbytes // 4, 0.75, "<f4"))
            outcome = caller.infer(document(source(size, 0, "s"), outputs=into(size, to, "s")))
            assert outcome.payload == b""
            assert outcome.fields["execution-backend"] == backend
            np.testing.assert_array_equal(found(system, to, size), 1)
