"""The .npy and JSON forms on a real socket."""

from __future__ import annotations

import io
import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from support.services.server import Reply, Service
from tensor_round.contract.dtypes import DTYPES
from tensor_round_verify import reference
from tensor_round_verify.patterns import samples

ORDERS = {"C": np.ascontiguousarray, "F": np.asfortranarray}


def npy(array: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def post_npy(service: Service, payload: bytes, query: str = "") -> Reply:
    return service.request("POST", f"/round{query}", payload, {"Content-Type": "application/x-npy"})


def post_json(service: Service, document: object) -> Reply:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return service.request("POST", "/round", text, {"Content-Type": "application/json"})


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("byte_order", ["<", ">"])
@pytest.mark.parametrize("dtype", [d.name for d in DTYPES])
def test_npy_of_every_dtype_order_and_byte_order(
    service: Service, dtype: str, byte_order: str, order: str
) -> None:
    patterns = samples(dtype, 4096)
    patterns = patterns[: patterns.size // 6 * 6].reshape(2, 3, -1)
    numpy_type = next(d.numpy for d in DTYPES if d.name == dtype)
    array = ORDERS[order](patterns.view(numpy_type))
    if byte_order == ">":
        # Swapped as bits: NumPy would quiet signalling NaNs on its way through values.
        array = array.view(patterns.dtype).byteswap().view(numpy_type.newbyteorder(">"))
    sent = npy(array)
    kind = f"&dtype={dtype}" if "f" in dtype and dtype in reference.FLOATS else ""
    reply = post_npy(service, sent, f"?rounding=ties_to_away{kind}")
    assert reply.status == 200, reply.content
    assert reply.headers["Content-Type"] == "application/x-npy"
    header = len(sent) - array.nbytes
    assert reply.content[:header] == sent[:header]
    answer = np.frombuffer(reply.content, patterns.dtype, offset=header)
    if byte_order == ">":
        answer = answer.byteswap()
    expected = reference.rounded(patterns, dtype, "ties_to_away")
    np.testing.assert_array_equal(answer.reshape(patterns.shape, order=order), expected)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1, 5)], ids=str)
def test_npy_shapes(service: Service, shape: tuple[int, ...]) -> None:
    array = np.full(shape, 2.5, "f4")
    reply = post_npy(service, npy(array))
    np.testing.assert_array_equal(np.load(io.BytesIO(reply.content)), np.rint(array))


def test_raw_npy_needs_a_dtype(service: Service) -> None:
    payload = npy(np.ones(3, ml_dtypes.bfloat16))
    reply = post_npy(service, payload)
    assert reply.status == 415
    assert reply.json()["code"] == "unsupported_media_type"
    assert "?dtype=" in reply.json()["detail"]
    assert post_npy(service, payload, "?dtype=bfloat16").status == 200


def descriptor(dtype: str, shape: list[int], rounding: str = "ties_to_even") -> dict[str, Any]:
    return {
        "dialect": "ieee754",
        "rounding": rounding,
        "input": {"dtype": dtype, "shape": shape},
    }


def test_json_nested_and_flat(service: Service) -> None:
    for data in ([[0.5, 1.5, -0.3], [2.5, 1e30, -2.5]], [0.5, 1.5, -0.3, 2.5, 1e30, -2.5]):
        reply = post_json(service, {"descriptor": descriptor("float64", [2, 3]), "data": data})
        assert reply.status == 200, reply.content
        assert reply.json() == {
            "output": {"dtype": "float64", "shape": [2, 3]},
            "data": [[0, 2, 0], [2, 1e30, -2]],
        }
        assert b"-0.0" in reply.content


def test_json_special_values_and_tokens(service: Service) -> None:
    for data in (b'["NaN","Infinity","-Infinity",-0]', b"[NaN,Infinity,-Infinity,-0.0]"):
        head = json.dumps(descriptor("float16", [4])).encode()
        reply = post_json(service, b'{"descriptor":' + head + b',"data":' + data + b"}")
        assert reply.json()["data"] == ["NaN", "Infinity", "-Infinity", 0.0]
        assert b"-0.0" in reply.content


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int64", 2**63 - 1), ("int64", -(2**63)), ("uint64", 2**64 - 1), ("int8", -128)],
)
def test_json_integers_are_exact(service: Service, dtype: str, value: int) -> None:
    reply = post_json(service, {"descriptor": descriptor(dtype, []), "data": value})
    assert reply.json()["data"] == value


def test_json_rounds_a_decimal_once(service: Service) -> None:
    # Through float32 this decimal would become the tie 1 + 2^-11, and then 1.0.
    # One rounding gives 1 + 2^-10, whose ceiling is 2.
    text = b'{"descriptor":%s,"data":[1.0004882812500002]}'
    head = json.dumps(descriptor("float16", [1], "toward_positive")).encode()
    assert post_json(service, text % head).json()["data"] == [2.0]


