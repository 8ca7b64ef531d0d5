"""Registrations of system shared memory: refused, shared by workers, outlived by objects."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import Any

import numpy as np
import pytest

from support.http.inference_form import (
    EVEN,
    X,
    document,
    error_of,
    infer,
    infer_path,
)
from support.http.region_form import SIZE, TRIES, found, into, post, put, source
from support.segments import PREFIX, Segment, segment
from support.services.server import Reply, Service
from support.services.workers import workers_of

NOT_REGISTERED: dict[str, tuple[dict[str, Any], str]] = {
    "no-key": ({"offset": 0, "byte_size": 4}, "key: must be a string"),
    "key-number": ({"key": 7, "byte_size": 4}, "key: must be a string"),
    "no-size": ({"key": "K"}, "byte_size: must be an integer of at least 1"),
    "size-0": ({"key": "K", "byte_size": 0}, "byte_size: must be"),
    "size-text": ({"key": "K", "byte_size": "4"}, "byte_size: must be an integer"),
    "size-float": ({"key": "K", "byte_size": 4.0}, "byte_size: must be an integer"),
    "size-true": ({"key": "K", "byte_size": True}, "byte_size: must be an integer"),
    "offset-negative": ({"key": "K", "byte_size": 4, "offset": -1}, "offset: must be an integer"),
    "too-large": ({"key": "K", "byte_size": SIZE + 1}, "65536 bytes"),
    "sum-wraps": ({"key": "K", "byte_size": 2, "offset": 2**64 - 1}, "65536 bytes"),
    "outside": ({"key": "/psm_other", "byte_size": 4}, "must begin with"),
    "above": ({"key": "/../" + PREFIX, "byte_size": 4}, "must begin with"),
    "below": ({"key": PREFIX + "/x", "byte_size": 4}, "no further slash"),
    "nothing-there": ({"key": PREFIX + "nothing", "byte_size": 4}, "no shared memory object"),
}


@pytest.mark.parametrize(("members", "says"), NOT_REGISTERED.values(), ids=NOT_REGISTERED)
def test_what_is_not_registered(
    service: Service, owned: Segment, members: dict[str, Any], says: str
) -> None:
    if members.get("key") == "K":
        members = {**members, "key": owned.key}
    reply = post(service, "/region/r/register", **members)
    assert reply.status == 400
    assert says in error_of(reply)
    assert service.get("/v2/systemsharedmemory/status").json() == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"key":"a","key":"b"}', b"\xff"])
def test_malformed_registrations(service: Service, body: bytes) -> None:
    reply = service.request("POST", "/v2/systemsharedmemory/region/r/register", body)
    assert reply.status == 400
    assert error_of(reply)


def test_another_clients_key_is_never_named(service: Service, owned: Segment) -> None:
    secret = owned.key
    assert post(service, "/region/mine/register", key=secret, byte_size=SIZE).status == 200
    replies = []
    with segment(SIZE) as other:
        for _ in range(4):
            replies += [
                post(service, "/region/mine/register", key=other.key, byte_size=SIZE),
                post(service, "/region/yours/register", key=other.key, byte_size=SIZE + 1),
                service.get("/v2/systemsharedmemory/region/yours/status"),
                infer(service, document(source(40, name="yours"))),
                infer(service, document(source(40, SIZE, name="mine"))),
            ]
    owned.shrink(8)
    replies += [infer(service, document(source(40, name="mine"))) for _ in range(TRIES)]
    assert post(service, "/region/mine/unregister").status == 200
    for reply in replies:
        assert reply.status in (400, 404)
        assert secret not in error_of(reply)


def test_status(service: Service, region: str, owned: Segment) -> None:
    entry = {"name": region, "key": "/" + owned.key, "offset": 0, "byte_size": SIZE}
    for _ in range(TRIES):
        assert service.get("/v2/systemsharedmemory/status").json() == [entry]
        assert service.get("/v2/systemsharedmemory/region/r/status").json() == [entry]
    assert service.get("/v2/systemsharedmemory/region/q/status").status == 404


def test_the_extension_is_told(service: Service) -> None:
    assert "system_shared_memory" in service.get("/v2").json()["extensions"]
    assert "cuda_shared_memory" not in service.get("/v2").json()["extensions"]


def test_register_and_unregister_through_any_worker(service: Service, owned: Segment) -> None:
    put(owned, X)
    for _ in range(TRIES):
        assert post(service, "/region/r/register", key=owned.key, byte_size=SIZE).status == 200
        assert infer(service, document(source(40))).status == 200
        assert post(service, "/region/r/register", key=owned.key, byte_size=SIZE).status == 400
        assert post(service, "/unregister").status == 200
        assert infer(service, document(source(40))).status == 404
        assert post(service, "/region/r/unregister").status == 200


@pytest.mark.usefixtures("region")
def test_an_object_that_shrank(service: Service, owned: Segment) -> None:
    put(owned, X)
    for _ in range(TRIES):
        assert infer(service, document(source(40))).status == 200
    owned.shrink(100)
    for _ in range(TRIES):
        reply = infer(service, document(source(40), outputs=into(40)))
        assert reply.status == 400
        assert "register it again" in error_of(reply)
    assert service.get("/livez").status == 200


@pytest.mark.usefixtures("region")
def test_unregistering_under_way(service: Service, owned: Segment) -> None:
    """A request that has its region keeps it, whoever forgets it meanwhile."""
    body = json.dumps(document(source(40), outputs=into(40, 64))).encode()
    with contextlib.closing(service.connection()) as connection:
        for _ in range(TRIES):
            put(owned, X)
            connection.request("POST", infer_path("round"), body)
            post(service, "/region/r/unregister")
            assert Reply.read(connection).status in (200, 404)
            assert post(service, "/region/r/register", key=owned.key, byte_size=SIZE).status == 200


@pytest.mark.usefixtures("region")
def test_a_worker_that_dies_leaves_registrations(service: Service, owned: Segment) -> None:
    before = workers_of(service)
    assert len(before) == 2
    for worker in before:
        os.kill(worker, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            workers = workers_of(service)
            if len(workers - before) == 2 and service.get("/readyz").status == 200:
                break
        time.sleep(0.05)
    put(owned, X)
    for _ in range(TRIES):
        assert infer(service, document(source(40), outputs=into(40, 64))).status == 200
    np.testing.assert_array_equal(found(owned, 64), EVEN)


def test_segments_outlive_the_service() -> None:
    with segment(SIZE) as owned:
        put(owned, X)
        with Service("--shared-memory-prefix", "/" + PREFIX) as alone:
            assert post(alone, "/region/r/register", key=owned.key, byte_size=SIZE).status == 200
            assert infer(alone, document(source(40), outputs=into(40))).status == 200
        np.testing.assert_array_equal(found(owned), EVEN)
