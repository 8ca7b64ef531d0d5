"""Every example and table of the specifications: by ``/round``, by ``/v2`` and by the clients."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import tensor_round as tr
from support.cases.array_cases import Array, bits
from support.cases.descriptors import CASES as DIALECTS
from support.cases.every import every
from support.cases.specifications import CASES, EXAMPLES, shapes_of
from support.clients import AnyClient
from support.http.inference_form import Answer, binary, document, infer, tensor
from support.http.native_form import post
from support.services.server import Service
from tensor_round.contract.dtypes import BY_NAME


def test_round_gives_what_the_specifications_say(service: Service) -> None:
    def check(case: tuple[str, str]) -> None:
        name, dtype = case
        example = EXAMPLES[name]
        source, result = example.arrays(dtype)
        for shape in shapes_of(example):
            descriptor = example.operator.descriptor(dtype, shape).to_json()
            reply = post(service, descriptor.decode(), source.tobytes())
            assert reply.status == 200, reply.content
            assert reply.content[: result.nbytes] == result.tobytes()
            body = {"descriptor": json.loads(descriptor), "data": list(example.source)}
            reply = service.request(
                "POST", "/round", json.dumps(body).encode(), {"Content-Type": "application/json"}
            )
            assert reply.json() == {
                "output": {"dtype": dtype, "shape": list(shape)},
                "data": result.astype(object).reshape(shape).tolist(),
            }

    every(check, CASES)


def test_v2_gives_what_the_specifications_say(service: Service) -> None:
    def check(case: tuple[str, str]) -> None:
        name, dtype = case
        example = EXAMPLES[name]
        source, result = example.arrays(dtype)
        for shape in shapes_of(example):
            asked = document(
                binary(datatype(dtype), list(shape), source.nbytes, example.model.input),
                parameters={**carried(dtype), **example.parameters, "binary_data_output": True},
            )
            answer = Answer.of(
                infer(service, asked, source.tobytes(), example.model.name, example.version)
            )
            assert answer.payload == result.tobytes()
            assert answer.output["name"] == example.model.output
            if carried(dtype):
                continue  # its numbers are bits
            numbers = tensor(
                datatype(dtype), list(shape), example.model.input, data=list(example.source)
            )
            asked = document(numbers, parameters=example.parameters)
            answer = Answer.of(infer(service, asked, None, example.model.name, example.version))
            assert answer.output["data"] == list(example.result)

    every(check, CASES)


def datatype(dtype: str) -> str:
    """The protocol's name: FP8 travels as UINT8."""
    return BY_NAME[dtype].oip or "UINT8"


def carried(dtype: str) -> dict[str, Any]:
    return {} if BY_NAME[dtype].oip else {"dtype": dtype}


def test_the_client_gives_what_the_specifications_say(client: AnyClient) -> None:
    def check(case: tuple[str, str]) -> None:
        name, dtype = case
        example = EXAMPLES[name]
        source, result = example.arrays(dtype)
        for shape in shapes_of(example):
            x, expected = source.reshape(shape), result.reshape(shape)
            assert_alike(client.round(x, example.operator), expected)
            executed = client.execute(example.operator.descriptor(dtype, shape), x)
            assert_alike(executed.numpy(), expected)
            assert bytes(executed.data)[: expected.nbytes] == expected.tobytes()

    every(check, CASES)


def assert_alike(got: Array, expected: Array) -> None:
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert np.array_equal(bits(got), bits(expected))


def test_every_table_is_there() -> None:
    """Of each operator, every mode that it has; IEEE 754 gives no numbers."""
    for dialect, cases in DIALECTS.items():
        modes = {example.mode for example in cases.examples.values()} - {None}
        assert modes == (set() if dialect == "ieee754" else cases.modes.keys())
        assert bool(cases.examples) == (dialect != "ieee754")


def test_directml_s_one_default_mode(service: Service, client: AnyClient) -> None:
    """The same without a word: in JSON, in the client, in ``/v2`` and as ``/operators`` tells."""
    example = EXAMPLES["directml, 3_0, HALVES_TO_NEAREST_EVEN"]
    source, result = example.arrays("float32")
    tensor_desc = {"DataType": "FLOAT32", "Sizes": [9]}
    descriptor = {
        "dialect": "directml",
        "feature_level": "3_0",
        "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
        "desc": {"InputTensor": tensor_desc, "OutputTensor": tensor_desc},
    }
    assert post(service, json.dumps(descriptor), source.tobytes()).content == result.tobytes()
    assert bytes(client.execute(descriptor, source).data) == result.tobytes()
    assert_alike(client.round(source, tr.DirectMLRound()), result)
    asked = document(
        binary("FP32", [9], source.nbytes, "InputTensor"), parameters={"binary_data_output": True}
    )
    answer = Answer.of(infer(service, asked, source.tobytes(), example.model.name))
    assert answer.payload == result.tobytes()
    told = client.operators()["dialects"]["directml"]
    assert told["default_rounding"] == told["modes"]["HALVES_TO_NEAREST_EVEN"]
