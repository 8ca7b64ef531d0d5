"""Answers of the Open Inference Protocol, byte for byte."""

from __future__ import annotations

import json

import pytest

from tensor_round_service.oip.codec import ResponseOutput, write_error, write_response

Y = ResponseOutput("Y", "FP32", (2, 3), {})


@pytest.mark.parametrize(
    ("request_id", "outputs", "text"),
    [
        pytest.param(
            None,
            [Y],
            '{"model_name":"m","model_version":"1","outputs":['
            '{"name":"Y","datatype":"FP32","shape":[2,3]}]}',
            id="bare",
        ),
        pytest.param(
            "é\n",
            [ResponseOutput("Y", "UINT8", (), {"dtype": "float8_e5m2", "binary_data_size": 1})],
            '{"id":"\\u00e9\\n","model_name":"m","model_version":"1","outputs":['
            '{"name":"Y","datatype":"UINT8","shape":[],'
            '"parameters":{"dtype":"float8_e5m2","binary_data_size":1}}]}',
            id="parameters",
        ),
        pytest.param(
            "",
            [ResponseOutput("Y", "FP16", (2,), {}, [b"[NaN,", b"-0.0]"]), Y],
            '{"id":"","model_name":"m","model_version":"1","outputs":['
            '{"name":"Y","datatype":"FP16","shape":[2],"data":[NaN,-0.0]},'
            '{"name":"Y","datatype":"FP32","shape":[2,3]}]}',
            id="data-and-two-outputs",
        ),
        pytest.param(None, [], '{"model_name":"m","model_version":"1","outputs":[]}', id="none"),
    ],
)
def test_answers(request_id: str | None, outputs: list[ResponseOutput], text: str) -> None:
    assert b"".join(write_response("m", "1", request_id, outputs)) == text.encode()


@pytest.mark.parametrize("detail", ["plain", "two\nlines\r\n", 'quoted "x" \\', "\u2028\x00é"])
def test_errors_are_one_line(detail: str) -> None:
    body = write_error(detail)
    assert b"\n" not in body
    assert list(json.loads(body)) == ["error"]
    assert len(json.loads(body)["error"].splitlines()) == 1
