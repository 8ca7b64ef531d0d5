"""Arrays on a GPU through both clients: there if the service can get at them, else by copies.

The device is this CPU. Its allocations are POSIX shared memory, and a handle names one: so another
process can map them, as :class:`support.devices.host_device.HostDevice` does.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tensor_round as tr
from support.clients import AnyClient
from support.devices.host_kernels import NO_COMPILER, compiler
from support.segments import Segment, segment
from support.services.server import Service
from support.services.variants import DeviceService
from tensor_round.arrays import device as device_arrays
from tensor_round.arrays.device import DriverFailed, Export
from tensor_round.contract.dtypes import BY_NAME, from_numpy
from tensor_round_verify.reference import FLOATS, all_patterns, rounded

pytestmark = pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)

X = np.linspace(-9, 9, 1000, dtype="<f4").reshape(10, 100)


MODULE = "hostcuda"


class DeviceArray:
    """An array there; tests look at ``seen``, which CUDA would not let them."""

    def __init__(self, seen: npt.NDArray[Any]) -> None:
        self.seen = seen
        self.shape = seen.shape


class SharedPool:
    """A device's memory: one allocation of which arrays take parts, as a library's pool does."""

    def __init__(self, nbytes: int = 1 << 22) -> None:
        self._stack = ExitStack()
        self._segment: Segment = self._stack.enter_context(segment(nbytes))
        self._taken = 0
        self.can_export = True
        self.waits = 0

    def close(self) -> None:
        self._stack.close()

    @property
    def base(self) -> int:
        return self._segment.memory.ctypes.data

    def array(self, content: npt.NDArray[Any]) -> DeviceArray:
        """A packed array there with this content."""
        memory = self._segment.memory[self._taken : self._taken + content.nbytes]
        self._taken += content.nbytes + 256 & -256
        array = DeviceArray(memory.view(content.dtype).reshape(content.shape))
        array.seen[...] = content
        return array

    # What a driver does.

    def export(self, address: int) -> Export:
        if not self.can_export:
            raise DriverFailed("cuIpcGetMemHandle failed with CUDA error 801")
        handle = self._segment.key.encode().ljust(64, b"\0")
        return Export(handle, 0, self._segment.memory.size, address - self.base)

    def wait(self, address: int) -> None:
        assert 0 <= address - self.base < self._segment.memory.size
        self.waits += 1

    def read(self, address: int, target: npt.NDArray[np.uint8]) -> None:
        start = address - self.base
        target[:] = self._segment.memory[start : start + target.size]

    def write(self, source: npt.NDArray[np.uint8], address: int) -> None:
        start = address - self.base
        self._segment.memory[start : start + source.size] = source

    # What a library does.

    module = MODULE

    def owns(self, x: Any) -> bool:
        return isinstance(x, DeviceArray)

    def dtype(self, x: DeviceArray) -> str:
        row = from_numpy(x.seen.dtype)
        return str(x.seen.dtype) if row is None else row.name

    def address(self, x: DeviceArray) -> int:
        return x.seen.ctypes.data

    def nbytes(self, x: DeviceArray) -> int:
        return x.seen.nbytes

    def is_packed(self, x: DeviceArray) -> bool:
        return bool(x.seen.flags.c_contiguous)

    def packed_copy(self, x: DeviceArray) -> DeviceArray:
        return self.array(x.seen)

    def empty_like(self, x: DeviceArray, dtype: str) -> DeviceArray:
        return self.array(np.full(x.shape, 7, BY_NAME[dtype].numpy))

    def assign(self, target: DeviceArray, x: DeviceArray) -> None:
        target.seen[...] = x.seen


@pytest.fixture(scope="module")
def sharing() -> Iterator[Service]:
    options = ("--cuda-shared-memory", "true", "--max-tensor-bytes", "1MiB")
    with DeviceService("--backend", "cupy", *options) as running:
        yield running


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[SharedPool]:
    pool = SharedPool()
    monkeypatch.setattr(device_arrays, "LIBRARIES", (*device_arrays.LIBRARIES, pool))
    monkeypatch.setattr(device_arrays, "open_driver", lambda: pool)
    monkeypatch.setitem(sys.modules, MODULE, ModuleType(MODULE))  # as if it were imported
    yield pool
    pool.close()


@pytest.fixture
def client(kind: type[AnyClient], sharing: Service) -> Iterator[AnyClient]:
    with kind(sharing.url) as made:
        yield made


def regions(service: Service) -> Any:
    return service.get("/v2/cudasharedmemory/status").json()


def assert_like(y: Any, right: np.ndarray) -> None:
    assert isinstance(y, DeviceArray)
    assert y.shape == right.shape
    assert y.seen.dtype == right.dtype
    assert y.seen.tobytes() == right.tobytes()


def test_an_array_comes_back_on_the_device_and_none_of_it_crossed_the_socket(
    client: AnyClient, sharing: Service, pool: SharedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "read", None)
    monkeypatch.setattr(pool, "write", None)
    x = pool.array(X)
    assert_like(client.round(x), np.rint(X))
    assert_like(x, X)
    assert pool.waits, "what the caller queued must have happened"
    assert regions(sharing) == []


@pytest.mark.parametrize(
    "dtype", [*(name for name in FLOATS if not BY_NAME[name].is_sub_byte), "int64"]
)
def test_every_dtype(client: AnyClient, pool: SharedPool, dtype: str) -> None:
    row = BY_NAME[dtype]
    patterns = np.arange(600, dtype=row.bits) * row.bits.type(101)
    if row.itemsize <= 2:
        patterns = all_patterns(dtype)
    y = client.round(pool.array(patterns.view(row.numpy)), "toward_negative")
    assert_like(y, rounded(patterns, dtype, "toward_negative").view(row.numpy))


def test_the_dialects_operators(client: AnyClient, pool: SharedPool) -> None:
    x = pool.array(X)
    assert_like(client.round(x, tr.OnnxRound(opset_version=22)), np.rint(X))
    assert_like(client.round(x, tr.DirectMLRound(rounding_mode="TOWARD_ZERO")), np.trunc(X))
    with pytest.raises(tr.InvalidDescriptor):
        client.round(pool.array(X.astype(np.int32)), tr.OnnxRound())


def test_casts_stay_on_the_device(
    client: AnyClient, pool: SharedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "read", None)
    x = pool.array(X)
    for to in ("float16", "float64", "float8_e5m2"):
        assert_like(client.cast(x, to), X.astype(BY_NAME[to].numpy))
    out = pool.array(np.zeros(X.shape, "<f8"))
    assert client.cast(x, np.float64, "onnx", out=out) is out
    assert_like(out, X.astype("<f8"))
    with pytest.raises(tr.InvalidArgument, match="out has dtype float64, the result has int8"):
        client.cast(x, "int8", out=out)
    with pytest.raises(tr.InvalidArgument, match="hostcuda has no elements of 4 bits"):
        client.cast(x, "int4")


def test_out_on_the_operand_s_memory_is_no_wrong_result(
    client: AnyClient, pool: SharedPool
) -> None:
    memory = pool.array(np.concatenate([X, X]))
    x, halves = DeviceArray(memory.seen[:10]), memory.seen.reshape(-1).view("<f2")
    for start in (0, 500, 1500, 2500):
        memory.seen[:10] = X
        out = DeviceArray(halves[start : start + X.size].reshape(X.shape))
        client.cast(x, "float16", out=out)
        assert_like(out, X.astype("<f2"))


def test_operator_without_a_model_of_ieee754_is_copied(client: AnyClient, pool: SharedPool) -> None:
    values = np.full(3, 1.0009765625, np.float32)
    for _ in range(2):
        x = pool.array(values)
        assert_like(client.round(x, "stablehlo:reduce_precision:5:7"), np.ones(3, np.float32))


def test_in_place_and_into_another(client: AnyClient, pool: SharedPool) -> None:
    x, out = pool.array(X), pool.array(np.zeros_like(X))
    assert client.round(x, out=out) is out
    assert_like(out, np.rint(X))
    assert client.round(x, out=x) is x
    assert_like(x, np.rint(X))


def test_arrays_with_strides(client: AnyClient, pool: SharedPool) -> None:
    wide = pool.array(X)
    part = DeviceArray(wide.seen[::2, ::3])
    assert_like(client.round(part), np.rint(X[::2, ::3]))
    client.round(part, out=part)
    right = X.copy()
    right[::2, ::3] = np.rint(X[::2, ::3])
    assert_like(wide, right)
    overlapping = DeviceArray(wide.seen.reshape(-1)[:500])
    shifted = DeviceArray(wide.seen.reshape(-1)[3:503])
    given = overlapping.seen.copy()
    client.round(overlapping, "ties_to_away", out=shifted)
    assert_like(shifted, rounded(given.view("<u4"), "float32", "ties_to_away").view("<f4"))


def test_empty_and_single(client: AnyClient, pool: SharedPool) -> None:
    assert_like(client.round(pool.array(np.zeros((0, 3), "<f4"))), np.zeros((0, 3), "<f4"))
    assert_like(client.round(pool.array(np.array(2.5, "<f8"))), np.array(2.0, "<f8"))


def test_outs_that_do_not_fit(client: AnyClient, pool: SharedPool) -> None:
    x = pool.array(X)
    for out in (
        np.empty_like(X),
        pool.array(X[:3]),
        pool.array(X.astype(ml_dtypes.bfloat16)),
    ):
        with pytest.raises(tr.InvalidArgument, match="out"):
            client.round(x, out=out)


def copies_once(client: AnyClient, pool: SharedPool, caplog: pytest.LogCaptureFixture) -> str:
    """Rounded right twice, and said once; what was said."""
    caplog.set_level(logging.WARNING, "tensor_round")
    for _ in range(2):
        assert_like(client.round(pool.array(X)), np.rint(X))
    (said,) = caplog.messages
    return said


def test_memory_that_cannot_be_shared_is_copied(
    client: AnyClient, pool: SharedPool, caplog: pytest.LogCaptureFixture
) -> None:
    pool.can_export = False
    assert "CUDA error 801" in copies_once(client, pool, caplog)


def test_a_service_without_shared_memory_gets_copies(
    kind: type[AnyClient], pool: SharedPool, caplog: pytest.LogCaptureFixture
) -> None:
    with Service("--backend", "numpy") as service, kind(service.url) as client:
        assert "CUDA_SHARED_MEMORY" in copies_once(client, pool, caplog)


def test_a_service_that_cannot_open_a_handle_gets_copies(
    client: AnyClient,
    pool: SharedPool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As one on another host cannot."""
    export = pool.export

    def elsewhere(address: int) -> Export:
        found = export(address)
        return Export(b"gone".ljust(64, b"\0"), 0, found.nbytes, found.offset)

    monkeypatch.setattr(pool, "export", elsewhere)
    assert "cannot be opened" in copies_once(client, pool, caplog)


def test_an_array_over_the_services_limit_is_copied_in_tiles(
    sharing: Service, pool: SharedPool, caplog: pytest.LogCaptureFixture
) -> None:
    large = np.resize(X, (300, 1000))
    with tr.Client(sharing.url, tile_bytes=1 << 18) as client:
        assert_like(client.round(pool.array(large)), np.rint(large))
        assert "limit" in caplog.messages[0]
        caplog.clear()
        assert_like(client.round(pool.array(X)), np.rint(X))
        assert caplog.messages == []
    assert regions(sharing) == []
