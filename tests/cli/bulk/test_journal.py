"""The journal: what it keeps, what it refuses, what it takes for no journal."""

from __future__ import annotations

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
    for data in (*torn, changed, b"\xff", b"[]", b"7", b'{"sha256": 1}'):
        path.write_bytes(data)
        assert not any(Journal(place, WORK).load(2))


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