@pytest.mark.parametrize(
    ("document", "status", "code", "where"),
    [
        pytest.param(b"{", 400, "malformed_json", None, id="not-json"),
        pytest.param(b"", 400, "malformed_json", None, id="empty"),
        pytest.param(b"[]", 400, "malformed_json", None, id="an-array"),
        pytest.param(b"[" * 100_000, 400, "malformed_json", None, id="deep"),
        pytest.param(b'{"data":1,"data":2}', 400, "malformed_json", None, id="twice"),
        pytest.param({"data": [1]}, 400, "missing_descriptor", None, id="no-descriptor"),
        pytest.param(
            {"descriptor": descriptor("float32", [1])}, 422, "invalid_descriptor", ["data"],
            id="no-data",
        ),
        pytest.param(
            {"descriptor": descriptor("float32", [1]), "data": [1], "x": 1},
            422, "invalid_descriptor", ["x"], id="unknown-field",
        ),
        pytest.param(
            {"descriptor": descriptor("float32", [3]), "data": [1, 2]},
            400, "payload_size_mismatch", None, id="too-few",
        ),
        pytest.param(
            {"descriptor": descriptor("float32", [2]), "data": [1, "x"]},
            422, "invalid_descriptor", ["data", 1], id="a-string",
        ),
        pytest.param(
            {"descriptor": descriptor("uint8", [2]), "data": [1, 256]},
            422, "invalid_descriptor", ["data", 1], id="out-of-range",
        ),
        pytest.param(
            {
                "descriptor": {
                    "dialect": "ieee754",
                    "input": {"dtype": "float32", "shape": [2], "strides": [1]},
                },
                "data": [1, 2],
            },
            422, "invalid_descriptor", ["descriptor", "input", "strides"], id="strides",
        ),
        pytest.param(
            {"descriptor": descriptor("float32", [1 << 40]), "data": []},
            413, "tensor_too_large", None, id="too-large",
        ),
    ],
)  # fmt: skip
def test_json_refusals(
    service: Service, document: object, status: int, code: str, where: list[str | int] | None
) -> None:
    reply = post_json(service, document)
    assert (reply.status, reply.json()["code"]) == (status, code), reply.content
    if where is not None:
        assert where in [error["loc"] for error in reply.json()["errors"]]


OPERATORS = {
    "toward_zero": "toward_zero",
    "onnx:22": "ties_to_even",
    "openvino:half_away_from_zero": "ties_to_away",
    "directml:TOWARD_INFINITY": "ties_to_away",
    "directml:TOWARD_ZERO:5_0": "toward_zero",
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_npy_by_an_operator_in_one_word(service: Service, operator: str) -> None:
    patterns = samples("float32", 4096)
    reply = post_npy(service, npy(patterns.view("<f4")), f"?operator={operator}")
    assert reply.status == 200, reply.content
    answer = np.frombuffer(reply.content[-patterns.nbytes :], patterns.dtype)
    expected = reference.rounded(patterns, "float32", OPERATORS[operator])
    np.testing.assert_array_equal(answer, expected)


REFUSED: dict[str, tuple[str, str, list[str], str]] = {
    "direction": ("float32", "?rounding=up", ["query", "rounding"], 'negative, got "up"'),
    "unknown": ("float32", "?operator=up", ["query", "operator"], "; accepted: ties_to_even"),
    "mode": ("float32", "?operator=openvino:up", ["query", "operator"], "half_away_from_zero"),
    "both": ("float32", "?operator=onnx&rounding=floor", ["query", "rounding"], "combined"),
    "twice": ("float32", "?operator=onnx&operator=onnx", ["query", "operator"], "more than once"),
    "dtype": ("int32", "?operator=onnx", ["input", "elem_type"], "FLOAT16, FLOAT, DOUBLE"),
    "rank": (
        "float32",
        "?operator=directml:TOWARD_ZERO:2_1",
        ["desc", "InputTensor", "Sizes"],
        "exactly 4 dimensions, got 1",
    ),
}


@pytest.mark.parametrize(("dtype", "query", "loc", "why"), REFUSED.values(), ids=REFUSED)
def test_npy_by_an_operator_that_is_refused(
    service: Service, dtype: str, query: str, loc: list[str], why: str
) -> None:
    reply = post_npy(service, npy(np.zeros(3, dtype)), query)
    problem = json.loads(reply.content)
    assert (reply.status, problem["code"]) == (422, "invalid_descriptor")
    assert problem["errors"][0]["loc"] == loc
    assert why in problem["errors"][0]["msg"]
