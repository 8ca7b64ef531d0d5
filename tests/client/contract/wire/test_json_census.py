"""The census of JSON to the last byte: what is reserved for a text changes by decision alone.

That it suffices, `test_json_size.py` measures.
"""

from __future__ import annotations

import pytest

from tensor_round.contract.wire.json_size import BLOCK, JSONSize, measure_json

LONG = 300_000
assert LONG > BLOCK

# text -> depth, containers, members, values, bytes
SIZES: dict[str, tuple[bytes, tuple[int, int, int, int, int]]] = {
    "nothing": (b"", (0, 0, 0, 1, 16_539)),
    "a number": (b"1", (0, 0, 0, 1, 16_577)),
    "a number of two digits": (b"12", (0, 0, 0, 1, 16_615)),
    "numbers": (b"[1,2]", (1, 1, 0, 3, 16_947)),
    "numbers of two digits": (b"[12,34,56]", (1, 1, 0, 4, 17_258)),
    "spaces": (b"[1,   2]", (1, 1, 0, 3, 17_027)),
    "a string": (b'"ab"', (0, 0, 0, 1, 16_706)),
    "empty strings": (b'["",""]', (1, 1, 0, 3, 17_151)),
    "no array's item": (b"[]", (1, 1, 0, 2, 16_712)),
    "arrays": (b"[[],[]]", (2, 3, 0, 5, 17_217)),
    "an object": (b"{}", (1, 1, 0, 2, 16_672)),
    "a member": (b'{"a":1}', (1, 1, 1, 2, 17_276)),
    "members": (b'{"a":1,"b":[{}]}', (3, 3, 2, 5, 18_273)),
    "a mark in a string": (b'["[{,:]}"]', (1, 1, 0, 2, 16_933)),
    "an escape": (b'"a\\n"', (0, 0, 0, 1, 16_718)),
    "an escaped quote": (b'"\\""', (0, 0, 0, 1, 16_705)),
    "an escaped backslash": (b'"\\\\"', (0, 0, 0, 1, 16_705)),
    "an escape at the end": (b'"a\\', (0, 0, 0, 1, 16_624)),
    "a code point": (b'"\\u0101"', (0, 0, 0, 1, 16_830)),
    "code points": (b'"' + b"\\u0101" * 200 + b'"', (0, 0, 0, 1, 51_742)),
    "code points in Latin-1": ('"é'.encode() + b"\\u0101" * 200 + b'"', (0, 0, 0, 1, 53_016)),
    "the last character of ASCII": (b'"\x7f"', (0, 0, 0, 1, 16_701)),
    "a byte of no character": (b'"\x80"', (0, 0, 0, 1, 16_704)),
    "the last character of Latin-1": ('"ÿ"'.encode(), (0, 0, 0, 1, 16_711)),
    "the first behind Latin-1": ('"Ā"'.encode(), (0, 0, 0, 1, 16_719)),
    "the last of two bytes": ('"\uffff"'.encode(), (0, 0, 0, 1, 16_729)),
    "the first of four bytes": ('"\U00010000"'.encode(), (0, 0, 0, 1, 16_800)),
    "Latin-1": ('"é"'.encode() * 200, (0, 0, 0, 1, 46_501)),
    "wide characters": ('"€"'.encode() * 200, (0, 0, 0, 1, 53_193)),
    "wider characters": ('"\U0001f600"'.encode() * 200, (0, 0, 0, 1, 66_671)),
    "an escape in Latin-1": ('"é\\n"'.encode(), (0, 0, 0, 1, 16_758)),
    "numbers, a block and more": (
        b"[" + b",".join([b"12"] * (LONG // 3)) + b"]",
        (1, 1, 0, 100001, 10_811_829),
    ),
    "a string, a block and more": (b'"' + b"a" * LONG + b'"', (0, 0, 0, 1, 4_487_650)),
    "spaces, a block and more": (b" " * LONG + b"1", (0, 0, 0, 1, 4_187_633)),
    "arrays, a block and more": (b"[" * LONG, (300000, 300000, 0, 300001, 43_487_561)),
    "commas, a block and more": (b"," * LONG, (0, 0, 0, 300001, 12_811_721)),
    "an unclosed string": (b'["a', (1, 1, 0, 2, 16_752)),
    "a wrong end": (b"[1,,,,", (1, 1, 0, 6, 17_416)),
    "closed before it is opened": (b"]]][[", (0, 2, 0, 3, 16_889)),
    "closed, then deeper": (b"[[]][[[]]]", (3, 5, 0, 6, 17_370)),
    "objects": (b"[{},{},[]]", (2, 4, 0, 7, 17_469)),
    "what is no bracket": (b"zZ|<>;]", (0, 0, 0, 1, 16_703)),
    "a string of brackets, blocks and more": (b'"' + b"[" * 2 * LONG, (0, 0, 0, 1, 5_987_600)),
}


@pytest.mark.parametrize(("text", "size"), SIZES.values(), ids=SIZES)
def test_census_counts_a_text(text: bytes, size: tuple[int, int, int, int, int]) -> None:
    assert measure_json(text) == JSONSize(*size)


def test_a_pause_follows_each_block() -> None:
    pauses: list[None] = []
    for blocks, length in ((0, 0), (1, 1), (1, BLOCK), (2, BLOCK + 1)):
        pauses.clear()
        measure_json(b" " * length, lambda: pauses.append(None))
        assert len(pauses) == blocks
