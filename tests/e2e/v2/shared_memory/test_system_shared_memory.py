"""Inferences in system shared memory, on a service of two workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.http.inference_form import AWAY, EVEN, OF_X, X, document, tensor
from support.segments import Segment
from support.v2.callers import Caller
from support.v2.regions import (
    SIZE,
    TRIES,
    at,
    found,
    into,
    put,
    register,
    source,
    unregister,
)
from tensor_round_verify.reference import all_patterns, rounded


@pytest.mark.usefixtures("region")
def test_in_place(caller: Caller, owned: Segment) -> None:
    for _ in range(TRIES):
        put(owned, X)
        owned.memory[40:80] = 7
        outcome = caller.infer(document(source(40), outputs=into(40)))
        assert outcome.output == {
            "name": "Y", "datatype": "FP32", "shape": [10], "parameters": at(40),
        }  # fmt: skip
        np.testing.assert_array_equal(found(owned), EVEN)
        assert (owned.memory[40:80] == 7).all()


@pytest.mark.usefixtures("region")
@pytest.mark.parametrize(("where", "to"), [(0, 40), (40, 0), (3, 1001), (4096, 8192)])
def test_from_one_place_to_another(caller: Caller, owned: Segment, where: int, to: int) -> None:
    put(owned, X, where)
    request = document(
        source(40, where), outputs=into(100, to), parameters={"rounding": "ties_to_away"}
    )
    placed = caller.infer(request).output["parameters"]
    assert placed["shared_memory_byte_size"] == 40
    assert placed.get("shared_memory_offset", 0) == to
    np.testing.assert_array_equal(found(owned, to), AWAY)
    np.testing.assert_array_equal(found(owned, where), X)


@pytest.mark.usefixtures("region")
def test_out_over_the_socket(caller: Caller, owned: Segment) -> None:
    put(owned, X, 8)
    assert caller.infer(document(source(40, 8))).payload == EVEN.tobytes()
    # The input is the client's: nobody rounds in it unasked.
    np.testing.assert_array_equal(found(owned, 8), X)


@pytest.mark.usefixtures("region")
@pytest.mark.parametrize("form", ["bytes", "numbers"])
def test_in_over_the_socket(caller: Caller, owned: Segment, form: str) -> None:
    if form == "bytes":
        outcome = caller.infer(document(OF_X, outputs=into(40, 16)), X.tobytes())
    else:
        numbers = tensor("FP32", [10], data=X.tolist())
        outcome = caller.infer(document(numbers, outputs=into(40, 16)))
    assert outcome.payload == b""
    np.testing.assert_array_equal(found(owned, 16), EVEN)


@pytest.mark.usefixtures("region")
def test_no_bytes_at_all(caller: Caller) -> None:
    empty = tensor("FP16", [0], parameters=at(0, SIZE))
    outcome = caller.infer(document(empty, outputs=into(0, SIZE)))
    assert outcome.output["shape"] == [0]


@pytest.mark.usefixtures("region")
def test_fp8_in_place(caller: Caller, owned: Segment) -> None:
    patterns = all_patterns("float8_e4m3fn")
    put(owned, patterns)
    place = {**at(256), "dtype": "float8_e4m3fn"}
    request = document(tensor("UINT8", [256], parameters=place), outputs=into(256))
    assert caller.infer(request).output["parameters"]["dtype"] == "float8_e4m3fn"
    expected = rounded(patterns, "float8_e4m3fn", "ties_to_even")
    np.testing.assert_array_equal(owned.memory[:256], expected)


@pytest.mark.usefixtures("region")
def test_two_names_of_one_memory(caller: Caller, owned: Segment) -> None:
    assert register(caller, "s", owned.key, 256, offset=16).status == 200
    try:
        put(owned, X, 20)
        same = document(source(40, 20), outputs=into(40, 4, "s"))
        assert caller.infer(same).status == 200
        np.testing.assert_array_equal(found(owned, 20), EVEN)
        partly = document(source(40, 20), outputs=into(40, 8, "s"))
        assert "share no byte" in caller.infer(partly).error
    finally:
        unregister(caller, "s")


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "unknown-region": (document(source(40, name="q")), 404, 'region "q"'),
    "unknown-output-region": (document(source(40), outputs=into(40, name="q")), 404, '"q"'),
    "overlap-before": (document(source(40, 8), outputs=into(40, 4)), 400, "share no byte"),
    "overlap-after": (document(source(40, 8), outputs=into(40, 47)), 400, "share no byte"),
    "beyond-the-region": (document(source(40, SIZE - 39)), 400, "65536 bytes"),
    "far-beyond": (document(source(40, 2**62)), 400, "65536 bytes"),
    "output-beyond": (document(source(40), outputs=into(40, SIZE)), 400, "65536 bytes"),
    "too-few-bytes": (
        document(tensor("FP32", [11], parameters=at(40))), 400, "44 bytes by its shape",
    ),
    "too-many-bytes": (document(tensor("FP32", [9], parameters=at(40))), 400, "36 bytes"),
    "output-too-small": (document(source(40), outputs=into(39)), 400, "40 bytes"),
    "negative-offset": (document(source(40, -4)), 400, "at least 0"),
    "size-text": (
        document(tensor("FP32", [1], parameters={**at(4), "shared_memory_byte_size": "4"})),
        400,
        "must be an integer",
    ),
}  # fmt: skip


@pytest.mark.usefixtures("region")
@pytest.mark.parametrize(("request_", "status", "says"), REFUSED.values(), ids=REFUSED)
def test_refusals(
    caller: Caller, owned: Segment, request_: dict[str, Any], status: int, says: str
) -> None:
    put(owned, X)
    outcome = caller.infer(request_)
    assert outcome.status == status, outcome.error
    assert says in outcome.error
    assert owned.key not in outcome.error
    np.testing.assert_array_equal(found(owned), X)


@pytest.mark.usefixtures("region")
def test_bytes_beside_a_region(caller: Caller, owned: Segment) -> None:
    put(owned, X)
    outcome = caller.infer(document(source(40), outputs=into(40)), b"x")
    assert outcome.status == 400
    assert outcome.error
    np.testing.assert_array_equal(found(owned), X)


def test_statistics_are_the_sum_of_all_workers(caller: Caller) -> None:
    def count() -> Any:
        (entry,) = caller.ask("ModelStatistics", name="round").head["model_stats"]
        return entry["inference_count"]

    before = count()
    for n in range(1, TRIES + 1):
        assert caller.infer(document(tensor("FP32", [1], data=[n]))).status == 200
        assert count() == before + n
