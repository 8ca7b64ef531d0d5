"""Parsed numbers are freed in pieces: who drops millions at once holds the GIL all the while."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from support.http.native_form import ieee754
from tensor_round.contract.errors import RequestRefused
from tensor_round.contract.progress import Pause
from tensor_round.contract.wire import strictjson
from tensor_round_service.codec import nesting
from tensor_round_service.oip import codec
from tensor_round_service.routes.tensors import Document

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
        read = Document.read(document, None, pause)
        with nesting.freed(read.data):
            read.payload(pause)

    assert most_freed(work) < MOST


def test_a_document_that_is_none() -> None:
    assert most_freed(lambda: Document.read(FLAT, None, pause)) < MOST


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
    assert most_freed(lambda: codec.read_request(header, pause)) < MOST
