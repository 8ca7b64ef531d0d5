"""Kernels beside a copy on the device, its pipeline beside copies to and from it, and requests."""

from __future__ import annotations

import base64
import contextlib
import json
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPConnection

import cupy
import numpy as np

import tensor_round as tr
from support.http.native_form import ieee754
from support.services.server import Service
from tensor_round.contract.call import Call, Parameters
from tensor_round.contract.dtypes import BY_NAME, ROUNDABLE
from tensor_round.contract.functions import (
    Convert,
    Dequantize,
    FakeQuantize,
    Linear,
    Quantize,
    RoundToIntegral,
)
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends import proof
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.backends.cuda.backend import CupyBackend
from tensor_round_service.backends.cuda.cupy_device import CupyDevice, CupyStream
from tensor_round_service.backends.cuda.device import Stream
from tensor_round_service.backends.cuda.parameters import upload
from tensor_round_service.backends.devices import DeviceBuffer
from tensor_round_verify.patterns import samples


class NotMeasured(Exception):
    """Something here stands in the way; says what."""


#: Bytes that kernels are timed on; a smaller device has its eighth.
KERNEL_BYTES = 1 << 30
#: Bytes of the host tensor.
HOST_BYTES = 256 << 20
TRIES = 20


def seconds(stream: Stream, work: Callable[[], object]) -> float:
    """The shortest of many runs of what is queued, by the device's own clock."""
    work()
    best = np.inf
    for _ in range(TRIES):
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        work()
        stop.record()
        stop.synchronize()
        best = min(best, cupy.cuda.get_elapsed_time(start, stop) / 1e3)
    stream.wait()
    return float(best)


def kernels(device: CupyDevice) -> tuple[float, dict[str, dict[str, float]]]:
    """The bytes a second of a copy, read and written, and each kernel's speed as part of it."""
    ratios: dict[str, dict[str, float]] = {}
    with _filled(device) as (stream, source, target):
        nbytes = source.nbytes
        copying = seconds(stream, lambda: stream.copy(source, target))
        for dtype in ROUNDABLE:
            for rounding in Rounding if dtype.is_float else ():
                function, count = RoundToIntegral(rounding), dtype.count(nbytes)
                work = partial(stream.run, function, dtype, dtype, source, target, count)
                ratios.setdefault(dtype.name, {})[rounding] = copying / seconds(stream, work)
    return 2 * nbytes / copying, ratios


#: Casts that are timed and compared with NumPy's.
CASTS = (
    ("float32", "float8_e4m3fn"),
    ("float32", "float16"),
    ("float32", "bfloat16"),
    ("float32", "float4_e2m1fn"),
    ("float64", "float32"),
    ("float32", "int8"),
    ("int64", "float32"),
    ("float8_e4m3fn", "float32"),
)


