"""Every example and table of the specifications, on each backend."""

from __future__ import annotations

import pytest

from support.cases.backend_calls import run
from support.cases.specifications import CASES, EXAMPLES, IDS, shapes_of
from tensor_round_service.backends import Backend


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=IDS)
def test_the_backend_gives_what_the_specification_says(
    backend: Backend, name: str, dtype: str
) -> None:
    example = EXAMPLES[name]
    source, result = example.arrays(dtype)
    for shape in shapes_of(example):
        call = example.operator.descriptor(dtype, shape).resolve()
        # DirectML's lengths are rounded up to 4 bytes.
        payload = source.tobytes().ljust(call.input.byte_length, b"\0")
        expected = result.tobytes().ljust(call.output.byte_length, b"\0")
        assert run(backend, call, payload) == expected
        assert run(backend, call, payload, in_place=True) == expected
