"""Inferences in shared memory of either kind: the system's, and a device's.

The device is this CPU. Its memory can be shared by handles too: they name POSIX objects. So a test
is one process and the service another, as with CUDA.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.devices.host_kernels import NO_COMPILER, compiler
from support.http.inference_form import AWAY, DIRECTML, EVEN, OF_X, X, binary, document, tensor
from support.segments import Segment, segment
from support.v2.callers import Caller
from support.v2.regions import CUDA, SIZE, SYSTEM, TRIES, Memory, at, found, into, put, source
from tensor_round_verify.reference import all_patterns, rounded

pytestmark = pytest.mark.usefixtures("region")
WITHOUT_COMPILER = pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(SYSTEM, id="system"),
        pytest.param(CUDA, id="cuda", marks=[WITHOUT_COMPILER, pytest.mark.slow]),
    ],
)
def memory(request: pytest.FixtureRequest) -> Memory:
    kind: Memory = request.param
    return kind


def test_in_place(caller: Caller, memory: Memory, owned: Segment) -> None:
    for _ in range(TRIES):
        put(owned, X)
        owned.memory[40:80] = 7
        outcome = caller.infer(document(source(40), outputs=into(40)))
        assert outcome.payload == b""
        assert outcome.output == {
            "name": "Y", "datatype": "FP32", "shape": [10], "parameters": at(40),
        }  # fmt: skip
        np.testing.assert_array_equal(found(owned), EVEN)
        assert (owned.memory[40:80] == 7).all()
    assert outcome.fields["execution-backend"] == ("numpy" if memory is SYSTEM else "cupy")


@pytest.mark.parametrize("name", ["n" * 257, "é" * 129, "n" * 5000])
def test_names_have_at_most_256_bytes(
    caller: Caller, memory: Memory, owned: Segment, name: str
) -> None:
    for outcome in (
        memory.register(caller, name, owned.key),
        memory.registered(caller, name),
        memory.unregister(caller, name),
        caller.infer(document(source(40, name=name))),
        caller.infer(document(OF_X, outputs=into(40, name=name)), X.tobytes()),
    ):
        assert outcome.status == 400
        assert "the name of a region has 1 to 256 bytes" in outcome.error
    longest = "é" * 128
    assert memory.register(caller, longest, owned.key).status == 200
    assert [each["name"] for each in memory.registered(caller, longest).head] == [longest]
    assert memory.unregister(caller, longest).status == 200


@pytest.mark.parametrize(("where", "to"), [(0, 40), (40, 0), (3, 1001), (4096, 8192)])
def test_from_one_place_to_another(caller: Caller, owned: Segment, where: int, to: int) -> None:
    put(owned, X, where)
    request = document(
        source(40, where), outputs=into(100, to), parameters={"rounding": "ties_to_away"}
    )
    placed = caller.infer(request).output["parameters"]
    assert placed == at(40, to or None)
    np.testing.assert_array_equal(found(owned, to), AWAY)
    np.testing.assert_array_equal(found(owned, where), X)


def test_out_over_the_socket(caller: Caller, owned: Segment) -> None:
    put(owned, X, 8)
    assert caller.infer(document(source(40, 8))).payload == EVEN.tobytes()
    # The input is the client's: nobody rounds in it unasked.
    np.testing.assert_array_equal(found(owned, 8), X)


def test_in_over_the_socket(caller: Caller, owned: Segment) -> None:
    numbers = tensor("FP32", [10], data=X.tolist())
    for to, given, payload in ((16, OF_X, X.tobytes()), (64, numbers, None)):
        assert caller.infer(document(given, outputs=into(40, to)), payload).payload == b""
        np.testing.assert_array_equal(found(owned, to), EVEN)


def test_no_bytes_at_all(caller: Caller) -> None:
    empty = tensor("FP16", [0], parameters=at(0, SIZE))
    assert caller.infer(document(empty, outputs=into(0, SIZE))).output["shape"] == [0]


def test_fp8_in_place(caller: Caller, owned: Segment) -> None:
    patterns = all_patterns("float8_e4m3fn")
    put(owned, patterns)
    place = {**at(256), "dtype": "float8_e4m3fn"}
    request = document(tensor("UINT8", [256], parameters=place), outputs=into(256))
    assert caller.infer(request).output["parameters"]["dtype"] == "float8_e4m3fn"
    expected = rounded(patterns, "float8_e4m3fn", "ties_to_even")
    np.testing.assert_array_equal(owned.memory[:256], expected)


@pytest.mark.parametrize(("version", "shape"), [("2_1", [1, 1, 2, 5]), ("3_0", [10])])
def test_directml_in_place_or_apart(
    caller: Caller, owned: Segment, version: str, shape: list[int]
) -> None:
    """Its rule of aliasing: any other overlap of the two tensors is an error."""
    given = tensor("FP32", shape, "InputTensor", parameters=at(40, 64))
    for to in (64, 104, 64 - 17, 64 + 4):
        put(owned, X, 64)
        wanted = {"name": "OutputTensor", "parameters": at(40, to)}
        outcome = caller.infer(document(given, outputs=[wanted]), None, DIRECTML, version)
        if to in (64, 104):
            assert outcome.output["name"] == "OutputTensor"
            np.testing.assert_array_equal(found(owned, to), EVEN)
        else:
            assert (outcome.status, "share no byte" in outcome.error) == (400, True)
            np.testing.assert_array_equal(found(owned, 64), X)


@pytest.mark.parametrize("form", ["regions", "socket", "json"])
def test_each_tensor_of_a_quantization_has_its_place(
    caller: Caller, memory: Memory, owned: Segment, form: str
) -> None:
    """The zero point is in shared memory, and the scale there, behind the head or in JSON."""
    scale = np.array([0.5, 2], "<f4")
    put(owned, X)
    put(owned, scale, 100)
    owned.memory[200:202] = np.array([1, -1], "i1").view("u1")
    scales = {
        "regions": tensor("FP32", [2], "y_scale", parameters=at(8, 100)),
        "socket": binary("FP32", [2], 8, "y_scale"),
        "json": tensor("FP32", [2], "y_scale", data=scale.tolist()),
    }[form]
    request = document(
        tensor("FP32", [5, 2], "x", parameters=at(40)),
        outputs=[{"name": "y", "parameters": at(10, 300)}],
    )
    point = tensor("INT8", [2], "y_zero_point", parameters=at(2, 200))
    request["inputs"] = [point, scales, *request["inputs"]]
    payload = scale.tobytes() if form == "socket" else None
    outcome = caller.infer(request, payload, "onnx_quantize_linear")
    assert outcome.output["parameters"] == at(10, 300)
    assert outcome.fields["execution-backend"] == ("numpy" if memory is SYSTEM else "cupy")
    expected = np.rint(X.reshape(5, 2) / scale).astype("i1") + np.array([1, -1], "i1")
    np.testing.assert_array_equal(owned.memory[300:310].view("i1"), expected.reshape(-1))
    np.testing.assert_array_equal(found(owned), X)
    request["outputs"][0]["parameters"] = at(10, 195)
    refused = caller.infer(request, payload, "onnx_quantize_linear")
    assert (refused.status, "share no byte" in refused.error) == (400, True)


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "unknown-region": (document(source(40, name="q")), 404, 'region "q"'),
    "unknown-output-region": (document(source(40), outputs=into(40, name="q")), 404, '"q"'),
    "overlap-after": (document(source(40, 8), outputs=into(40, 47)), 400, "share no byte"),
    "beyond-the-region": (document(source(40, SIZE - 39)), 400, "65536 bytes"),
    "output-beyond": (document(source(40), outputs=into(40, SIZE)), 400, "65536 bytes"),
    "too-few-bytes": (document(tensor("FP32", [11], parameters=at(40))), 400, "44 bytes by its"),
    "output-too-small": (document(source(40), outputs=into(39)), 400, "40 bytes"),
}


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


def test_bytes_beside_a_region_are_refused(caller: Caller, owned: Segment) -> None:
    put(owned, X)
    outcome = caller.infer(document(source(40), outputs=into(40)), b"x")
    assert (outcome.status, bool(outcome.error)) == (400, True)
    np.testing.assert_array_equal(found(owned), X)


def test_status(caller: Caller, memory: Memory, owned: Segment) -> None:
    place = {"key": owned.key, "offset": 0} if memory is SYSTEM else {"device_id": 0}
    entry = {"name": "r", **place, "byte_size": SIZE}
    for _ in range(TRIES):
        assert memory.registered(caller).head == [entry]
        assert memory.registered(caller, "r").head == [entry]
    assert memory.registered(caller, "q").status == 404


def test_a_name_is_taken_once(caller: Caller, memory: Memory) -> None:
    with segment(SIZE) as other:
        outcome = memory.register(caller, "r", other.key)
    assert (outcome.status, "registered already" in outcome.error) == (400, True)


def test_the_extension_is_advertised(caller: Caller, memory: Memory) -> None:
    extensions = caller.ask("ServerMetadata").head["extensions"]
    assert "system_shared_memory" in extensions
    assert ("cuda_shared_memory" in extensions) is (memory is CUDA)
