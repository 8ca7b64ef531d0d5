"""Nested lists of numbers to one flat list, and flat texts to nested JSON.

Python's loops run over arrays only. Numbers are processed in C, by ``map``, ``set`` and ``chain``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

from tensor_round.contract.errors import Fault, InvalidDescriptor, PayloadSizeMismatch

#: An empty tensor of more arrays is written as ``[]``: shape [2^40, 0] would take 3 TiB of text.
MAX_EMPTY_ARRAYS = 65_536

#: Arrays and objects in a document with a tensor. Each takes as long as a number to parse, but
#: only two bytes of text. With this limit 16 MiB of text have at least 16 bytes for each.
MAX_CONTAINERS = 1 << 20

Loc = tuple[str | int, ...]


def flatten(data: Any, shape: Sequence[int], *, any_nesting: bool, loc: Loc) -> list[Any]:
    """The leaves of ``data`` in the order of the text, as many as the shape has elements.

    They are nested exactly as ``shape``, or in one flat array; with ``any_nesting`` in any way.
    Raises :class:`PayloadSizeMismatch` if the count is wrong, else :class:`InvalidDescriptor` at
    the first array that is not nested as the shape.
    """
    if shape and type(data) is not list:
        raise InvalidDescriptor.of([Fault(loc, "must be an array of numbers")])
    leaves = _as_shaped(data, shape) if not any_nesting else None
    if leaves is not None:
        return leaves
    leaves = _leaves(data)
    expected = math.prod(shape)
    if len(leaves) != expected:
        raise PayloadSizeMismatch(
            f"the data has {len(leaves)} elements, the shape {list(shape)} has {expected}"
        )
    # One flat array is returned as itself.
    fault = None if any_nesting or leaves is data else _wrong_nesting(data, shape, loc)
    if fault is not None:
        raise InvalidDescriptor.of([fault])
    return leaves


def path(data: Any, index: int) -> Loc:
    """The indices of the ``index``-th leaf in the order of the text."""
    if type(data) is not list:
        return ()
    walks, steps = [iter(enumerate(data))], [0]
    while True:
        for steps[-1], child in walks[-1]:
            if type(child) is list:
                walks.append(iter(enumerate(child)))
                steps.append(0)
                break
            if index == 0:
                return tuple(steps)
            index -= 1
        else:
            walks.pop()
            steps.pop()


def nest(texts: list[str], shape: Sequence[int]) -> str:
    """The JSON of a tensor that has elements, from the elements' texts in C order."""
    for size in reversed(shape):
        texts = [f"[{','.join(texts[i : i + size])}]" for i in range(0, len(texts), size)]
    return texts[0]


def empty(shape: Sequence[int]) -> str:
    """The JSON of a tensor without elements; see :data:`MAX_EMPTY_ARRAYS`."""
    outer = shape[: list(shape).index(0)]
    text = "[]"
    if math.prod(outer) <= MAX_EMPTY_ARRAYS:
        for size in reversed(outer):
            text = f"[{','.join([text] * size)}]"
    return text


def _as_shaped(data: Any, shape: Sequence[int]) -> list[Any] | None:
    """The leaves, or None if the data is not nested exactly as the shape."""
    level: list[Any] = [data]
    for size in shape:
        if set(map(type, level)) - {list} or set(map(len, level)) - {size}:
            return None
        level = list(chain.from_iterable(level))
    return None if list in set(map(type, level)) else level


def _leaves(node: Any) -> list[Any]:
    if type(node) is not list:
        return [node]
    if list not in set(map(type, node)):
        return node
    leaves: list[Any] = []
    _collect(node, leaves)
    return leaves


def _collect(node: list[Any], leaves: list[Any]) -> None:
    if list not in set(map(type, node)):
        leaves.extend(node)
        return
    for child in node:
        if type(child) is list:
            _collect(child, leaves)
        else:
            leaves.append(child)


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
