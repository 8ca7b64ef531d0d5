"""Registrations of system shared memory: refused, shared by workers, outlived by objects."""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from support.http.inference_form import EVEN, Outcome, X, document, error_of, infer, tensor
from support.segments import PREFIX, Segment, segment
from support.services.server import Service, until
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
    "size-0": ({"byte_size": 0}, "byte_size: must be an integer of at least 1"),
    "too-large": ({"byte_size": SIZE + 1}, "65536 bytes"),
    "outside": ({"key": "/psm_other"}, "must begin with"),
    "nothing-there": ({"key": PREFIX + "nothing"}, "no shared memory object"),
}


@pytest.mark.parametrize(("members", "says"), NOT_REGISTERED.values(), ids=NOT_REGISTERED)
def test_wrong_places_are_not_registered(
    caller: Caller, owned: Segment, members: dict[str, Any], says: str
) -> None:
    outcome = register(caller, "r", **{"key": owned.key, **members})
    assert outcome.status == 400
    assert says in outcome.error
    assert registered(caller).head == []


#: What JSON alone can say.
WRONG_TYPES: dict[str, tuple[Any, str]] = {
    "no-key": ({"byte_size": 4}, "key: must be a string"),
    "key-number": ({"key": 7, "byte_size": 4}, "key: must be a string"),
    "no-size": ({"key": "K"}, "byte_size: must be an integer of at least 1"),
    "size-text": ({"key": "K", "byte_size": "4"}, "byte_size: must be an integer"),
    "offset-negative": ({"key": "K", "byte_size": 4, "offset": -1}, "offset: must be an integer"),
    "no-object": ([], "must be a JSON object"),
}


@pytest.mark.parametrize(("members", "says"), WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_wrong_types_in_json(service: Service, members: Any, says: str) -> None:
    path = "/v2/systemsharedmemory/region/r/register"
    reply = service.request("POST", path, json.dumps(members).encode())
    assert reply.status == 400
    assert says in error_of(reply)
    assert registered(Caller(service)).head == []


@pytest.mark.usefixtures("region")
def test_numbers_in_the_response(service: Service, owned: Segment) -> None:
    put(owned, X, 8)
    answer = Outcome.of(infer(service, document(source(40, 8))))
    assert answer.output["data"] == EVEN.tolist()
    np.testing.assert_array_equal(found(owned, 8), X)


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


def test_register_and_unregister_through_any_worker(caller: Caller, owned: Segment) -> None:
    put(owned, X)
    for _ in range(TRIES):
        assert register(caller, "r", "/" + owned.key).status == 200
        assert caller.infer(document(source(40))).status == 200
        assert register(caller, "r", owned.key).status == 400
        assert unregister(caller).status == 200
        assert caller.infer(document(source(40))).status == 404
        assert unregister(caller, "r").status == 200


@pytest.mark.usefixtures("region")
def test_a_request_under_way_keeps_its_region(caller: Caller, owned: Segment) -> None:
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
    for worker in before:
        os.kill(worker, signal.SIGKILL)
    until(lambda: len(workers_of(service) - before) == 2, 30)
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


def test_statistics_are_the_sum_of_all_workers(caller: Caller) -> None:
    def count() -> Any:
        (entry,) = caller.ask("ModelStatistics", name="round").head["model_stats"]
        return entry["inference_count"]

    before = count()
    for n in range(1, TRIES + 1):
        assert caller.infer(document(tensor("FP32", [1], data=[n]))).status == 200
        assert count() == before + n
