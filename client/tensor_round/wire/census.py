"""What a JSON text would make, counted on its bytes before any of it is made.

Two bytes of text can become an array of a hundred, and the parser asks nobody before it
makes one. Whoever keeps a budget counts first, reserves, and parses then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

#: Bytes looked at together: what NumPy needs meanwhile stays in the cache.
BLOCK = 256 << 10


@dataclass(frozen=True, slots=True)
class Census:
    """How deep a JSON text nests, how much is in it, and what memory that takes.

    Of a text that is no JSON, all numbers are of what comes before its first wrong
    character, or larger: no parser comes further.
    """

    #: Arrays and objects in one another; ``[1]`` has depth 1.
    depth: int
    #: Arrays and objects.
    containers: int
    #: Members of all objects.
    members: int
    #: Values of every kind, containers among them; an empty one counts for one more.
    values: int
    #: Bytes that reading takes at most, beside the text itself: with ``strictjson.loads``,
    #: and with ``jsontensor.read`` of what that gave, everything made meanwhile included.
    nbytes: int


def census(text: bytes | bytearray | memoryview) -> Census:
    """The census of one JSON text in UTF-8. Refuses nothing; takes 2 MiB at most itself."""
    counts = _Counts()
    with memoryview(text) as view:
        for start in range(0, len(view), BLOCK):
            counts.add(bytes(view[start : start + BLOCK]))
        return counts.census(len(view))


class _Counts:
    """What was counted so far, and in what state the next block begins."""

    def __init__(self) -> None:
        self._containers = self._objects = self._members = self._commas = 0
        self._quotes = self._quoted = 0
        #: Numbers and names of more than one character: of the others there is one each.
        self._long = 0
        self._depth = self._deepest = 0
        self._highest = 0
        self._has_escapes = self._has_code_points = False
        self._in_string = False
        #: A backslash whose character is in the next block.
        self._begun = b""

    def add(self, block: bytes) -> None:
        """Count one more block of the text."""
        if self._begun or b"\\" in block:
            block = self._without_escapes(self._begun + block)
        chars: npt.NDArray[np.uint8] = np.frombuffer(block, np.uint8)
        if not chars.size:
            return
        self._highest = max(self._highest, int(chars.max()))
        chars = self._outside_strings(chars)
        commas, colons = (int(np.count_nonzero(chars == ord(mark))) for mark in ",:")
        opened, closed = self._add_brackets(chars)
        self._commas += commas
        self._members += colons
        # Of so many values, each at least a character long, so many can be longer than one.
        spelled = chars.size - commas - colons - opened - closed
        fewest = max(0, commas - opened)
        self._long += max(0, min(commas + 1, spelled // 2, spelled - fewest)) + 1

    def _without_escapes(self, block: bytes) -> bytes:
        r"""The block without ``\\`` and ``\"``: every quote left in it begins or ends a string.

        Pairs go first, from the left: of a run of backslashes at most its last one is left.
        """
        self._has_escapes = True
        block = block.replace(b"\\\\", b"")
        self._begun = b"\\" if block.endswith(b"\\") else b""
        self._has_code_points |= b"\\u" in block
        return block.removesuffix(b"\\").replace(b'\\"', b"")

    def _outside_strings(self, chars: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        quotes = chars == ord('"')
        count = int(np.count_nonzero(quotes))
        whole = chars.size
        if count:
            # A character lies in a string where the quotes before it, itself counted, are odd.
            inside = np.bitwise_xor.accumulate(quotes)
            chars = chars[inside if self._in_string else ~inside]
            self._quotes += count
            self._in_string ^= bool(count % 2)
        elif self._in_string:
            chars = chars[:0]
        self._quoted += whole - chars.size
        return chars

    def _add_brackets(self, chars: npt.NDArray[np.uint8]) -> tuple[int, int]:
        folded = chars | np.uint8(0x20)  # [ and ] become { and }, as nothing else does
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

    def census(self, length: int) -> Census:
        """The whole text's, which has ``length`` bytes."""
        return Census(
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
            decoded += _SEARCHED
            width = 4
        scalars = self._commas + 1  # all but them follow a bracket
        made = (
            length  # of digits, which are kept as they are
            + self._quoted * width * growth
            + self._quotes // 2 * _STRING
            + scalars * _PLACE
            # What follows a wrong character may hide as many of those before it in its block.
            + (self._long + min(length, BLOCK) // 3) * _NUMBER
            + (self._containers - self._objects) * _ARRAY
            + self._objects * _OBJECT
            + self._members * _MEMBER
        )
        read = 3 * length + scalars * _READ + min(scalars, _TOGETHER) * _READ_TOGETHER
        # The decoded text is gone when the numbers are read.
        return int(made + max(length * decoded, read) + _BESIDE)


# What things take in CPython on a 64-bit machine, in bytes, and what they take besides while
# they are made. The tests compare the sum with what reading takes.

#: By the first byte that begins a wider character: a byte of the text while it is decoded
#: (PEP 393: each wider form is made from the narrower one), a character of a string, and how
#: much more a string takes while it grows.
_WIDTHS: tuple[tuple[int, int, int, float], ...] = (
    (0x80, 1, 1, 1.0),
    (0xC4, 2, 1, 2.75),
    (0xF0, 4, 2, 2.75),
    (0x100, 7, 4, 2.75),
)
_GROWTH = 2.75
#: A byte of text that names code points, while unpaired surrogates are looked for.
_SEARCHED = 5
_STRING = 80
#: A place in an array that grows.
_PLACE = 10
_NUMBER = 34
#: An array with room for four, and its places in its parent and in two flat lists.
_ARRAY = 56 + 48 + 3 * 9
_OBJECT = 64 + 3 * 9
#: The keys of an object, one by one, in a table that has just been doubled.
_MEMBER = 400
#: A number's place in a flat list, and its bits.
_READ = 9 + 8
#: Numbers that are rounded together, and what each takes meanwhile.
_TOGETHER = 65_536
_READ_TOGETHER = 128
_BESIDE = 16 << 10
