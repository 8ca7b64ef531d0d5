"""Every example and table of the specifications, on each backend."""

from __future__ import annotations

from support.cases.backend_calls import run
from support.cases.descriptors import NUMBERED, NUMBERS
from support.cases.every import every
from tensor_round_service.backends import Backend


def test_the_backend_gives_what_the_specifications_say(backend: Backend) -> None:
    def check(case: tuple[str, str]) -> None:
        name, dtype = case
        example = NUMBERS[name]
        source, result = example.arrays(dtype)
        for shape in example.every_shape:
            call = example.operator.descriptor(dtype, shape).resolve()
            # DirectML's lengths are rounded up to 4 bytes.
            payload = source.tobytes().ljust(call.input.byte_length, b"\0")
            expected = result.tobytes().ljust(call.output.byte_length, b"\0")
            assert run(backend, call, payload) == expected
            assert run(backend, call, payload, in_place=True) == expected

    every(check, NUMBERED)
