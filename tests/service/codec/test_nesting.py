"""Nested lists: their leaves, against NumPy's way of nesting; and how numbers are freed.

Parsed numbers are freed in pieces: who drops millions at once holds the GIL all the while.
"""

from __future__ import annotations

import contextlib
import json
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from functools import reduce
from operator import getitem
from types import FrameType
from typing import Any

import numpy as np
import pytest

from support.http.native_form import ieee754
from tensor_round.contract.errors import InvalidDescriptor, PayloadSizeMismatch, RequestRefused
from tensor_round.contract.progress import Pause
from tensor_round.contract.wire import strictjson
from tensor_round_service.codec import nesting
from tensor_round_service.oip import infer_json
from tensor_round_service.routes.json_document import TensorDocument

LOC = ("data",)
SHAPES = [(), (1,), (3,), (1, 1), (2, 3), (3, 1, 2), (2, 2, 2, 2), (0,), (2, 0), (3, 0, 2)]
each_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
#: No tensor's nesting, with ten leaves.
ANYHOW: list[Any] = [[0], [[1, 2], [[3]], []], 4, [5, [6, [7]], [8]], 9]


def calls_of(work: Callable[[], object]) -> Counter[str]:
    """The events of a profile while this runs."""
    calls: Counter[str] = Counter()
    sys.setprofile(lambda _frame, event, _arg: calls.update([event]))
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def nested(shape: tuple[int, ...]) -> Any:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).tolist()


def flat(data: Any, shape: tuple[int, ...], any_nesting: bool = False) -> list[Any]:
    return nesting.flatten(data, shape, any_nesting=any_nesting, loc=LOC)


@pytest.mark.parametrize("any_nesting", [False, True])
@each_shape
def test_the_leaves_of_a_tensor_are_in_c_order(shape: tuple[int, ...], any_nesting: bool) -> None:
    data = nested(shape)
    count = int(np.prod(shape))
    assert flat(data, shape, any_nesting) == list(range(count))
    assert flat(list(range(count)), shape, any_nesting) == list(range(count))


def test_a_flat_array_is_not_copied() -> None:
    leaves = [1, 2, 3, 4]
    assert flat(leaves, (2, 2)) is flat(leaves, (4,), any_nesting=True) is leaves


def test_any_nesting_is_taken_where_it_may_be() -> None:
    assert flat(ANYHOW, (2, 5), any_nesting=True) == list(range(10))
    with pytest.raises(InvalidDescriptor):
        flat(ANYHOW, (2, 5))


@pytest.mark.parametrize(
    ("data", "shape", "loc", "why"),
    [
        (7, (1,), (), "must be an array of numbers"),
        ("ab", (2,), (), "must be an array of numbers"),
        ([[7]], (), (), "must be a number, as the shape says, got an array"),
        ([[0, 1, 2], [3, 4, 5]], (3, 2), (), "an array of 3 entries, as the shape says, got 2"),
        ([[0, 1], [2, 3, 4], [5]], (3, 2), (1,), "an array of 2 entries, .* got 3"),
        ([[0, 1], 2, [3, 4], 5, 6, 7], (4, 2), (), "an array of 4 entries, .* got 6"),
        ([[0, 1], 2, [3, 4, 5]], (3, 2), (1,), "an array of 2 entries, .* got none"),
        ([[[0], [1]], [[2], 3]], (2, 2, 1), (1, 1), "an array of 1 entries, .* got none"),
        ([[0, 1], [2, 3]], (2, 2, 1), (0, 0), "an array of 1 entries, .* got none"),
        ([[0, [1]], [2, 3]], (2, 2), (0, 1), "must be a number, .* got an array"),
        ([[0], 1], (2,), (0,), "must be a number, .* got an array"),
    ],
)
def test_fault_names_the_first_array_not_nested_as_the_shape(
    data: Any, shape: tuple[int, ...], loc: tuple[int, ...], why: str
) -> None:
    with pytest.raises(InvalidDescriptor, match=why) as refused:
        flat(data, shape)
    (fault,) = refused.value.faults
    assert fault.loc == (*LOC, *loc)


