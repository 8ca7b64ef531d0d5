"""Nested lists of numbers to one flat list, and flat texts to nested JSON.

Python's loops run over arrays and blocks only. Numbers are processed in C, by ``map`` and ``set``.
"""

from __future__ import annotations

import contextlib
import math
import traceback
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import mul
from typing import Any

from tensor_round.contract.errors import Fault, InvalidDescriptor, PayloadSizeMismatch
from tensor_round.contract.progress import Pause, no_pause

#: An empty tensor of more arrays is written as ``[]``: shape [2^40, 0] would take 3 TiB of text.
MAX_EMPTY_ARRAYS = 65_536

#: Arrays and objects in a document with a tensor, be it a request or a response. Each takes as
#: long as a number to parse, but only two bytes of text. With this limit 16 MiB of text have at
#: least 16 bytes for each.
MAX_CONTAINERS = 1 << 20

#: Values whose types are looked at between two pauses: about a millisecond.
_BLOCK = 65_536

Loc = tuple[str | int, ...]


def flatten(
    data: Any,
    shape: Sequence[int],
    *,
    any_nesting: bool,
    loc: Loc,
    pause: Pause = no_pause,
) -> list[Any]:
    """The leaves of ``data`` in the order of the text, as many as the shape has elements.

    They are nested exactly as ``shape``, or in one flat array; with ``any_nesting`` in any way.
    Raises :class:`PayloadSizeMismatch` if the count is wrong, else :class:`InvalidDescriptor` at
    the first array that is not nested as the shape.
    """
    if shape and type(data) is not list:
        raise InvalidDescriptor.at(loc, "must be an array of numbers")
    leaves = _as_shaped(data, shape, pause) if not any_nesting else None
    if leaves is not None:
        return leaves
    leaves = _leaves(data, pause)
    expected = math.prod(shape)
    if len(leaves) != expected:
        count = f"{len(leaves)} element{'' if len(leaves) == 1 else 's'}"
        what = f"the {loc[-1]} has {count}"
        raise PayloadSizeMismatch(f"{what}, the shape {list(shape)} has {expected}")
    # One flat array is returned as itself.
    fault = None if any_nesting or leaves is data else _wrong_nesting(data, shape, loc)
    if fault is not None:
        raise InvalidDescriptor.of([fault])
    return leaves


def path(data: Any, index: int) -> Loc:
    """The indices of the ``index``-th leaf in the order of the text."""
    if type(data) is not list:
        return ()
    walks, steps = [iter(enumerate(data))], list[int]()
    while True:
        for step, child in walks[-1]:
            if type(child) is list:
                walks.append(iter(enumerate(child)))
                steps.append(step)
                break
            if index == 0:
                return (*steps, step)
            index -= 1
        else:
            walks.pop()
            steps.pop()


def types(items: list[Any], pause: Pause = no_pause) -> set[type]:
    """The types of all items."""
    found: set[type] = set()
    for start in range(0, len(items), _BLOCK):
        found.update(map(type, items[start : start + _BLOCK]))
        pause()
    return found


@contextlib.contextmanager
def freed(value: Any) -> Iterator[None]:
    """Empty the lists and objects of a parsed value at the end, in pieces.

    Millions of numbers that are dropped at once hold the GIL for a tenth of a second. Between two
    pieces other threads can run.
    """
    try:
        yield
    except Exception as error:  # of any class: it is raised on
        # Frames of functions that have ended refer to the numbers, too.
        traceback.clear_frames(error.__traceback__)
        raise
    finally:
        _free(value)


def _free(value: Any) -> None:
    level, items = [[value]], list[Any]()
    while level:
        deeper: list[Any] = []
        for node in level:
            while node:
                items += node[-_BLOCK:]
                del node[-_BLOCK:]
                if len(items) >= _BLOCK:
                    deeper += _nested(items)
                    items = []
        level = deeper + _nested(items)
        items = []


def _nested(items: list[Any]) -> list[list[Any]]:
    """The lists among the items, and for an object that of its members."""
    if set(map(type, items)).isdisjoint((list, dict)):
        return []
    for item in items:
        if type(item) is dict:
            members = list(item.values())
            item.clear()
            items.append(members)
    return [item for item in items if type(item) is list]


def arrays(shape: Sequence[int]) -> int:
    """The number of arrays in the JSON of a tensor of this shape."""
    return sum(accumulate(shape[:-1], mul, initial=1)) if shape else 0


def nest(texts: list[str], shape: Sequence[int]) -> str:
    """The JSON of a tensor that has elements, from the elements' texts in C order.

    Dimensions of size 1 take no separate step: their brackets are written with the commas of
    the next larger dimension.
    """
    ones = 0
    for size in reversed(shape):
        if size == 1:
            ones += 1
            continue
        opened, closed = "[" * ones, "]" * ones
        comma = f"{closed},{opened}"
        texts = [
            f"[{opened}{comma.join(texts[i : i + size])}{closed}]"
            for i in range(0, len(texts), size)
        ]
        ones = 0
    return f"{'[' * ones}{texts[0]}{']' * ones}"


def empty(shape: Sequence[int]) -> str:
    """The JSON of a tensor without elements; see :data:`MAX_EMPTY_ARRAYS`."""
    outer = shape[: list(shape).index(0)]
    text = "[]"
    if math.prod(outer) <= MAX_EMPTY_ARRAYS and arrays(shape) <= MAX_CONTAINERS:
        for size in reversed(outer):
            text = f"[{','.join([text] * size)}]"
    return text


def _as_shaped(data: Any, shape: Sequence[int], pause: Pause) -> list[Any] | None:
    """The leaves, or None if the data is not nested exactly as the shape."""
    level: list[Any] = [data]
    for size in shape:
        if types(level, pause) - {list} or set(map(len, level)) - {size}:
            return None
        if len(level) == 1:
            level = level[0]
            continue
        deeper: list[Any] = []
        for node in level:
            deeper += node
            pause()
        level = deeper
    return None if list in types(level, pause) else level


def _leaves(node: Any, pause: Pause) -> list[Any]:
    """The leaves; those of a flat list are the list itself."""
    if type(node) is not list:
        return [node]
    if list not in types(node, pause):
        return node
    leaves: list[Any] = []
    for child in node:
        leaves += _leaves(child, pause)
    return leaves


def _wrong_nesting(node: Any, shape: Sequence[int], loc: Loc) -> Fault | None:
    """The fault of the first array or number that is not nested as the shape."""
    if not shape:
        wrong = "must be a number, as the shape says, got an array"
        return Fault(loc, wrong) if type(node) is list else None
    if type(node) is not list or len(node) != shape[0]:
        got = f"got {len(node)}" if type(node) is list else "got none"
        return Fault(loc, f"must be an array of {shape[0]} entries, as the shape says, {got}")
    if len(shape) == 1 and list not in set(map(type, node)):
        return None
    faults = (_wrong_nesting(child, shape[1:], (*loc, i)) for i, child in enumerate(node))
    return next(filter(None, faults), None)
