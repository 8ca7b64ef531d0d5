"""A strict JSON parser on top of Python's, which keeps numbers exact on request.

RFC 8259 does not define the meaning of a duplicate key, nor limits on nesting and on the length of
numbers. Python's parser accepts some of these silently, and raises many exception types for the
rest. Here each is a :class:`MalformedJSON` that names the rule and quotes nothing of the text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from ..errors import MalformedJSON
from ..progress import Pause, no_pause

#: The longest integer, in characters. CPython's own limit can be set to this value or a higher one
#: (``sys.int_info.str_digits_check_threshold``).
MAX_INTEGER_LENGTH = 640

#: Numbers parsed between two pauses: about a millisecond.
_PAUSE_NUMBERS = 4096

Numbers = Literal["plain", "exact"]
T = TypeVar("T")


def loads(
    data: bytes | bytearray | memoryview,
    *,
    max_depth: int | None,
    max_containers: int | None = None,
    max_members: int | None = None,
    max_values: int | None = None,
    numbers: Numbers = "plain",
    pause: Pause = no_pause,
) -> Any:
    """Parse one JSON text in UTF-8; raises :class:`MalformedJSON`.

    With ``numbers="plain"`` numbers become ``int`` and ``float``. With ``"exact"`` they stay text,
    as ``bytes`` (no other JSON value is ``bytes``), for :mod:`.jsontensor` to round once, and the
    bare tokens ``NaN``, ``Infinity`` and ``-Infinity`` are numbers; :func:`plain` converts them.
    ``pause`` is called after every few thousand numbers.

    The limits are checked before the text is parsed; None means no limit, and without ``max_depth``
    none is checked. ``max_depth`` counts objects and arrays: ``[1]`` has depth 1.
    ``max_containers`` limits objects and arrays, ``max_members`` the members of all objects, and
    ``max_values`` values of every kind, where an empty container counts as two.
    """
    raw = bytes(data)
    if max_depth is not None:
        _check(raw, Limits(max_depth, max_containers, max_members, max_values))
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedJSON(f"the JSON is not UTF-8 at byte {error.start}") from None
    if text.startswith("\ufeff"):
        raise MalformedJSON("the JSON begins with a byte order mark")
    _refuse_unpaired_surrogates(raw)
    decoder, kept = _DECODERS[numbers], list[list[Any]]()
    if pause is not no_pause and len(raw) > _SHORT:
        decoder = _decoder(numbers, pause, kept)
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        raise MalformedJSON(f"not JSON: {error.msg} (character {error.pos})") from None
    finally:
        while kept:
            kept.pop()


def plain(value: Any) -> Any:
    """Convert the numbers in a value of ``numbers="exact"`` to ``int`` and ``float``.

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


def extent(value: Any, most: int) -> tuple[int, int]:
    """How many values a value contains at any depth, and the characters of its longest text or key.

    Stops at more than ``most`` values.
    """
    seen = longest = 0
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            longest = max(longest, len(one))
            continue
        if isinstance(one, dict):
            pending.extend(one)
            one = one.values()
        elif not isinstance(one, list | tuple):
            continue
        seen += len(one)
        if seen > most:
            break
        pending.extend(one)
    return seen, longest


def dumps(value: Any) -> bytes:
    """The compact ASCII text of a value, for headers and bodies; refuses NaN and infinities."""
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
    # str.encode as the hook would be a little faster, but would never release the GIL: 16 MiB of
    # numbers would block every other thread for 0.3 s instead of 0.02 s.
    return number.encode("ascii")


def _pausing(parse: Callable[[str], T], pause: Pause, kept: list[list[Any]]) -> Callable[[str], T]:
    """``parse`` with a pause after every :data:`_PAUSE_NUMBERS` numbers, which are kept in lists.

    If the parser fails, it drops millions of numbers at once. They are freed list by list then, so
    that other threads can run in between.
    """
    block: list[T] = []

    def parsed(number: str) -> T:
        nonlocal block
        value = parse(number)
        block.append(value)
        if len(block) == _PAUSE_NUMBERS:
            kept.append(block)
            block = []
            pause()
        return value

    return parsed