@pytest.mark.parametrize("any_nesting", [False, True])
@pytest.mark.parametrize("data", [[], [1], [[1], [2]], [1, 2, 3, 4]])
def test_wrong_count_names_both_counts(data: Any, any_nesting: bool) -> None:
    count = len(data)
    with pytest.raises(PayloadSizeMismatch, match=rf"has {count} elements?, .* \[3\] has 3"):
        flat(data, (3,), any_nesting)


@pytest.mark.parametrize(("data", "count"), [(ANYHOW, 10), (nested((2, 3)), 6), (nested((4,)), 4)])
def test_the_path_of_a_leaf_leads_to_it(data: Any, count: int) -> None:
    for leaf in range(count):
        assert reduce(getitem, nesting.path(data, leaf), data) == leaf
    assert nesting.path(3, 0) == ()


@each_shape
def test_written_numbers_are_nested_as_the_shape(shape: tuple[int, ...]) -> None:
    data = nested(shape)
    if 0 in shape:
        assert json.loads(nesting.empty(shape)) == data
    else:
        texts = list(map(str, range(int(np.prod(shape)))))
        assert json.loads(nesting.nest(texts, shape)) == data


def test_dimensions_of_size_1_take_no_step_for_each_element() -> None:
    """Where each had one, 32 of them took seconds for a request of 2 KiB."""
    texts, shape = ["1"] * 30_000, (30_000, *[1] * 31)
    assert nesting.nest(texts, shape).startswith("[" * 32 + "1" + "]" * 31 + ",")
    assert calls_of(lambda: nesting.nest(texts, shape)).total() < 100


@each_shape
def test_arrays_are_as_many_as_the_text_of_a_shape_has(shape: tuple[int, ...]) -> None:
    assert nesting.arrays(shape) == json.dumps(nested(shape)).count("[")


def test_an_empty_tensor_of_many_arrays_is_written_as_one() -> None:
    assert nesting.empty((1 << 16, 0)).count("[]") == 1 << 16
    assert nesting.empty((256, 256, 0, 9)).count("[]") == 1 << 16
    assert nesting.empty(((1 << 16) + 1, 0)) == "[]"
    assert nesting.empty((1 << 40, 0)) == "[]"


@pytest.mark.parametrize(("count", "arrays"), [(41_943, 1 << 20), (41_944, 1)])
def test_an_empty_tensor_has_no_more_arrays_than_a_document_may(count: int, arrays: int) -> None:
    """Each of the outer arrays has 24 of size 1 in it, and an empty one."""
    assert nesting.empty((count, *[1] * 24, 0)).count("[") == arrays


def test_rows_as_the_shape_says_take_a_pause_each_and_no_other_call() -> None:
    data, pauses = nested((1000, 2)), list[None]()

    def pause() -> None:
        pauses.append(None)

    calls = calls_of(
        lambda: nesting.flatten(data, (1000, 2), any_nesting=False, loc=LOC, pause=pause)
    )
    assert len(pauses) >= 1000
    assert calls["call"] < len(pauses) + 100


def test_a_pause_follows_the_types_of_each_65_536_values() -> None:
    pauses: list[None] = []
    values = [1] * (3 << 16)
    assert nesting.types([*values, "a"], lambda: pauses.append(None)) == {int, str}
    assert len(pauses) == 4


def test_an_error_keeps_nothing_of_a_freed_value() -> None:
    class Numbers(list[int]):
        pass

    kept: list[weakref.ref[Numbers]] = []

    def refuse() -> None:
        numbers = Numbers([1, 2])
        kept.append(weakref.ref(numbers))
        raise ValueError("no tensor")

    with pytest.raises(ValueError, match="no tensor") as caught, nesting.freed([1, 2]):
        refuse()
    assert caught.value.__traceback__ is not None
    assert kept[0]() is None


