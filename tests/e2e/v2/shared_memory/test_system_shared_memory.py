"""Inferences in system shared memory, on a service of two workers: by hand and by tritonclient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.utils.shared_memory as client_memory
from tritonclient.utils import InferenceServerException

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
from support.http.region_form import SIZE, TRIES, at, found, into, post, put, source
from support.segments import PREFIX, Segment
from support.services.server import Service
from tensor_round_verify.reference import all_patterns, rounded


@pytest.mark.usefixtures("region")
def test_in_place(service: Service, owned: Segment) -> None:
    for _ in range(TRIES):
        put(owned, X)
        owned.memory[40:80] = 7
        answer = Answer.of(infer(service, document(source(40), outputs=into(40))))
        assert answer.output == {
            "name": "Y", "datatype": "FP32", "shape": [10], "parameters": at(40),
        }  # fmt: skip
        np.testing.assert_array_equal(found(owned), EVEN)
        assert (owned.memory[40:80] == 7).all()


@pytest.mark.usefixtures("region")
@pytest.mark.parametrize(("where", "to"), [(0, 40), (40, 0), (3, 1001), (4096, 8192)])
def test_from_one_place_to_another(service: Service, owned: Segment, where: int, to: int) -> None:
    put(owned, X, where)
    request = document(
        source(40, where), outputs=into(100, to), parameters={"rounding": "ties_to_away"}
    )
    answer = Answer.of(infer(service, request))
    assert answer.output["parameters"]["shared_memory_byte_size"] == 40
    assert answer.output["parameters"].get("shared_memory_offset", 0) == to
    np.testing.assert_array_equal(found(owned, to), AWAY)
    np.testing.assert_array_equal(found(owned, where), X)


@pytest.mark.usefixtures("region")
@pytest.mark.parametrize("binary_out", [True, False])
def test_out_over_the_socket(service: Service, owned: Segment, binary_out: bool) -> None:
    put(owned, X, 8)
    wish = {"parameters": {"binary_data_output": binary_out}}
    answer = Answer.of(infer(service, document(source(40, 8), **wish)))
    if binary_out:
        assert answer.payload == EVEN.tobytes()
    else:
        assert answer.output["data"] == EVEN.tolist()
    # The input is the client's: nobody rounds in it unasked.
    np.testing.assert_array_equal(found(owned, 8), X)


@pytest.mark.usefixtures("region")
@pytest.mark.parametrize("form", ["binary", "json"])
def test_in_over_the_socket(service: Service, owned: Segment, form: str) -> None:
    if form == "binary":
        reply = infer(
            service, document(binary("FP32", [10], 40), outputs=into(40, 16)), X.tobytes()
        )
    else:
        numbers = tensor("FP32", [10], data=X.tolist())
        reply = infer(service, document(numbers, outputs=into(40, 16)))
    assert Answer.of(reply).payload == b""
    np.testing.assert_array_equal(found(owned, 16), EVEN)


@pytest.mark.usefixtures("region")
def test_no_bytes_at_all(service: Service) -> None:
    empty = tensor("FP16", [0], parameters=at(0, SIZE))
    answer = Answer.of(infer(service, document(empty, outputs=into(0, SIZE))))
    assert answer.output["shape"] == [0]


@pytest.mark.usefixtures("region")
def test_fp8_in_place(service: Service, owned: Segment) -> None:
    patterns = all_patterns("float8_e4m3fn")
    put(owned, patterns)
    place = {**at(256), "dtype": "float8_e4m3fn"}
    request = document(tensor("UINT8", [256], parameters=place), outputs=into(256))
    assert Answer.of(infer(service, request)).output["parameters"]["dtype"] == "float8_e4m3fn"
    expected = rounded(patterns, "float8_e4m3fn", "ties_to_even")
    np.testing.assert_array_equal(owned.memory[:256], expected)


@pytest.mark.usefixtures("region")
def test_two_names_of_one_memory(service: Service, owned: Segment) -> None:
    assert (
        post(service, "/region/s/register", key=owned.key, offset=16, byte_size=256).status == 200
    )
    try:
        put(owned, X, 20)
        same = document(source(40, 20), outputs=into(40, 4, "s"))
        assert Answer.of(infer(service, same))
        np.testing.assert_array_equal(found(owned, 20), EVEN)
        partly = document(source(40, 20), outputs=into(40, 8, "s"))
        assert "share no byte" in error_of(infer(service, partly))
    finally:
        post(service, "/region/s/unregister")


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "unknown-region": (document(source(40, name="q")), 404, 'region "q"'),
    "unknown-output-region": (document(source(40), outputs=into(40, name="q")), 404, '"q"'),
    "overlap-before": (document(source(40, 8), outputs=into(40, 4)), 400, "share no byte"),
    "overlap-after": (document(source(40, 8), outputs=into(40, 47)), 400, "share no byte"),
    "beyond-the-region": (document(source(40, SIZE - 39)), 400, "65536 bytes"),
    "far-beyond": (document(source(40, 2**64)), 400, "65536 bytes"),
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
    "body-too": (document(source(40)), 400, "0 bytes"),
}  # fmt: skip


@pytest.mark.usefixtures("region")
@pytest.mark.parametrize(("request_", "status", "says"), REFUSED.values(), ids=REFUSED)
def test_refusals(
    service: Service, owned: Segment, request_: dict[str, Any], status: int, says: str
) -> None:
    put(owned, X)
    payload = b"x" if says == "0 bytes" else None
    reply = infer(service, request_, payload)
    assert reply.status == status, reply.content
    text = error_of(reply)
    assert says in text
    assert owned.key not in text
    np.testing.assert_array_equal(found(owned), X)


def test_statistics_are_the_sum_of_all_workers(service: Service) -> None:
    def count() -> Any:
        (entry,) = service.get("/v2/models/round/stats").json()["model_stats"]
        return entry["inference_count"]

    before = count()
    for n in range(1, TRIES + 1):
        assert infer(service, document(tensor("FP32", [1], data=[n]))).status == 200
        assert count() == before + n


def test_tritonclients_own_helpers(service: Service) -> None:
    x = np.linspace(-5, 5, 1000, dtype="<f4")
    key = "/" + PREFIX + "tritonclient"
    handle = client_memory.create_shared_memory_region("in", key, 2 * x.nbytes)
    try:
        client_memory.set_shared_memory_region(handle, [x])
        with triton.InferenceServerClient(f"127.0.0.1:{service.port}") as client:
            client.register_system_shared_memory("in", key, x.nbytes)
            client.register_system_shared_memory("out", key, x.nbytes, offset=x.nbytes)
            with pytest.raises(InferenceServerException, match="already"):
                client.register_system_shared_memory("in", key, x.nbytes)
            tensor_in = triton.InferInput("X", [1000], "FP32")
            tensor_in.set_shared_memory("in", x.nbytes)
            wanted = triton.InferRequestedOutput("Y", binary_data=False)
            wanted.set_shared_memory("out", x.nbytes)
            for _ in range(TRIES):
                result = client.infer("round", [tensor_in], outputs=[wanted])
            output = result.get_output("Y")
            assert output is not None
            assert output["parameters"]["shared_memory_region"] == "out"
            y = client_memory.get_contents_as_numpy(handle, np.float32, [1000], x.nbytes)
            np.testing.assert_array_equal(y, np.rint(x))
            assert {r["name"] for r in client.get_system_shared_memory_status()} == {"in", "out"}
            assert client.get_system_shared_memory_status("in")[0]["key"] == key
            client.unregister_system_shared_memory("in")
            client.unregister_system_shared_memory()
            assert client.get_system_shared_memory_status() == []
            del y
    finally:
        client_memory.destroy_shared_memory_region(handle)
