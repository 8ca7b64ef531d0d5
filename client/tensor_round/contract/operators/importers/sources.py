"""What importers read: files, and the one operator that rounds among those of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from ...errors import InvalidArgument, InvalidDescriptor
from ...quoting import shown, shown_key, suggestion

Operator = TypeVar("Operator")

#: Operators that a refusal names.
NAMED = 8


def read_file(path: Path, limit: int) -> bytes:
    """A file's bytes, at most one more than ``limit``; raises :class:`InvalidArgument`."""
    try:
        with path.open("rb") as file:
            return file.read(limit + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidArgument(f"the file {path} cannot be read: {reason}") from error


def refuse_name(name: str | None) -> None:
    """Raise :class:`InvalidArgument` for a name where there is but one operator."""
    if name is not None:
        raise InvalidArgument("name chooses among a model's operators; this is one operator alone")


def only(
    found: Sequence[tuple[str, Operator]],
    name: str | None,
    loc: tuple[str, ...],
    rule: str,
    is_round: Callable[[Operator], bool],
) -> Operator:
    """The operator called ``name`` of those found in a model; without a name the only one.

    Beside other operators, the only Round is that. Raises :class:`InvalidDescriptor` at ``loc``,
    with a text that begins with ``rule``.
    """
    noun = "operator that rounds"
    names = [each for each, _ in found]
    named = [operator for each, operator in found if name in (None, each)]
    rounds = [*filter(is_round, named)] if name is None else []
    for choice in (named, rounds):
        if len(choice) == 1:
            return choice[0]
    first = ", ".join(
        [shown_key(each) for each in names[:NAMED]]
        + ([f"{len(names) - NAMED:,} more"] if len(names) > NAMED else [])
    )
    if not names:
        why = f"must have exactly one {noun}, got 0"
    elif name is None:
        why = f"must have exactly one {noun}, got {len(names)} ({first}): choose by name="
    else:
        count = "no" if not named else f"{len(named)}"
        why = f"has {count} {noun} called {shown(name)}; there are {first}"
        why += suggestion(name, names) if not named else ""
    raise InvalidDescriptor.at(loc, f"{rule}: {why}")
