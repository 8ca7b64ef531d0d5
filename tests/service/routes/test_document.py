"""The JSON form of a request: what a document takes, and what is refused unread."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from support.http.native_form import ieee754
from support.memory import peak
from tensor_round.contract.errors import InvalidDescriptor, MalformedJSON, TensorRoundError
from tensor_round.contract.functions import Convert
from tensor_round.contract.rounding import Rounding
from tensor_round.contract.wire import strictjson
from tensor_round_service.codec import nesting
from tensor_round_service.codec.json_size import measure_json
from tensor_round_service.routes.json_document import TensorDocument

KIB, MIB = 1 << 10, 1 << 20


def document(data: str, shape: list[int], dtype: str = "float32") -> bytes:
    return b'{"descriptor":%s,"data":%s}' % (ieee754(dtype, shape).encode(), data.encode())


def listed(item: str, count: int) -> str:
    return f"[{','.join([item] * count)}]"


def answered(text: bytes) -> tuple[bytes, int]:
    """The answer, and the memory that is reserved for it after the request is parsed."""
    read = TensorDocument.read(text)
    (payload,) = read.payload()
    reserved = read.response_bytes()
    parts = read.response(
        np.rint(np.frombuffer(payload, read.call.input.dtype.numpy)).data.cast("B")
    )
    return b"".join(parts), reserved


COUNT = 30_000
ANSWERED = {
    "digits": document(listed("0", COUNT), [COUNT]),
    "long answers": document(listed("9e15", COUNT), [COUNT], "float64"),
    "floats": document(listed("-0.12345678901234567", COUNT), [COUNT], "float64"),
    "halves": document(listed("1.00048828125", COUNT), [COUNT], "float16"),
    "column": document(listed("[0]", COUNT), [COUNT, 1]),
    "deep": document(listed("[" * 31 + "1.5" + "]" * 31, COUNT // 30), [COUNT // 30] + [1] * 31),
    "specials": document(listed('"-Infinity"', COUNT), [COUNT]),
}


@pytest.mark.parametrize("name", ANSWERED)
def test_a_document_and_its_answer_take_no_more_than_the_census_says(name: str) -> None:
    text = ANSWERED[name]
    answer, reserved = answered(text)
    assert json.loads(answer)["output"]["shape"][0] > 1
    assert peak(lambda: answered(text)) <= max(measure_json(text).nbytes, reserved + len(answer))


def test_an_answer_of_too_many_arrays_is_refused_before_any_work() -> None:
    """In the request, all numbers are one flat array."""
    most = nesting.MAX_CONTAINERS // 31
    read = TensorDocument.read(document(listed("0", most), [most] + [1] * 31, "int8"))
    assert read.response_bytes() < 16 * MIB
    read = TensorDocument.read(document(listed("0", most + 1), [most + 1] + [1] * 31, "int8"))
    with pytest.raises(InvalidDescriptor, match="arrays, at most 1048576"):
        read.response_bytes()


def test_as_many_arrays_as_there_may_be_are_read() -> None:
    around = 3  # the document, its descriptor, the descriptor's input
    shape_and_data = 2
    count = nesting.MAX_CONTAINERS - around - shape_and_data
    text = document(listed("[1]", count), [count, 1], "int8")
    assert b"".join(TensorDocument.read(text).payload()) == bytes([1]) * count
    with pytest.raises(MalformedJSON, match="one flat array"):
        TensorDocument.read(document(listed("[1]", count + 1), [count + 1, 1], "int8"))


def fields() -> bytes:
    return json.dumps(dict.fromkeys(map(hex, range(MIB)))).encode()


HOSTILE: dict[str, Callable[[], bytes]] = {
    "rows of one": lambda: document(listed("[0]", 3 * MIB), [3 * MIB, 1]),
    "deep rows": lambda: document(listed("[" * 60 + "]" * 60, 120 * KIB), [1]),
    "objects": lambda: document(listed('{"a":[]}', MIB), [MIB]),
    "fields": fields,
    "fields of a descriptor": lambda: b'{"descriptor":%s,"data":0}' % fields(),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_oversized_document_is_refused_before_it_is_parsed(name: str) -> None:
    text = HOSTILE[name]()

    def refused() -> None:
        with pytest.raises(MalformedJSON):
            TensorDocument.read(text)

    assert peak(refused) < 5 * MIB


def test_a_descriptor_of_very_many_sizes_is_not_read_through() -> None:
    sizes = [0] * (256 * KIB)
    calls: Counter[str] = Counter()
    sys.setprofile(lambda frame, event, _: calls.update([frame.f_code.co_name] * (event == "call")))
    try:
        with pytest.raises(InvalidDescriptor, match="at most") as caught:
            TensorDocument.read(document("0", sizes))
    finally:
        sys.setprofile(None)
    assert len(caught.value.faults) == 1
    del calls[strictjson._text.__name__]  # of numbers, each of which the parser asks about
    assert calls.total() < 1000


def test_layout_in_json_is_refused_and_names_octet_stream() -> None:
    stated = ieee754("float32", [2], strides=[1]).encode()
    with pytest.raises(InvalidDescriptor, match=r"strides: .* is for application/octet-stream"):
        TensorDocument.read(b'{"descriptor":%s,"data":[1,2]}' % stated)


@pytest.mark.parametrize(
    ("data", "shape"),
    [
        ("[0.5, 1.5]", [2]),
        ("[[0.5], [1.5], [2.5]]", [3, 1]),
        ("2.5", []),
        ("[]", [0]),
        ("[[], []]", [2, 0]),
        ('["NaN", -0.0]', [2]),
    ],
)
def test_the_short_form_has_the_shape_of_its_data(data: str, shape: list[int]) -> None:
    text = f'{{"operator": "ties_to_away", "dtype": "float32", "data": {data}}}'.encode()
    read = TensorDocument.read(text)
    assert list(read.call.input.shape) == shape
    assert read.call.rounding == "ties_to_away"
    in_query = f'{{"dtype": "float32", "data": {data}}}'.encode()
    assert TensorDocument.read(in_query, {"operator": "ties_to_away"}).call == read.call


def test_the_short_form_may_state_the_shape_of_flat_numbers() -> None:
    text = b'{"operator": "onnx", "dtype": "float16", "shape": [2, 2], "data": [1.5, 2, 3, 4]}'
    assert TensorDocument.read(text).call.input.shape == (2, 2)


#: One dimension too many.
DEEP = b'{"operator": "onnx", "dtype": "float32", "data": %s}' % (b"[" * 33 + b"]" * 33)


@pytest.mark.parametrize(
    ("text", "operator", "loc"),
    [
        (b'{"operator": "onnx", "dtype": "float32", "data": [1]}', "onnx", ("operator",)),
        (b'{"descriptor": {}, "dtype": "float32", "data": [1]}', "onnx", ("descriptor",)),
        (b'{"operator": "onnx", "dtype": "float32", "dat": [1]}', None, ("dat",)),
        (b'{"operator": "onnx", "data": [1]}', None, ("dtype",)),
        (DEEP, None, ("shape",)),
    ],
)
def test_faults_of_the_short_form(text: bytes, operator: str | None, loc: tuple[str]) -> None:
    with pytest.raises(InvalidDescriptor) as caught:
        TensorDocument.read(text, {} if operator is None else {"operator": operator})
    assert caught.value.faults[0].loc == loc


@pytest.mark.parametrize("in_query", [False, True])
def test_the_short_form_of_a_cast(in_query: bool) -> None:
    cast = {"operator": "onnx:Cast:24", "to": "float8_e4m3fn", "saturate": False}
    asked = {name: str(value).lower() if value is False else value for name, value in cast.items()}
    text = json.dumps({**({} if in_query else cast), "dtype": "float32", "data": [500]}).encode()
    call = TensorDocument.read(text, asked if in_query else {}).call
    assert (call.output.dtype.name, call.output.shape) == ("float8_e4m3fn", (1,))
    assert call.function == Convert(Rounding.TIES_TO_EVEN, saturates=False)


def test_rows_of_unequal_length_have_no_shape() -> None:
    text = b'{"operator": "onnx", "dtype": "float32", "data": [[1, 2], [3]]}'
    with pytest.raises(TensorRoundError, match="data"):
        list(TensorDocument.read(text).payload())
