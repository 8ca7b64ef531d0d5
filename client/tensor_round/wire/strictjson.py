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

from ..errors import MalformedJSON
from .census import census

#: Digits (and sign) of an integer. CPython can be set to refuse longer ones with a
#: ValueError, but never shorter (``sys.int_info.str_digits_check_threshold``).
MAX_INTEGER_LENGTH = 640

Numbers = Literal["plain", "exact"]


def loads(
    data: bytes | bytearray | memoryview,
    *,
    max_depth: int,
    max_containers: int | None = None,
    max_members: int | None = None,
    max_values: int | None = None,
    numbers: Numbers = "plain",
    nan_tokens: bool = False,
) -> Any:
    """The value of one JSON text in UTF-8.

    ``numbers="plain"`` gives ``int`` and ``float``; ``"exact"`` gives each number as
    its own text in ``bytes`` (no JSON value is ``bytes`` otherwise), for
    :mod:`.jsontensor` to round once; :func:`plain` turns a part of such a value back.
    ``nan_tokens`` lets the bare tokens ``NaN``, ``Infinity`` and ``-Infinity`` pass as
    numbers. ``max_depth`` counts objects and arrays together: ``[1]`` has depth 1.
    The other limits are of what :func:`.census.census` counts; None is no limit. All are
    kept before anything is made of the text, and what is made takes its ``nbytes`` at most.

    Raises :class:`MalformedJSON`.
    """
    raw = bytes(data)
    _refuse_large(
        raw, depth=max_depth, containers=max_containers, members=max_members, values=max_values
    )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedJSON(f"the JSON is not UTF-8 at byte {error.start}") from None
    if text.startswith("\ufeff"):
        raise MalformedJSON("the JSON begins with a byte order mark")
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


def is_vast(value: Any, most: int) -> bool:
    """Whether a value has more than so many values (and keys) in it; no more are looked at."""
    seen = 0
    waiting = [value]
    while waiting:
        members = waiting.pop()
        if isinstance(members, dict):
            members = members.values()
        elif not isinstance(members, list | tuple):
            continue
        seen += len(members)
        if seen > most:
            return True
        waiting.extend(members)
    return False


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


def _refuse_large(raw: bytes, **most: int | None) -> None:
    """Refuse a text by its census, before the parser recurses into it or makes anything of it.

    Up to the first character that is no JSON the census is exact, and the parser
    comes no further than that one.
    """
    limits = {name: limit for name, limit in most.items() if limit is not None}
    if len(raw) <= _SHORT:
        opening = raw.count(b"[") + raw.count(b"{")
        values = opening + raw.count(b",") + 1
        if opening <= limits["depth"] and values <= min(
            limits.get(name, values) for name in _COUNTED
        ):
            return
    counted = census(raw)
    if counted.depth > limits["depth"]:
        raise MalformedJSON(f"the JSON nests deeper than {limits['depth']}")
    for name, limit in limits.items():
        if getattr(counted, name) > limit:
            raise MalformedJSON(f"the JSON has more than {limit} {_COUNTED[name]}")


#: So short a text is quicker counted with its strings, which is often enough.
_SHORT = 4096
_COUNTED = {
    "containers": "arrays and objects; a tensor's numbers may be one flat array",
    "members": "members of objects",
    "values": "values",
}

_SURROGATE_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def _refuse_unpaired_surrogates(raw: bytes) -> None:
    # Python would read one as a str that no UTF-8 can hold.
    if b"\\u" not in raw:
        return
    if _SURROGATE.search(_SURROGATE_PAIR.sub(b"", raw.replace(b"\\\\", b""))):
        raise MalformedJSON("a string holds an unpaired surrogate")
