"""The Huffman code of HPACK (RFC 7541, section 5.2 and appendix B), decoded by half bytes."""

from __future__ import annotations

#: The number of bits of each byte's code, and of the end-of-string symbol. The code is canonical:
#: codes ascend with their lengths, and within a length with their symbols.
LENGTHS = (
    *(13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30),
    *(28, 28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6),
    *(5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7),
    *(7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5),
    *(7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22),
    *(22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23),
    *(22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22),
    *(21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26),
    *(26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20),
    *(24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27),
    *(27, 28, 27, 27, 27, 27, 27, 26, 30),
)
_END_OF_STRING = 256
_NO_SYMBOL = -1


class MalformedString(ValueError):
    """The bits are no string in this code."""


def _tree() -> list[list[int | None]]:
    """The inner nodes of the code's tree: for each bit a node, ``~symbol`` or None."""
    nodes: list[list[int | None]] = [[None, None]]
    code = bits = 0
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(LENGTHS)):
        code <<= length - bits
        bits, node = length, 0
        for shift in range(length - 1, 0, -1):
            side = code >> shift & 1
            below = nodes[node][side]
            if below is None:
                below = nodes[node][side] = len(nodes)
                nodes.append([None, None])
            node = below
        nodes[node][code & 1] = ~symbol
        code += 1
    return nodes


def _steps() -> tuple[list[tuple[int, int]], frozenset[int]]:
    """For each node and half byte the next node and the symbol between; the nodes to end in.

    Nodes are multiplied by 16. A half byte ends at most one symbol: the shortest code has 5 bits.
    A string may end in up to seven ones (section 5.2).
    """
    nodes = _tree()
    failed = len(nodes)
    steps: list[tuple[int, int]] = []
    for start in range(failed):
        for half in range(16):
            node, symbol = start, _NO_SYMBOL
            for shift in (3, 2, 1, 0):
                below = nodes[node][half >> shift & 1]
                if below is None or below == ~_END_OF_STRING:
                    node, symbol = failed, _NO_SYMBOL
                    break
                if below < 0:
                    node, symbol = 0, ~below
                else:
                    node = below
            steps.append((16 * node, symbol))
    steps += [(16 * failed, _NO_SYMBOL)] * 16
    ends, node = [0], 0
    for _ in range(7):
        below = nodes[node][1]
        assert below is not None
        node = below
        ends.append(16 * node)
    return steps, frozenset(ends)


_STEPS, _ENDS = _steps()


def decode(encoded: bytes) -> bytes:
    """Decode a string; raises :class:`MalformedString`."""
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
        raise MalformedString
    return bytes(decoded)