def casts(backend: CupyBackend, device: CupyDevice) -> tuple[dict[str, float], dict[str, int]]:
    """Each cast's speed as part of a copy of the bytes that it reads and writes; its mismatches.

    It is compared with NumPy's on the hard patterns of the operands' type.
    """
    ratios: dict[str, float] = {}
    mismatches: dict[str, int] = {}
    host = NumpyBackend()
    with _filled(device) as (stream, source, target):
        nbytes = source.nbytes
        rate = 2 * nbytes / seconds(stream, lambda: stream.copy(source, target))
        for names in CASTS:
            dtype, into = (BY_NAME[name] for name in names)
            function, count = Convert(Rounding.TIES_TO_EVEN), nbytes * 8 // 64
            parts = source.part(0, dtype.nbytes(count)), target.part(0, into.nbytes(count))
            work = partial(stream.run, function, dtype, into, *parts, count)
            moved = dtype.nbytes(count) + into.nbytes(count)
            ratios[" to ".join(names)] = moved / seconds(stream, work) / rate
    for names in CASTS:
        dtype, into = (BY_NAME[name] for name in names)
        operands = samples(dtype.name).view(np.uint8)
        for rounding in Rounding:
            layout = Layout.of(dtype, (operands.size * 8 // dtype.width,))
            call = Call.packed_output(Convert(rounding), layout, into)
            found, right = (np.empty(call.output.byte_length, np.uint8) for _ in range(2))
            backend.round_on_device(call, operands, found)
            host.round(call, operands, right)
            wrong = int(np.count_nonzero(found != right))
            mismatches[f"{' to '.join(names)} {rounding}"] = wrong
    host.close()
    return ratios, mismatches


#: Quantizations that are timed and compared with NumPy's.
LINEAR: tuple[tuple[Linear, str, str, str], ...] = (
    (Quantize(), "float32", "float32", "int8"),
    (Quantize(), "float16", "float16", "uint8"),
    (Quantize(), "float32", "float32", "float8_e4m3fn"),
    (Quantize(), "float32", "float32", "int4"),
    (Dequantize(), "int8", "float32", "float32"),
    (Dequantize(), "uint16", "float32", "float16"),
    (FakeQuantize(), "float32", "float32", "float32"),
)


def quantizations(
    backend: CupyBackend, device: CupyDevice
) -> tuple[dict[str, float], dict[str, int]]:
    """The same of quantization: speeds with one scale, with one a row of 1024, and one a column."""
    ratios: dict[str, float] = {}
    mismatches: dict[str, int] = {}
    host = NumpyBackend()
    with _filled(device) as (stream, source, target):
        nbytes = source.nbytes
        rate = 2 * nbytes / seconds(stream, lambda: stream.copy(source, target))
        for function, *names in LINEAR:
            dtype, scale, into = map(BY_NAME.__getitem__, names)
            title, rows = f"{type(function).__name__} {names[0]} to {names[2]}", nbytes // 4096
            moved = dtype.nbytes(rows << 10) + into.nbytes(rows << 10)
            for way, counts in (("", (1, 1)), (" by rows", (rows, 1)), (" by columns", (1, 1024))):
                given = Parameters.of((rows, 1024), Layout.of(scale, counts))
                layouts = Layout.of(dtype, (rows, 1024)), Layout.of(into, (rows, 1024))
                call = Call(function, *layouts, layouts[0].byte_length, given)
                scales = np.ones(counts, scale.numpy).view(np.uint8).reshape(-1)
                places = upload(stream, device.allocate, call, scales)
                parts = (
                    source.part(0, layouts[0].byte_length),
                    target.part(0, layouts[1].byte_length),
                )
                work = partial(stream.run, function, dtype, into, *parts, rows << 10, places)
                ratios[title + way] = moved / seconds(stream, work) / rate
            mismatches[title] = 0
            for call, payload in proof.quantizations(function, dtype, scale, into):
                found, right = (np.empty(call.output.byte_length, np.uint8) for _ in range(2))
                backend.round_on_device(call, payload, found)
                host.round(call, payload, right)
                mismatches[title] += int(np.count_nonzero(found != right))
    host.close()
    return ratios, mismatches


@contextlib.contextmanager
def _filled(device: CupyDevice) -> Iterator[tuple[CupyStream, DeviceBuffer, DeviceBuffer]]:
    """A stream, and two buffers of one size, the first of them filled."""
    nbytes = min(KERNEL_BYTES, device.total_bytes // 8 & -4096)
    source, target = device.allocate(nbytes), device.allocate(nbytes)
    with device.stream() as stream:
        _fill(stream, source)
        yield stream, source, target


def _fill(stream: Stream, target: DeviceBuffer) -> None:
    """Random bytes: every kind of value of every dtype."""
    drawn = np.random.default_rng(1).integers(0, 256, 32 << 20, np.uint8)
    for start in range(0, target.nbytes, drawn.size):
        part = target.part(start, min(start + drawn.size, target.nbytes))
        stream.copy_in(drawn[: part.nbytes], part)
    stream.wait()


def pipeline(backend: CupyBackend, device: CupyDevice) -> tuple[float, dict[str, float]]:
    """A host tensor's way there and back as part of the slower copy; and both copies' speeds."""
    memory = backend.allocate(HOST_BYTES)
    memory[:] = 0
    backend.wait_until_pinned()
    if not device.is_pinned(memory):
        raise NotMeasured("the host's memory could not be page-locked (see ulimit -l)")
    there = device.allocate(HOST_BYTES)
    with device.stream() as stream:
        copies = {
            "to_device": HOST_BYTES / seconds(stream, lambda: stream.copy_in(memory, there)),
            "from_device": HOST_BYTES / seconds(stream, lambda: stream.copy_out(there, memory)),
        }
    layout = Layout.of(BY_NAME["float32"], (HOST_BYTES // 4,))
    call = Call.packed_output(RoundToIntegral(Rounding.TIES_TO_EVEN), layout)
    best = np.inf
    for _ in range(TRIES):
        began = time.perf_counter()
        backend.round_on_device(call, memory, memory)
        best = min(best, time.perf_counter() - began)
    return float(HOST_BYTES / best / min(copies.values())), copies


#: Bytes of a small request's tensor.
SMALL_BYTES = 4096
SMALL_REQUESTS = 500
#: Bytes of the tensor on the device; a smaller device has its eighth.
SHARED_BYTES = 1 << 30


def small_requests() -> dict[str, float]:
    """Median seconds of one after the other on one connection, by what rounds them."""
    found = {}
    for name, least in (("cupy", "0"), ("numpy", "1GiB")):
        with Service("--backend", "auto", "--gpu-min-bytes", least) as service:
            found[name] = _median_seconds(service, name)
            if b"tensor_round_device_memory_used_bytes{" not in service.get("/metrics").content:
                raise NotMeasured("/metrics has no memory of the device")
    return found


def _median_seconds(service: Service, name: str) -> float:
    headers = {"Operator-Descriptor": ieee754("float32", [SMALL_BYTES // 4])}
    payload = np.linspace(-9, 9, SMALL_BYTES // 4, dtype="<f4").tobytes()
    taken = []
    with contextlib.closing(service.connection()) as connection:
        for _ in range(SMALL_REQUESTS):
            began = time.perf_counter()
            by = _post(connection, "/round", payload, headers)
            taken.append(time.perf_counter() - began)
            if by != name:
                raise NotMeasured(f"a small request was rounded by {by}, not {name}")
    return statistics.median(taken)


def _post(
    connection: HTTPConnection, path: str, body: bytes, headers: dict[str, str] | None = None
) -> str | None:
    connection.request("POST", path, body, headers or {})
    response = connection.getresponse()
    content = response.read()
    if response.status != 200:
        raise NotMeasured(f"{path}: {response.status} {content[:300]!r}")
    return response.headers["Execution-Backend"]


def shared_memory(device: CupyDevice) -> tuple[float, float]:
    """Bytes a second, read and written, of requests on tensors in this process's device memory.

    Those of bare requests on registered regions, and those of the client's calls.
    """
    nbytes = min(SHARED_BYTES, device.total_bytes // 8 & -4096)
    with cupy.cuda.Device(device.number):
        # Of the driver itself: a pool's memory would be shared with all else that is in it.
        regions = {"in": cupy.cuda.Memory(nbytes), "out": cupy.cuda.Memory(nbytes)}
        drawn = np.random.default_rng(2).standard_normal(1 << 20, np.float32) * 100
        for start in range(0, nbytes - drawn.nbytes + 1, drawn.nbytes):
            cupy.cuda.runtime.memcpy(regions["in"].ptr + start, drawn.ctypes.data, drawn.nbytes, 1)
        options = ("--backend", "cupy", "--devices", str(device.number))
        with Service(*options, "--cuda-shared-memory", "true") as service:
            best = _shared_seconds(service, device.number, nbytes, regions)
            by_client = _client_seconds(service, nbytes, regions)
        response = np.empty_like(drawn)
        cupy.cuda.runtime.memcpy(response.ctypes.data, regions["out"].ptr, response.nbytes, 2)
    if response.tobytes() != np.rint(drawn).tobytes():
        raise NotMeasured("a tensor in shared memory came back wrong")
    return 2 * nbytes / best, 2 * nbytes / by_client


def _client_seconds(service: Service, nbytes: int, regions: dict[str, cupy.cuda.Memory]) -> float:
    """Of the Python client with CuPy's arrays, which registers them for each call."""
    x, out = (
        cupy.ndarray((nbytes // 4,), cupy.float32, cupy.cuda.MemoryPointer(memory, 0))
        for memory in regions.values()
    )
    best = np.inf
    with tr.Client(service.url) as client:
        for _ in range(TRIES):
            began = time.perf_counter()
            if client.round(x, out=out) is not out:
                raise NotMeasured("the client gave back another array")
            best = min(best, time.perf_counter() - began)
    return float(best)


def _shared_seconds(
    service: Service, number: int, nbytes: int, regions: dict[str, cupy.cuda.Memory]
) -> float:
    with contextlib.closing(service.connection()) as connection:
        for name, memory in regions.items():
            handle = base64.b64encode(cupy.cuda.runtime.ipcGetMemHandle(memory.ptr)).decode()
            document = {"raw_handle": {"b64": handle}, "device_id": number, "byte_size": nbytes}
            path = f"/v2/cudasharedmemory/region/{name}/register"
            _post(connection, path, json.dumps(document).encode())
        request = json.dumps(_inference(nbytes)).encode()
        best = np.inf
        for _ in range(TRIES):
            began = time.perf_counter()
            _post(connection, "/v2/models/round/infer", request)
            best = min(best, time.perf_counter() - began)
        _post(connection, "/v2/cudasharedmemory/unregister", b"")
    return float(best)


def _inference(nbytes: int) -> dict[str, object]:
    def part(name: str) -> dict[str, object]:
        return {"shared_memory_region": name, "shared_memory_byte_size": nbytes}

    tensor = {"name": "X", "datatype": "FP32", "shape": [nbytes // 4], "parameters": part("in")}
    return {"inputs": [tensor], "outputs": [{"name": "Y", "parameters": part("out")}]}