def _refuse_token(token: str) -> None:
    raise MalformedJSON(f"not JSON: the token {token}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise MalformedJSON("an object names a key twice")
    return members


def _decoder(
    numbers: Numbers,
    pause: Pause = no_pause,
    kept: list[list[Any]] | None = None,
) -> json.JSONDecoder:
    parsers: list[Callable[[str], Any]] = [_integer, _float, _refuse_token]
    if numbers == "exact":
        parsers = [_text] * 3
    if kept is not None:
        parsers = [_pausing(parse, pause, kept) for parse in parsers]
    parse_int, parse_float, parse_constant = parsers
    return json.JSONDecoder(
        object_pairs_hook=_unique,
        parse_int=parse_int,
        parse_float=parse_float,
        parse_constant=parse_constant,
    )


_DECODERS = {numbers: _decoder(numbers) for numbers in get_args(Numbers)}


class Limits(NamedTuple):
    """The limits of :func:`loads` on a text."""

    depth: int
    containers: int | None = None
    members: int | None = None
    values: int | None = None


_RULES = (
    "nests deeper than {}",
    "has more than {} arrays and objects; a tensor's numbers may be one flat array",
    "has more than {} members of objects",
    "has more than {} values",
)


def refuse_large(counts: Iterable[int], limits: Limits) -> None:
    """Raise :class:`MalformedJSON` for the first count, in the order of limits, over its limit."""
    for count, limit, rule in zip(counts, limits, _RULES, strict=True):
        if limit is not None and count > limit:
            raise MalformedJSON(f"the JSON {rule.format(limit)}")


#: A string. Possessive quantifiers: backtracking would take memory for each of its characters. An
#: unterminated string extends to the end of the text, be it within an escape: a match that failed
#: there would be tried again from every quote.
STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_STRING = re.compile(STRING, re.DOTALL)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_OTHERS = bytes(set(range(256)) - set(_STEPS))


def _check(raw: bytes, limits: Limits) -> None:
    """Check the limits before the parser recurses into the text or allocates anything.

    The counts are exact up to the first wrong character, where the parser stops.
    """
    containers, *others = _counts(raw)
    most = (containers, containers, *others)
    if all(limit is None or count <= limit for count, limit in zip(most, limits, strict=True)):
        return
    bare = replaced(_STRING, raw, b"")
    brackets = bare.translate(None, _OTHERS)
    depth = max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)
    refuse_large((depth, *_counts(bare)), limits)


def replaced(pattern: re.Pattern[bytes], text: bytes, by: bytes, keep: int | None = None) -> bytes:
    """The text with all that a pattern finds replaced, except what begins with a byte ``keep``."""
    # One buffer, as a text may have millions of strings: re.sub would make an object of each.
    found, rest, end = bytearray(), memoryview(text), 0
    for match in pattern.finditer(text):
        start = match.start()
        if text[start] != keep:
            found += rest[end:start]
            found += by
            end = match.end()
    found += rest[end:]
    return bytes(found)


def _counts(text: bytes) -> tuple[int, int, int]:
    """Arrays and objects, members, and values; marks in strings count too."""
    containers = text.count(b"[") + text.count(b"{")
    return containers, text.count(b":"), containers + text.count(b",") + 1


#: A text up to this length is parsed without pauses.
_SHORT = 4096

#: A surrogate pair, or else half of one.
_SURROGATES = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|([89a-fA-F]))"
)


def _refuse_unpaired_surrogates(raw: bytes) -> None:
    # Python would parse one into a str that cannot be encoded as UTF-8. The GIL is free between two
    # of them: re.sub would hold it for a third of a second.
    if b"\\u" not in raw:
        return
    if any(found[1] for found in _SURROGATES.finditer(raw.replace(b"\\\\", b""))):
        raise MalformedJSON("a string holds an unpaired surrogate")
