"""Registrations of system shared memory: refused, shared by workers, outlived by objects."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from support.http.inference_form import EVEN, X, document
from support.segments import PREFIX, Segment, segment
from support.services.server import Service
from support.services.workers import workers_of
from support.v2.callers import Caller
from support.v2.regions import (
    SIZE,
    TRIES,
    found,
    into,
    put,
    register,
    registered,
    source,
    unregister,
)

NOT_REGISTERED: dict[str, tuple[dict[str, Any], str]] = {
    "no-size": ({"key": "K"}, "byte_size: must be an integer of at least 1"),
    "size-0": ({"key": "K", "byte_size": 0}, "byte_size: must be an integer of at least 1"),
    "too-large": ({"key": "K", "byte_size": SIZE + 1}, "65536 bytes"),
    "sum-wraps": ({"key": "K", "byte_size": 2, "offset": 2**64 - 1}, "65536 bytes"),
    "outside": ({"key": "/psm_other", "byte_size": 4}, "must begin with"),
    "above": ({"key": "/../" + PREFIX, "byte_size": 4}, "must begin with"),
    "below": ({"key": PREFIX + "/x", "byte_size": 4}, "no further slash"),
    "nothing-there": ({"key": PREFIX + "nothing", "byte_size": 4}, "no shared memory object"),
}


@pytest.mark.parametrize(("members", "says"), NOT_REGISTERED.values(), ids=NOT_REGISTERED)
def test_invalid_registration_is_refused(
    caller: Caller, owned: Segment, members: dict[str, Any], says: str
) -> None:
    if members["key"] == "K":
        members = {**members, "key": owned.key}
    outcome = caller.ask("SystemSharedMemoryRegister", name="r", **members)
    assert outcome.status == 400
    assert says in outcome.error
    assert registered(caller).head == []


def test_another_clients_key_is_never_named(caller: Caller, owned: Segment) -> None:
    secret = owned.key
    assert register(caller, "mine", secret).status == 200
    outcomes = []
    with segment(SIZE) as other:
        for _ in range(4):
            outcomes += [
                register(caller, "mine", other.key),
                register(caller, "yours", other.key, SIZE + 1),
                registered(caller, "yours"),
                caller.infer(document(source(40, name="yours"))),
                caller.infer(document(source(40, SIZE, name="mine"))),
            ]
    owned.shrink(8)
    outcomes += [caller.infer(document(source(40, name="mine"))) for _ in range(TRIES)]
    assert unregister(caller, "mine").status == 200
    for outcome in outcomes:
        assert outcome.status in (400, 404)
        assert secret not in outcome.error


def test_status(caller: Caller, region: str, owned: Segment) -> None:
    entry = {"name": region, "key": "/" + owned.key, "offset": 0, "byte_size": SIZE}
    for _ in range(TRIES):
        assert registered(caller).head == [entry]
        assert registered(caller, "r").head == [entry]
    assert registered(caller, "q").status == 404


def test_the_extension_is_told(caller: Caller) -> None:
    extensions = caller.ask("ServerMetadata").head["extensions"]
    assert "system_shared_memory" in extensions
    assert "cuda_shared_memory" not in extensions


def test_register_and_unregister_through_any_worker(caller: Caller, owned: Segment) -> None:
    put(owned, X)
    for _ in range(TRIES):
        assert register(caller, "r", owned.key).status == 200
        assert caller.infer(document(source(40))).status == 200
        assert register(caller, "r", owned.key).status == 400
        assert unregister(caller).status == 200
        assert caller.infer(document(source(40))).status == 404
        assert unregister(caller, "r").status == 200


@pytest.mark.usefixtures("region")
def test_an_object_that_shrank(service: Service, caller: Caller, owned: Segment) -> None:
    put(owned, X)
    for _ in range(TRIES):
        assert caller.infer(document(source(40))).status == 200
    owned.shrink(100)
    for _ in range(TRIES):
        outcome = caller.infer(document(source(40), outputs=into(40)))
        assert outcome.status == 400
        assert "register it again" in outcome.error
    assert service.get("/livez").status == 200


@pytest.mark.usefixtures("region")
def test_unregistering_under_way(caller: Caller, owned: Segment) -> None:
    """A request that has its region keeps it, whoever forgets it meanwhile."""
    request = document(source(40), outputs=into(40, 64))
    with ThreadPoolExecutor(1) as other:
        for _ in range(TRIES):
            put(owned, X)
            inference = other.submit(caller.infer, request)
            assert unregister(caller, "r").status == 200
            assert inference.result().status in (200, 404)
            assert register(caller, "r", owned.key).status == 200


@pytest.mark.usefixtures("region")
def test_a_worker_that_dies_leaves_registrations(
    service: Service, caller: Caller, owned: Segment
) -> None:
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
        assert caller.infer(document(source(40), outputs=into(40, 64))).status == 200
    np.testing.assert_array_equal(found(owned, 64), EVEN)


def test_segments_outlive_the_service(call: type[Caller]) -> None:
    with segment(SIZE) as owned:
        put(owned, X)
        with Service("--shared-memory-prefix", "/" + PREFIX) as alone:
            caller = call(alone)
            assert register(caller, "r", owned.key).status == 200
            assert caller.infer(document(source(40), outputs=into(40))).status == 200
        np.testing.assert_array_equal(found(owned), EVEN)
