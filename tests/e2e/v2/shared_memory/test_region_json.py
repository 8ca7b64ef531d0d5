"""What JSON alone can say of regions: wrong types, broken documents, numbers in the response."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from support.http.inference_form import EVEN, Answer, X, document, error_of, infer
from support.segments import Segment
from support.services.server import Service
from support.v2.callers import Caller, HttpCaller
from support.v2.regions import found, put, registered, source

REGISTER = "/v2/systemsharedmemory/region/r/register"


@pytest.fixture
def caller(service: Service) -> Caller:
    return HttpCaller(service)


NOT_REGISTERED: dict[str, tuple[dict[str, Any], str]] = {
    "no-key": ({"offset": 0, "byte_size": 4}, "key: must be a string"),
    "key-number": ({"key": 7, "byte_size": 4}, "key: must be a string"),
    "size-text": ({"key": "K", "byte_size": "4"}, "byte_size: must be an integer"),
    "size-float": ({"key": "K", "byte_size": 4.0}, "byte_size: must be an integer"),
    "size-true": ({"key": "K", "byte_size": True}, "byte_size: must be an integer"),
    "offset-negative": ({"key": "K", "byte_size": 4, "offset": -1}, "offset: must be an integer"),
}


@pytest.mark.parametrize(("members", "says"), NOT_REGISTERED.values(), ids=NOT_REGISTERED)
def test_wrong_types(service: Service, caller: Caller, members: dict[str, Any], says: str) -> None:
    reply = service.request("POST", REGISTER, json.dumps(members).encode())
    assert reply.status == 400
    assert says in error_of(reply)
    assert registered(caller).head == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"key":"a","key":"b"}', b"\xff"])
def test_malformed_registrations(service: Service, body: bytes) -> None:
    reply = service.request("POST", REGISTER, body)
    assert reply.status == 400
    assert error_of(reply)


@pytest.mark.usefixtures("region")
def test_numbers_in_the_response(service: Service, owned: Segment) -> None:
    put(owned, X, 8)
    answer = Answer.of(infer(service, document(source(40, 8))))
    assert answer.output["data"] == EVEN.tolist()
    np.testing.assert_array_equal(found(owned, 8), X)


@pytest.mark.usefixtures("region")
def test_an_offset_beyond_64_bits(service: Service) -> None:
    reply = infer(service, document(source(40, 2**64)))
    assert reply.status == 400
    assert "65536 bytes" in error_of(reply)


@pytest.mark.usefixtures("region")
def test_bytes_behind_the_document(service: Service) -> None:
    reply = infer(service, document(source(40)), b"x")
    assert reply.status == 400
    assert "0 bytes" in error_of(reply)
