"""Answers of the Open Inference Protocol, byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tensor_round_service.oip.codec import write_error, write_response

MODEL = {"model_name": "m", "model_version": "1"}
Y = {"name": "Y", "datatype": "FP32", "shape": [2, 3]}


@pytest.mark.parametrize(
    ("members", "output", "data", "text"),
    [
        pytest.param(
            *(MODEL, Y, None),
            '{"model_name":"m","model_version":"1","outputs":['
            '{"name":"Y","datatype":"FP32","shape":[2,3]}]}',
            id="bare",
        ),
        pytest.param(
            {"id": "é\n", **MODEL},
            {**Y, "parameters": {"dtype": "float8_e5m2", "binary_data_size": 1}},
            None,
            '{"id":"\\u00e9\\n","model_name":"m","model_version":"1","outputs":['
            '{"name":"Y","datatype":"FP32","shape":[2,3],'
            '"parameters":{"dtype":"float8_e5m2","binary_data_size":1}}]}',
            id="parameters",
        ),
        pytest.param(
            *({"id": "", **MODEL}, Y, [b"[NaN,", b"-0.0]"]),
            '{"id":"","model_name":"m","model_version":"1","outputs":['
            '{"name":"Y","datatype":"FP32","shape":[2,3],"data":[NaN,-0.0]}]}',
            id="data",
        ),
    ],
)
def test_answers(members: Any, output: Any, data: Any, text: str) -> None:
    assert b"".join(write_response(members, output, data)) == text.encode()


@pytest.mark.parametrize("detail", ["plain", "two\nlines\r\n", 'quoted "x" \\', "\u2028\x00é"])
def test_errors_are_one_line(detail: str) -> None:
    body = write_error(detail)
    assert b"\n" not in body
    assert list(json.loads(body)) == ["error"]
    assert len(json.loads(body)["error"].splitlines()) == 1
