"""The size of a JSON text's value, counted on the text before it is parsed.

Two bytes of text can become an array of a hundred bytes. So that a budget holds, memory for the
value is reserved before the text is parsed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.progress import Pause, no_pause
from tensor_round.contract.wire import strictjson

#: Bytes counted at once: NumPy's temporary arrays stay in the cache.
BLOCK = 256 << 10
#: Texts up to this length are not measured to parse them.
_SHORT = 4096


@dataclass(frozen=True, slots=True)
class JSONSize:
    """The nesting depth of a JSON text, its values, and the memory for them.

    For a malformed text each number covers at least the part before the first wrong character,
    where a parser stops.
    """

    #: The deepest nesting of arrays and objects; ``[1]`` has depth 1.
    depth: int
    #: Arrays and objects.
    containers: int
    #: Members of all objects.
    members: int
    #: Values of every kind, containers included; an empty container counts as two.
    values: int
    #: The most bytes that ``strictjson.loads`` and ``jsontensor.read`` of its value allocate,
    #: temporaries included, without the text itself.
    nbytes: int


def measure_json(text: bytes, pause: Pause = no_pause) -> JSONSize:
    """Count one JSON text in UTF-8, with a ``pause`` after each block.

    Raises nothing itself; allocates at most 2 MiB.
    """
    counts = _Counts()
    for start in range(0, len(text), BLOCK):
        counts.add(text[start : start + BLOCK])
        pause()
    return counts.size(len(text))


def loads_exact(
    text: bytes, limits: strictjson.Limits, size: JSONSize | None = None, pause: Pause = no_pause
) -> Any:
    """Parse a document with a tensor's numbers, which stay text; see :func:`.strictjson.loads`.

    ``size`` is that of the text, if it is known. Every limit but the depth's must be at least
    :data:`_SHORT`: no shorter text reaches it.
    """
    depth: int | None = limits.depth
    if size is None and len(text) > _SHORT:
        size = measure_json(text, pause)
    if size is not None:
        counts = size.depth, size.containers, size.members, size.values
        strictjson.refuse_large(counts, limits)
        depth = None
    return strictjson.loads(text, max_depth=depth, numbers="exact", pause=pause)


class _Counts:
    """The counts of all blocks so far, and the state in which the next block begins."""

    def __init__(self) -> None:
        self._containers = self._objects = self._members = self._commas = 0
        self._quotes = self._quoted = 0
        #: Numbers and names of more than one character; CPython caches one-character ones.
        self._long = 0
        self._depth = self._deepest = 0
        self._highest = 0
        self._has_escapes = self._has_code_points = False
        self._in_string = False
        #: A backslash at the block's end: its character is in the next block.
        self._pending = b""

    def add(self, block: bytes) -> None:
        """Count one more block of the text."""
        if self._pending or b"\\" in block:
            block = self._without_escapes(self._pending + block)
        chars: npt.NDArray[np.uint8] = np.frombuffer(block, np.uint8)
        if not chars.size:
            return
        self._highest = max(self._highest, int(chars.max()))
        chars = self._outside_strings(chars)
        commas, colons = (int(np.count_nonzero(chars == ord(mark))) for mark in ",:")
        opened, closed = self._add_brackets(chars)
        self._commas += commas
        self._members += colons
        # An upper bound: each value has at least one character, each long one at least two.
        value_chars = chars.size - commas - colons - opened - closed
        fewest = max(0, commas - opened)
        self._long += max(0, min(commas + 1, value_chars // 2, value_chars - fewest)) + 1

    def _without_escapes(self, block: bytes) -> bytes:
        r"""The block without ``\\`` and ``\"``, so that every quote in it begins or ends a string.

        Pairs of backslashes are removed first, from the left.
        """
        self._has_escapes = True
        block = block.replace(b"\\\\", b"")
        self._pending = b"\\" if block.endswith(b"\\") else b""
        self._has_code_points |= b"\\u" in block
        return block.removesuffix(b"\\").replace(b'\\"', b"")

    def _outside_strings(self, chars: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        quotes = chars == ord('"')
        count = int(np.count_nonzero(quotes))
        whole = chars.size
        if count:
            # A character is in a string if the number of quotes up to it, itself included, is odd.
            inside = np.bitwise_xor.accumulate(quotes)
            chars = chars[inside if self._in_string else ~inside]
            self._quotes += count
            self._in_string ^= bool(count % 2)
        elif self._in_string:
            chars = chars[:0]
        self._quoted += whole - chars.size
        return chars

    def _add_brackets(self, chars: npt.NDArray[np.uint8]) -> tuple[int, int]:
        folded = chars | np.uint8(0x20)  # turns [ and ], and nothing else, into { and }
        opening, closing = folded == ord("{"), folded == ord("}")
        opened, closed = int(np.count_nonzero(opening)), int(np.count_nonzero(closing))
        if self._depth + opened > self._deepest:
            steps = opening.view(np.int8) - closing.view(np.int8)
            depths = np.cumsum(steps[steps != 0], dtype=np.int32)
            self._deepest = max(self._deepest, self._depth + int(depths.max()))
        self._depth += opened - closed
        self._containers += opened
        if opened:
            self._objects += int(np.count_nonzero(chars == ord("{")))
        return opened, closed

    def size(self, length: int) -> JSONSize:
        """The size of the whole text, which has ``length`` bytes."""
        return JSONSize(
            depth=self._deepest,
            containers=self._containers,
            members=self._members,
            values=self._commas + self._containers + 1,
            nbytes=self._nbytes(length),
        )

    def _nbytes(self, length: int) -> int:
        decoded, width, growth = next(row for first, *row in _WIDTHS if self._highest < first)
        if self._has_escapes:
            growth = _GROWTH
        if self._has_code_points:
            decoded += _SURROGATE_SEARCH
            width = 4
        scalars = self._commas + 1  # every other value is a container
        allocated = (
            length  # the digits of numbers, which are kept as text
            + self._quoted * width * growth
            + self._quotes // 2 * _STRING
            + scalars * _ARRAY_ITEM
            # Characters after a wrong one may hide as many long numbers before it in its block.
            + (self._long + min(length, BLOCK) // 3) * _NUMBER
            + (self._containers - self._objects) * _ARRAY
            + self._objects * _OBJECT
            + self._members * _MEMBER
        )
        read = 3 * length + scalars * _READ + min(scalars, _READ_BLOCK) * _READ_IN_BLOCK
        # The decoded text is freed before the numbers are read.
        parsed = length * decoded + scalars * _KEPT
        return int(allocated + max(parsed, read) + _CONSTANT)


# Bytes that objects take in CPython on a 64-bit machine, temporaries included. Tests compare the
# sum with the memory that parsing takes.

#: Rows are selected by the text's highest byte: the first row whose first number is above it.
#: The others are bytes per byte of text while it is decoded (PEP 393: each wider form is made from
#: the narrower one), bytes per character of a string, and a growing string's overallocation.
_WIDTHS: tuple[tuple[int, int, int, float], ...] = (
    (0x80, 1, 1, 1.0),
    (0xC4, 2, 1, 2.75),
    (0xF0, 4, 2, 2.75),
    (0x100, 7, 4, 2.75),
)
_GROWTH = 2.75
#: Per byte of a text with ``\u`` escapes, while unpaired surrogates are searched.
_SURROGATE_SEARCH = 5
_STRING = 80
#: An item of a growing array.
_ARRAY_ITEM = 10
_NUMBER = 34
#: An array of four items, and its items in its parent and in two flat lists.
_ARRAY = 56 + 48 + 3 * 9
_OBJECT = 64 + 3 * 9
#: A key of an object, in a hash table that has just been doubled.
_MEMBER = 400
#: A number's item in the lists that :func:`.strictjson.loads` keeps.
_KEPT = 9
#: A number's item in a flat list, and its pattern.
_READ = 9 + 8
#: Numbers that are converted at once, and the temporaries of each.
_READ_BLOCK = 4096
_READ_IN_BLOCK = 128
_CONSTANT = 16 << 10
