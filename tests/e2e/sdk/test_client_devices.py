"""Arrays on a GPU through both clients: there if the service can get at them, else by copies."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensor_round as tr
from support.clients import KINDS, AnyClient
from support.devices.host_kernels import NO_COMPILER, compiler
from support.devices.shared_arrays import DeviceArray, SharedPool, pretend_imported
from support.services.server import Service
from support.services.variants import DeviceService
from tensor_round.arrays import cuda_driver
from tensor_round.arrays import device as device_arrays
from tensor_round.contract.dtypes import BY_NAME
from tensor_round_verify.reference import FLOATS, all_patterns, rounded

pytestmark = pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)

X = np.linspace(-9, 9, 1000, dtype="<f4").reshape(10, 100)


@pytest.fixture(scope="module")
def sharing() -> Iterator[Service]:
    options = ("--cuda-shared-memory", "true", "--max-tensor-bytes", "1MiB")
    with DeviceService("--backend", "cupy", *options) as running:
        yield running


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[SharedPool]:
    pool = SharedPool()
    monkeypatch.setattr(device_arrays, "LIBRARIES", (*device_arrays.LIBRARIES, pool))
    monkeypatch.setattr(cuda_driver, "open_driver", lambda: pool)
    pretend_imported(monkeypatch)
    yield pool
    pool.close()


@pytest.fixture(params=KINDS.values(), ids=list(KINDS))
def client(request: pytest.FixtureRequest, sharing: Service) -> Iterator[AnyClient]:
    with request.param(sharing.url) as made:
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


@pytest.mark.parametrize("dtype", [*FLOATS, "int64"])
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


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
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

    def elsewhere(address: int) -> cuda_driver.Export:
        found = export(address)
        return cuda_driver.Export(b"gone".ljust(64, b"\0"), 0, found.nbytes, found.offset)

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
