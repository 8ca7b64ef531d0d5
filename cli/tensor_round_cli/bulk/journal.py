"""The journal of a bulk run: which run it is, and its finished tiles.

It is one small JSON document, replaced as a whole: a tile is in it only after its results were
synced. A checksum covers it, for stores that do not replace files at once.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from itertools import groupby
from typing import Any

from .places import Place, PlaceError

_VERSION = 1


class OtherRun(ValueError):
    """The target has the unfinished tiles of another run."""


class Journal:
    """The journal at one place, for the run that ``work`` identifies."""

    def __init__(self, place: Place, work: dict[str, Any]) -> None:
        self._place, self._work = place, work
        self._writer = secrets.token_hex(8)
        self._earlier: str | None = None

    def load(self, tiles: int) -> bytearray:
        """A flag for each tile: whether it is finished. Raises :class:`OtherRun`."""
        done = bytearray(tiles)
        document = self._read()
        if document is None:
            return done
        theirs = document["work"]
        if different := [
            f"{name} was {theirs.get(name)} and is {value}"
            for name, value in self._work.items()
            if theirs.get(name) != value
        ]:
            raise OtherRun("; ".join(different))
        self._earlier = document["writer"]
        for first, last in document["done"]:
            done[first : last + 1] = b"\1" * (last + 1 - first)
        return done

    def write(self, done: bytearray) -> None:
        """Record the finished tiles, which must have been synced.

        Raises :class:`PlaceError` if another process has continued the run. Where no lock keeps
        two processes apart, the first one stops here.
        """
        document = self._read()
        if document is not None and document["writer"] not in (self._writer, self._earlier):
            raise PlaceError("another process continues this run")
        ends = [0]
        ranges = []
        for flag, run in groupby(done):
            ends.append(ends[-1] + sum(1 for _ in run))
            if flag:
                ranges.append([ends[-2], ends[-1] - 1])
        document = {"version": _VERSION, "writer": self._writer, "work": self._work, "done": ranges}
        document["sha256"] = _digest(document)
        self._place.write(json.dumps(document, indent=1).encode())

    def remove(self) -> None:
        """Remove the journal."""
        self._place.remove()

    def _read(self) -> dict[str, Any] | None:
        """The document; None for one that is missing, torn or of another version."""
        try:
            document: dict[str, Any] = json.loads(self._place.read() or b"{}")
            is_whole = document.pop("sha256") == _digest(document)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        return document if is_whole and document["version"] == _VERSION else None


def _digest(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
