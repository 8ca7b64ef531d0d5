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
from tensor_round_service.counters import FILE_BYTES, Counters

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


def test_rows_beyond_the_size_of_a_file_count_for_nobody(tmp_path: Path) -> None:
    counters, reader = (Counters(tmp_path, "of-tests") for _ in range(2))
    assert (tmp_path / "of-tests-0").stat().st_size == FILE_BYTES
    rows = [counters.row((f"{number:060}",), 2) for number in range(4000)]
    for number, row in enumerate(rows):
        row[1] += number
    (read,) = [worker.rows for worker in reader.workers() if worker.rows]
    assert 2000 < len(read) < 4000
    assert [numbers[1] for numbers in read.values()] == list(range(len(read)))
    assert counters.row((f"{3999:060}",), 2)[1] == 3999


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


def test_a_worker_without_room_for_a_file_counts_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with small_disk(tmp_path) as disk:
        reader = Counters(disk.folder, "of-tests")
        reader.row(("of the reader",), 1)
        with disk.full(FILE_BYTES // 2):
            counters = Counters(disk.folder, "of-tests")
            counters.row(KEY, 1)[0] += 1
            assert (total(counters), total(reader)) == (1, 0)
        sizes = sorted(file.stat().st_size for file in disk.folder.glob("of-tests-*"))
        assert sizes == [0, FILE_BYTES], "nothing half written stays"
        (record,) = caplog.records
        assert (record.levelno, "of-tests: " in record.getMessage()) == (logging.WARNING, True)


@pytest.mark.parametrize("folder", [None, Path("/there/is/none")])
def test_without_a_folder_counts_are_of_one_process(folder: Path | None) -> None:
    counters = Counters(folder, "of-tests")
    counters.row(KEY, 1)[0] += 2
    counters.row(KEY, 1)[0] += 3
    assert (total(counters), total(Counters(folder, "of-tests"))) == (5, 0)


def test_a_file_that_was_not_written_whole_is_completed(tmp_path: Path) -> None:
    (tmp_path / "of-tests-0").write_bytes(bytes(100))
    counters, reader = (Counters(tmp_path, "of-tests") for _ in range(2))
    counters.row(KEY, 1)[0] += 1
    assert total(reader) == 1
    (tmp_path / "of-tests-2").write_bytes(bytes(100))
    assert [worker.is_alive for worker in reader.workers()] == [True, True, False]


def test_a_predecessors_file_needs_no_room(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        Counters(disk.folder, "of-tests").row(KEY, 1)[0] += 7
        with disk.full():
            successor = Counters(disk.folder, "of-tests")
            successor.row(KEY, 1)[0] += 1
            assert total(Counters(disk.folder, "of-tests")) == 8
