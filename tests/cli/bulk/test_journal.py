"""The journal: what it keeps, what it refuses, what it takes for no journal."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tensor_round_cli.bulk.bulk_run import Journal, OtherRun
from tensor_round_cli.bulk.places import Place, PlaceError

WORK = {"source": "a.npy", "shape": [2, 3], "rounding": "ties_to_even"}


@pytest.mark.parametrize("done", [b"", b"\0\0", b"\1", b"\1\1\0\1\0\0\1\1\1", b"\0\1"])
def test_finished_tiles_are_kept(tmp_path: Path, done: bytes) -> None:
    place = Place.of(str(tmp_path / "journal"))
    assert Journal(place, WORK).load(len(done)) == bytes(len(done))
    Journal(place, WORK).write(bytearray(done))
    assert Journal(place, WORK).load(len(done)) == done
    assert [path.name for path in tmp_path.iterdir()] == ["journal"]
    Journal(place, WORK).remove()
    Journal(place, WORK).remove()
    assert not [*tmp_path.iterdir()]


def test_another_run_is_told_by_what_differs(tmp_path: Path) -> None:
    place = Place.of(str(tmp_path / "journal"))
    Journal(place, WORK).write(bytearray(b"\1"))
    other = Journal(place, {**WORK, "rounding": "toward_zero", "source's size": "4"})
    with pytest.raises(OtherRun) as caught:
        other.load(1)
    assert str(caught.value) == (
        "rounding was ties_to_even and is toward_zero; source's size was None and is 4"
    )


def test_a_torn_journal_is_none(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    place = Place.of(str(path))
    Journal(place, WORK).write(bytearray(b"\1\1"))
    whole = path.read_bytes()
    torn = [whole[:end] for end in range(0, len(whole), 7)]
    changed = json.dumps({**json.loads(whole), "done": [[0, 0]]}).encode()
    for data in (*torn, changed, b"\xff", b"[]", b"7", b'{"sha256": 1}', b"[" * 10**6):
        path.write_bytes(data)
        assert not any(Journal(place, WORK).load(2))


FOREIGN = {
    "too-many": [[0, 10**9]],
    "far-too-many": [[0, 10**15]],
    "one-too-many": [[0, 2]],
    "negative": [[-5, -1]],
    "from-the-end": [[-1, 1]],
    "backwards": [[1, 0]],
    "twice": [[0, 0], [0, 0]],
    "descending": [[1, 1], [0, 0]],
    "bools": [[False, True]],
    "floats": [[0.0, 1.0]],
    "texts": [["0", "1"]],
    "null": [None],
    "one-number": [[0]],
    "three-numbers": [[0, 0, 0]],
    "a-number": [0],
    "a-text": "01",
    "no-list": None,
}


def sealed(document: dict[str, object]) -> bytes:
    """The document with its checksum, which needs no secret."""
    text = json.dumps(document, sort_keys=True)
    return json.dumps({**document, "sha256": hashlib.sha256(text.encode()).hexdigest()}).encode()


@pytest.mark.parametrize("done", FOREIGN.values(), ids=FOREIGN)
def test_foreign_numbers_are_no_journal(tmp_path: Path, done: object) -> None:
    place = Place.of(str(tmp_path / "journal"))
    document = {"version": 1, "writer": "w", "work": WORK, "done": [[0, 1]]}
    (tmp_path / "journal").write_bytes(sealed(document))
    assert Journal(place, WORK).load(2) == b"\1\1"
    (tmp_path / "journal").write_bytes(sealed({**document, "done": done}))
    with pytest.raises(PlaceError, match="was not written by a run: --restart starts anew"):
        Journal(place, WORK).load(2)


@pytest.mark.parametrize("member", ["writer", "work"])
def test_foreign_members_are_no_journal(tmp_path: Path, member: str) -> None:
    place = Place.of(str(tmp_path / "journal"))
    document = {"version": 1, "writer": "w", "work": WORK, "done": [[0, 1]], member: [7]}
    (tmp_path / "journal").write_bytes(sealed(document))
    with pytest.raises(PlaceError, match="was not written by a run"):
        Journal(place, WORK).load(2)


def test_a_run_that_another_process_continues_stops(tmp_path: Path) -> None:
    place = Place.of(str(tmp_path / "journal"))
    first = Journal(place, WORK)
    first.write(bytearray(b"\1\0\0"))
    second = Journal(place, WORK)
    assert second.load(3) == b"\1\0\0"
    first.write(bytearray(b"\1\1\0"))
    second.write(bytearray(b"\1\0\1"))
    with pytest.raises(PlaceError, match="another process continues"):
        first.write(bytearray(b"\1\1\1"))
    second.write(bytearray(b"\1\1\1"))
