"""Rows of counters in files of several workers: whatever happens to them, sums never fall."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.small_disk import small_disk
from tensor_round_service.counters import PIECE_BYTES, Counters

KEY = ("a key", "with ünicode")
#: Counts one, says so, and waits.
COUNTING = """
import sys
from pathlib import Path
from tensor_round_service.counters import Counters
row = Counters(Path(sys.argv[1]), "of-tests").row(("a key", "with ünicode"), 1)
row[0] += 1
print(row[0], flush=True)
sys.stdin.read()
"""


def total(counters: Counters, key: tuple[str, ...] = KEY) -> float:
    """The sum of a row's first number over all workers."""
    return sum(worker.rows[key][0] for worker in counters.workers() if key in worker.rows)


def test_rows_have_numbers_of_both_kinds(tmp_path: Path) -> None:
    first, second = (Counters(tmp_path, "of-tests") for _ in range(2))
    first.row(KEY, 3)[1] += 1 << 40
    first.row(KEY, 3)[1] += 1
    first.row(("seconds",), 2, "d")[1] += 0.25
    for own in (first, second):
        (rows,) = [worker.rows for worker in own.workers() if worker.rows]
        assert rows == {KEY: [0, (1 << 40) + 1, 0], ("seconds",): [0.0, 0.25]}
    assert [worker.is_alive for worker in second.workers()] == [True, True]


def test_a_file_grows_and_rows_that_are_in_use_stay_valid(tmp_path: Path) -> None:
    counters, reader = (Counters(tmp_path, "of-tests") for _ in range(2))
    rows = {number: counters.row((f"{number:060}",), 2) for number in range(2000)}
    for number, row in rows.items():
        row[1] += number
    assert (tmp_path / "of-tests-0").stat().st_size > 2 * PIECE_BYTES
    assert [total(reader, (f"{number:060}",)) for number in (0, 1999)] == [0, 0]
    (read,) = [worker.rows for worker in reader.workers() if worker.rows]
    assert [numbers[1] for numbers in read.values()] == list(range(2000))


def test_a_killed_worker_keeps_its_counts_and_its_successor_goes_on(tmp_path: Path) -> None:
    """Ten workers are killed one after the other; there are never more files than workers."""
    reader = Counters(tmp_path, "of-tests")
    command = [sys.executable, "-c", COUNTING, str(tmp_path)]
    for count in range(1, 11):
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
            assert worker.stdout is not None
            assert int(worker.stdout.readline()) == count
            assert [each.is_alive for each in reader.workers()] == [True, True]
            os.kill(worker.pid, signal.SIGKILL)
        assert total(reader) == count
        assert [each.is_alive for each in reader.workers()] == [True, False]
    assert len(list(tmp_path.iterdir())) == 2


def test_without_a_folder_counts_are_of_one_process() -> None:
    counters = Counters(None, "of-tests")
    counters.row(KEY, 1)[0] += 2
    assert not counters.share()
    counters.row(KEY, 1)[0] += 3
    assert total(counters) == 5


def test_counts_of_a_full_disk_are_shared_once_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with small_disk(tmp_path) as disk:
        reader = Counters(disk.folder, "of-tests")
        reader.row(("of the reader",), 1)
        with disk.full():
            counters = Counters(disk.folder, "of-tests")
            counters.row(KEY, 1)[0] += 1
            counters.row(("other",), 1, "d")[0] += 0.5
            for _ in range(3):
                assert not counters.share()
            assert (total(counters), total(reader)) == (1, 0)
            assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert counters.share()
        counters.row(KEY, 1)[0] += 1
        assert [total(each, KEY) for each in (counters, reader)] == [2, 2]
        assert [total(each, ("other",)) for each in (counters, reader)] == [0.5, 0.5]
        assert not counters.share()
        assert "there is room again" in caplog.records[1].getMessage()


def test_a_predecessors_file_needs_no_room(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        Counters(disk.folder, "of-tests").row(KEY, 1)[0] += 7
        with disk.full():
            successor = Counters(disk.folder, "of-tests")
            successor.row(KEY, 1)[0] += 1
            assert total(Counters(disk.folder, "of-tests")) == 8


def test_a_folder_that_is_gone_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    counters = Counters(tmp_path / "gone", "of-tests")
    counters.row(KEY, 1)[0] += 1
    assert total(counters) == 1
    assert not counters.share()
    (tmp_path / "gone").mkdir()
    assert counters.share()
    assert total(Counters(tmp_path / "gone", "of-tests")) == 1
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1
