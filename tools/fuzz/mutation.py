"""Mutations of valid bytes and JSON documents; the same for the same seed."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

#: Tokens that parsers of HTTP, JSON and .npy have failed on.
TOKENS = [
    *(b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\0", b"\t", b" ", b":", b",", b";", b"%00", b"%"),
    *(b"-1", b"0", b"1e9", b"0x10", b"+5", b"4294967296", b"18446744073709551616", b"9" * 40),
    *(b"Content-Length: 5\r\n", b"Content-Length: 99999999999\r\n", b"Host: y\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"),
    *(b"Content-Encoding: gzip\r\n", b"Expect: 100-continue\r\n", b"Connection: close\r\n"),
    *(b"Upgrade: websocket\r\n", b"Connection: upgrade\r\n", b"X-Request-ID: a\r\n", b"HTTP/1.0"),
    *(b"HTTP/9.9", b"ffffffffffffffff\r\n", b"GET", b"PUT", b"CONNECT", b"/v2", b"//", b"../"),
    *(b"{", b"}", b"[", b"]", b'"', b"\\", b"\\ud800", b"NaN", b"null", b"true", b"'", b"("),
    *(b"\xff", b"\xef\xbb\xbf", b"\x93NUMPY", b"\x1f\x8b\x08", b"|V2", b">f4", b"|O", b"False"),
]
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, 2**64, 10**400, 0.5, -0.0, 1e308),
    *("", "FLOAT32", "float32", "bfloat16", "x" * 5000, "\0", "é\ud7ff", "NaN", "directml", "_"),
    *([], {}, [0], [2**62, 2**62], [1] * 64, [[1]], [None], {"dtype": "float32", "shape": [1]}),
]


def mutate(random: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """These bytes after one to four changes; ``others`` are what they may be crossed with."""
    mutated = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 4))):
        random.choice(_CHANGES)(random, mutated, others)
    return bytes(mutated)


def _flip(random: random.Random, data: bytearray, _others: Sequence[bytes]) -> None:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _overwrite(random: random.Random, data: bytearray, _others: Sequence[bytes]) -> None:
    if data:
        data[random.randrange(len(data))] = random.randrange(256)


def _insert(random: random.Random, data: bytearray, _others: Sequence[bytes]) -> None:
    at = random.randint(0, len(data))
    data[at:at] = random.choice(TOKENS)


def _replace(random: random.Random, data: bytearray, _others: Sequence[bytes]) -> None:
    start, end = _part(random, data)
    data[start:end] = random.choice(TOKENS)


def _remove(random: random.Random, data: bytearray, _others: Sequence[bytes]) -> None:
    start, end = _part(random, data)
    del data[start:end]


def _repeat(random: random.Random, data: bytearray, _others: Sequence[bytes]) -> None:
    start, end = _part(random, data)
    data[end:end] = data[start:end] * random.choice((1, 2, 10, 200))


def _cut(random: random.Random, data: bytearray, _others: Sequence[bytes]) -> None:
    del data[random.randint(0, len(data)) :]


def _cross(random: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    other = random.choice(others)
    data[random.randint(0, len(data)) :] = other[random.randint(0, len(other)) :]


def _change_digits(random: random.Random, data: bytearray, _others: Sequence[bytes]) -> None:
    digits = [at for at, byte in enumerate(data[:2000]) if byte in b"0123456789"]
    if digits:
        data[random.choice(digits)] = random.choice(b"0123456789")


def _part(random: random.Random, data: bytearray) -> tuple[int, int]:
    start = random.randint(0, len(data))
    return start, min(len(data), start + random.choice((1, 2, 4, 16, 64)))


_CHANGES: list[Callable[[random.Random, bytearray, Sequence[bytes]], None]] = [
    *(_flip, _overwrite, _insert, _replace, _remove, _repeat, _cut, _cross, _change_digits)
]


def mutate_json(random: random.Random, document: Any) -> bytes:
    """A JSON document after one to three changes to its tree, as text."""
    mutated = copy.deepcopy(document)
    for _ in range(random.randint(1, 3)):
        parents = list(_parents(mutated))
        if not parents:
            break
        parent = random.choice(parents)
        key = random.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
        match random.randrange(5):
            case 0 | 1:
                parent[key] = copy.deepcopy(random.choice(VALUES))
            case 2:
                del parent[key]
            case 3 if isinstance(parent, dict):
                name = random.choice(("x", "", "strides", "dtype", "data", "é"))
                parent[name] = copy.deepcopy(parent[key])
            case 3:
                parent.insert(key, copy.deepcopy(parent[key]))
            case 4:
                parent[key] = copy.deepcopy(random.choice(parents))
    return json.dumps(mutated).encode()


def _parents(value: Any) -> list[Any]:
    """Every object and array in a document that has something in it."""
    found = []
    waiting = [value]
    while waiting:
        place = waiting.pop()
        if isinstance(place, dict | list) and place:
            found.append(place)
            waiting += place.values() if isinstance(place, dict) else place
    return found
