"""``Accept-Encoding``: the coding of a response that its receiver prefers (RFC 9110, 12.5.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

IDENTITY = "identity"


def preferred_coding(accept_encoding: str, codings: Sequence[str]) -> str:
    """The coding with the highest weight, of ``codings`` and ``identity``; the first of equals.

    A coding that the field does not name is never chosen. If none is acceptable the result is
    ``identity``: a response in a coding that was not asked for is better than none.
    """
    best, best_weight = IDENTITY, 0.0
    for coding, weight in _weights(accept_encoding):
        if coding in (IDENTITY, *codings) and weight > best_weight:
            best, best_weight = coding, weight
    return best


def _weights(accept_encoding: str) -> Iterator[tuple[str, float]]:
    for member in accept_encoding.split(","):
        coding, *parameters = (part.strip(" \t").lower() for part in member.split(";"))
        yield coding.removeprefix("x-"), _weight(parameters)


def _weight(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.rstrip() == "q":
            try:
                weight = float(value)
            except ValueError:
                return 0.0
            return weight if 0.0 <= weight <= 1.0 else 0.0
    return 1.0