@pytest.mark.parametrize("fails", [False, True])
def test_every_list_and_object_of_a_freed_value_is_emptied(fails: bool) -> None:
    deepest: list[Any] = [3]
    inner = [[1, 2], {"a": deepest, "b": 4}, 5]
    long: list[Any] = [inner, *range(70_000), [6]]
    last = long[-1]
    value = {"data": long}
    try:
        with nesting.freed(value):
            assert deepest == [3]
            if fails:
                raise ValueError("no tensor")
    except ValueError:
        assert fails
    assert (value, long, inner, deepest, last) == ({}, [], [], [], [])


# Freeing.

COUNT = 150_000
#: What may be freed between two lines of Python, at which other threads can run.
MOST = 100_000
#: The functions that drop many numbers, whose lines are watched; to look takes some microseconds.
WATCHED = {"loads", "freed", "_free", "work"}


def most_freed(work: Callable[[], object]) -> int:
    """The most blocks of memory that are freed between two lines."""
    most, last = 0, sys.getallocatedblocks()

    def line(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal most, last
        now = sys.getallocatedblocks()
        most, last = max(most, last - now), now
        return line

    def call(frame: FrameType, event: str, arg: Any) -> Any:
        return line(frame, event, arg) if frame.f_code.co_name in WATCHED else None

    sys.settrace(call)
    try:
        with contextlib.suppress(RequestRefused):
            work()
    finally:
        sys.settrace(None)
    return max(most, last - sys.getallocatedblocks())


def pause() -> None:
    pass


def loads(text: bytes, pause: Pause) -> Any:
    return strictjson.loads(text, max_depth=8, numbers="exact", pause=pause)


NUMBERS = b",".join([b"10"] * COUNT)
FLAT = b"[" + NUMBERS + b"]"
ROWS = b"[" + b",".join([b"[%s]" % b",".join([b"10"] * 100)] * (COUNT // 100)) + b"]"


def test_a_malformed_document() -> None:
    assert most_freed(lambda: loads(FLAT[:-1] + b"x", pause)) < MOST
    assert most_freed(lambda: loads(FLAT[:-1] + b"x", lambda: None)) < MOST


@pytest.mark.parametrize(
    "text",
    [
        FLAT,
        ROWS,
        b"[1,[" + FLAT + b"," + FLAT + b"],[],2]",
        b'{"a":' + FLAT + b',"b":[{"c":' + FLAT + b"}]}",
    ],
    ids=["flat", "nested", "mixed", "objects"],
)
def test_a_value(text: bytes) -> None:
    value = [loads(text, pause)]

    def work() -> None:
        with nesting.freed(value[0]):
            pass
        assert not value.pop()

    assert most_freed(work) < MOST


@pytest.mark.parametrize(
    ("shape", "data"),
    [
        ([COUNT], FLAT),
        ([COUNT], FLAT[:-3] + b'"x"]'),
        ([COUNT // 100, 100], ROWS[:-4] + b'"x"]]'),
        ([COUNT // 100, 99], ROWS),
        ([COUNT], ROWS),
        ([9], FLAT),
        ([-1], FLAT),
    ],
    ids=["right", "wrong", "wrong row", "long rows", "nested", "too many", "wrong shape"],
)
def test_a_document(shape: list[int], data: bytes) -> None:
    document = b'{"descriptor":%s,"data":%s}' % (ieee754("int8", shape).encode(), data)

    def work() -> None:
        read = TensorDocument.read(document, {}, pause)
        with nesting.freed(read.numbers):
            list(read.payload(pause))

    assert most_freed(work) < MOST


def test_a_document_that_is_none() -> None:
    assert most_freed(lambda: TensorDocument.read(FLAT, {}, pause)) < MOST


@pytest.mark.parametrize(
    "header",
    [
        b'{"inputs":[{"name":"x","shape":[9],"datatype":"INT8","data":%s},1]}' % FLAT,
        b'{"inputs":[{"data":%s}]}' % FLAT,
        b'{"inputs":%s}' % FLAT,
        FLAT,
    ],
    ids=["the second is wrong", "the first is wrong", "no inputs", "no object"],
)
def test_a_refused_inference(header: bytes) -> None:
    assert most_freed(lambda: infer_json.read_request(header, pause)) < MOST
