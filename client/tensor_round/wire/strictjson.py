"""JSON that refuses what a lenient parser lets through, and keeps numbers exact on request.

RFC 8259 leaves to the receiver what a key named twice means, how deep arrays may
nest and how long a number may be; Python's parser lets some of it pass in silence
and answers the rest with exceptions of many classes. Here everything that is not
plain JSON is a :class:`MalformedJSON` that names the rule and repeats nothing of
the text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ..errors import MalformedJSON

#: Digits (and sign) of an integer. CPython can be set to refuse longer ones with a
#: ValueError, but never shorter (``sys.int_info.str_digits_check_threshold``).
MAX_INTEGER_LENGTH = 640

Numbers = Literal["plain", "exact"]


def loads(
    data: bytes | bytearray | memoryview,
    *,
    max_depth: int,
    numbers: Numbers = "plain",
    nan_tokens: bool = False,
) -> Any:
    """The value of one JSON text in UTF-8.

    ``numbers="plain"`` gives ``int`` and ``float``; ``"exact"`` gives each number as
    its own text in ``bytes`` (no JSON value is ``bytes`` otherwise), for
    :mod:`.jsontensor` to round once; :func:`plain` turns a part of such a value back.
    ``nan_tokens`` lets the bare tokens ``NaN``, ``Infinity`` and ``-Infinity`` pass as
    numbers. ``max_depth`` counts objects and arrays together: ``[1]`` has depth 1.

    Raises :class:`MalformedJSON`.
    """
    raw = bytes(data)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedJSON(f"the JSON is not UTF-8 at byte {error.start}") from None
    if text.startswith("\ufeff"):
        raise MalformedJSON("the JSON begins with a byte order mark")
    _refuse_deep(raw, max_depth)
    _refuse_unpaired_surrogates(raw)
    try:
        return _DECODERS[numbers, nan_tokens].decode(text)
    except json.JSONDecodeError as error:
        raise MalformedJSON(f"not JSON: {error.msg} (character {error.pos})") from None


def plain(value: Any) -> Any:
    """A value read with ``numbers="exact"``, or a part of one, with ``int`` and ``float`` in it.

    Raises :class:`MalformedJSON` for a number that ``numbers="plain"`` refuses.
    """
    if isinstance(value, bytes):
        text = value.decode("ascii")
        if text in _TOKENS:
            return float(text)
        return _float(text) if _FRACTIONAL.search(text) else _integer(text)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def dumps(value: Any) -> bytes:
    """The compact ASCII text of a value, fit for a header; NaN and infinities are refused."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


_TOKENS = frozenset({"NaN", "Infinity", "-Infinity"})
_FRACTIONAL = re.compile(r"[.eE]")


def _integer(text: str) -> int:
    if len(text) > MAX_INTEGER_LENGTH:
        raise MalformedJSON(f"an integer has more than {MAX_INTEGER_LENGTH} digits")
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise MalformedJSON("a number is beyond the range of float64")
    return value


def _text(number: str) -> bytes:
    # A function of Python's, though str.encode itself would be a little faster: called
    # from C alone, 16 MiB of numbers keep every other thread waiting for 0.3 s, not 0.02.
    return number.encode("ascii")


def _refuse_token(token: str) -> None:
    raise MalformedJSON(f"not JSON: the token {token}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise MalformedJSON("an object names a key twice")
    return members


def _decoder(numbers: Numbers, nan_tokens: bool) -> json.JSONDecoder:
    exact = numbers == "exact"
    token: Callable[[str], Any] = _text if exact else float
    return json.JSONDecoder(
        object_pairs_hook=_unique,
        parse_int=_text if exact else _integer,
        parse_float=_text if exact else _float,
        parse_constant=token if nan_tokens else _refuse_token,
    )


_DECODERS: dict[tuple[Numbers, bool], json.JSONDecoder] = {
    (numbers, nan_tokens): _decoder(numbers, nan_tokens)
    for numbers in ("plain", "exact")
    for nan_tokens in (False, True)
}

_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


def _refuse_deep(raw: bytes, max_depth: int) -> None:
    """Refuse brackets nested deeper than ``max_depth`` before the parser recurses into them.

    Up to the first character that is no JSON the depth is exact, and the parser
    comes no further than that one.
    """
    if raw.count(b"[") + raw.count(b"{") <= max_depth:
        return
    text = np.frombuffer(_without_escapes(raw), np.uint8)
    steps = _STEPS[text]
    # A character lies in a string where the quotes before it, itself counted, are odd.
    steps[np.bitwise_xor.accumulate((text == ord('"')).view(np.uint8)).view(bool)] = 0
    depths = np.cumsum(steps[steps != 0], dtype=np.int32)
    if depths.size and depths.max() > max_depth:
        raise MalformedJSON(f"the JSON nests deeper than {max_depth}")


def _without_escapes(raw: bytes) -> bytes:
    r"""The text without ``\\`` and ``\"``: every quote left in it begins or ends a string.

    Pairs go first, from the left: of a run of backslashes at most its last one is left.
    """
    return raw.replace(b"\\\\", b"").replace(b'\\"', b"")


_SURROGATE_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def _refuse_unpaired_surrogates(raw: bytes) -> None:
    # Python would read one as a str that no UTF-8 can hold.
    if b"\\u" not in raw:
        return
    if _SURROGATE.search(_SURROGATE_PAIR.sub(b"", raw.replace(b"\\\\", b""))):
        raise MalformedJSON("a string holds an unpaired surrogate")
