"""The Huffman code of HPACK (RFC 7541, section 5.2 and appendix B), decoded by half bytes."""

from __future__ import annotations

_LENGTHS = """
13 23 28 28 28 28 28 28 28 24 30 28 28 30 28 28 28 28 28 28 28 28 30 28
28 28 28 28 28 28 28 28 6 10 10 12 13 6 8 11 10 10 8 11 8 6 6 6
5 5 5 6 6 6 6 6 6 6 7 8 15 6 12 10 13 6 7 7 7 7 7 7
7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 8 7 8 13 19 13 14 6
15 5 6 5 6 5 6 6 6 5 7 7 6 6 6 5 6 7 6 5 5 6 7 7
7 7 7 15 11 14 13 28 20 22 20 20 22 22 22 23 22 23 23 23 23 23 24 23
24 24 22 23 24 23 23 23 23 21 22 23 22 23 23 24 22 21 20 22 22 23 23 21
23 22 22 24 21 22 23 23 21 21 22 21 23 22 23 23 20 22 22 22 23 22 22 23
26 26 20 19 22 23 22 25 26 26 26 27 27 26 24 25 19 21 26 27 27 26 27 24
21 21 26 26 28 27 27 27 20 24 20 21 22 21 21 23 22 22 25 25 24 24 26 23
26 27 26 26 27 27 27 27 27 28 27 27 27 27 27 26 30
"""
#: The number of bits of each byte's code, and of the end-of-string symbol. The code is canonical:
#: codes ascend with their lengths, and within a length with their symbols.
LENGTHS = tuple(int(bits) for bits in _LENGTHS.split())
_END_OF_STRING = 256
_NO_SYMBOL = -1


def _codes() -> dict[str, int]:
    """The bytes by the bits of their codes."""
    codes: dict[str, int] = {}
    code = bits = 0
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(LENGTHS)):
        code <<= length - bits
        bits = length
        codes[f"{code:0{bits}b}"] = symbol
        code += 1
    return {bits: symbol for bits, symbol in codes.items() if symbol != _END_OF_STRING}


def _steps() -> tuple[list[tuple[int, int]], frozenset[int]]:
    """For each begin of a code and half byte the next begin, and the symbol between; the last ones.

    Begins are numbered, times 16. The greatest is that of no code. A half byte ends at most one
    symbol: the shortest code has 5 bits. A string may end in up to seven ones (section 5.2).
    """
    codes = _codes()
    begins = sorted({bits[:end] for bits in codes for end in range(len(bits))}, key=len)
    places = {bits: 16 * number for number, bits in enumerate(begins)}
    failed = 16 * len(begins)
    steps: list[tuple[int, int]] = []
    for begin in begins:
        for half in range(16):
            bits, symbol = begin, _NO_SYMBOL
            for bit in f"{half:04b}":
                bits += bit
                if bits in codes:
                    bits, symbol = "", codes[bits]
            steps.append((places.get(bits, failed), symbol))
    steps += [(failed, _NO_SYMBOL)] * 16
    return steps, frozenset(places["1" * count] for count in range(8))


_STEPS, _ENDS = _steps()


def decode(encoded: bytes) -> bytes:
    """Decode a string; raises :class:`ValueError`."""
    decoded = bytearray()
    node = 0
    for byte in encoded:
        node, symbol = _STEPS[node + (byte >> 4)]
        if symbol >= 0:
            decoded.append(symbol)
        node, symbol = _STEPS[node + (byte & 15)]
        if symbol >= 0:
            decoded.append(symbol)
    if node not in _ENDS:
        raise ValueError("the bits are not a string in this code")
    return bytes(decoded)
