"""What is sent of a caller's memory, and what is copied first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.cases.array_cases import off_wire, on_wire, patterns
from support.cases.descriptors import DOCUMENTS, STRIDED, call_of, ieee754, payload_of
from support.memory import traced
from tensor_round.clients.tensor_memory import allocate, payload, read_input, read_output, sink
from tensor_round.contract.host_memory import strided_view


def sent(document: Any, data: Any) -> memoryview:
    call = call_of(document)
    return payload(read_input(data, call), call)


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_bytes_are_sent_from_where_they_lie(document: Any) -> None:
    whole = bytearray(payload_of(call_of(document)))
    for data in (whole, memoryview(whole), np.frombuffer(whole, np.uint8)):
        given = np.frombuffer(sent(document, data), np.uint8)
        assert given.tobytes() == whole
        assert np.shares_memory(given, np.frombuffer(whole, np.uint8)) or not whole


WITHOUT_PADDING = [
    name
    for name in DOCUMENTS
    if name not in ("directml-strided", "padded", "empty", "scalar")
    if "4 bits" not in name
]


@pytest.mark.parametrize("name", WITHOUT_PADDING)
def test_an_array_that_lies_as_stated_is_sent_from_where_it_lies(name: str) -> None:
    call = call_of(DOCUMENTS[name])
    memory = np.frombuffer(payload_of(call), np.uint8).copy()
    x = strided_view(memory, call.input)
    given = np.frombuffer(sent(DOCUMENTS[name], x), np.uint8)
    assert np.shares_memory(given, memory)
    assert given.tobytes() == memory[: call.shortest_input].tobytes()


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if "4 bits" in name])
def test_elements_of_4_bits_are_packed(name: str) -> None:
    call = call_of(DOCUMENTS[name])
    whole = payload_of(call)
    x = off_wire(whole, call.input.dtype.name, call.input.element_count).reshape(call.input.shape)
    packed = on_wire(x)
    given = bytes(sent(DOCUMENTS[name], np.asfortranarray(x)))
    assert given == packed.ljust(call.input.byte_length, b"\0")


def test_another_array_is_laid_out_with_zeros_in_the_gaps() -> None:
    x = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    laid = np.frombuffer(sent(STRIDED, x), np.float32)
    assert laid.tolist() == [1, 4, 2, 5, 3, 6, 0, 0, 0, 0]
    broadcast = ieee754("float32", [2, 3], strides=[0, 1])
    assert bytes(sent(broadcast, np.ones((2, 3), ">f4"))) == np.ones(3, "<f4").tobytes()


def test_bytes_in_steps_are_copied() -> None:
    whole = bytes(range(16))
    assert bytes(sent(ieee754("float32", [2]), memoryview(whole)[::2])) == whole[::2]


def test_an_output_without_a_gap_lands_in_its_own_memory() -> None:
    call = call_of(ieee754("float32", [1 << 20]))
    x = patterns("float32", 1 << 20)
    outs = [allocate(call.output), read_output(np.empty_like(x), call)]
    outs.append(read_output(bytearray(x.nbytes), call))
    for out in outs:
        with traced() as most:
            comes_down = sink(out, in_place=False, verified=True)
            comes_down.get_buffer()[:] = x.view(np.uint8).data
            comes_down.advance(x.nbytes)
            comes_down.commit()
            assert most() < 64 << 10
        assert out.elements.tobytes() == x.tobytes()


def test_in_place_a_piece_at_a_time_is_held_beside() -> None:
    call = call_of(ieee754("float32", [1 << 20]))
    x = patterns("float32", 1 << 20).copy()
    with traced() as most:
        comes_down = sink(read_output(x, call), in_place=True, verified=False)
        assert most() < 320 << 10
    assert comes_down.nbytes == x.nbytes
