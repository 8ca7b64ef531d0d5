"""The list of regions that several processes change at once, and die while they do."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from pathlib import Path

import pytest

from support.segments import add, die_in_a_change, registration
from support.small_disk import small_disk
from tensor_round.contract.errors import Overloaded
from tensor_round_service.oip.regions import Registry

spawn = multiprocessing.get_context("spawn")


@pytest.mark.parametrize("shared", [True, False])
def test_stored_bytes_are_read_back(tmp_path: Path, shared: bool) -> None:
    registry = Registry(tmp_path / "regions" if shared else None)
    assert registry.read() == {}
    with registry.edit() as regions:
        regions["a"] = registration("a")
    assert registry.read() == {"a": registration("a")}
    if shared:
        assert Registry(tmp_path / "regions").read() == registry.read()


@pytest.mark.parametrize("shared", [True, False])
def test_an_exception_changes_nothing(tmp_path: Path, shared: bool) -> None:
    registry = Registry(tmp_path / "regions" if shared else None)
    with contextlib.suppress(KeyError), registry.edit() as regions:
        regions["a"] = registration("a")
        raise KeyError
    assert registry.read() == {}
    with registry.edit() as regions:
        regions["b"] = registration("b")
    assert list(registry.read()) == ["b"]


@pytest.mark.parametrize("room", [0, 4096], ids=["none", "some"])
def test_a_full_disk_changes_nothing_and_is_refused(tmp_path: Path, room: int) -> None:
    many = [f"{'x' * 60}{n}" for n in range(100)]
    with small_disk(tmp_path) as disk:
        file = disk.folder / "regions"
        add(file, ["a"])
        with disk.full(but=room):
            for _ in range(2):
                registry = Registry(file)
                with pytest.raises(Overloaded) as caught, registry.edit() as regions:
                    regions.update((name, registration(name)) for name in many)
                assert caught.value.retry_after
                assert str(disk.folder) not in caught.value.detail
                assert list(registry.read()) == list(Registry(file).read()) == ["a"]
                assert not file.with_suffix(".new").exists(), "nothing half written stays"
        add(file, many)
        assert list(Registry(file).read()) == ["a", *many]


def test_a_lock_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "gone" / "regions")
    with pytest.raises(Overloaded), registry.edit():
        raise AssertionError("nobody has the list alone")


def test_changes_at_once_are_all_kept(tmp_path: Path) -> None:
    file = tmp_path / "regions"
    names = [[f"{worker}-{n}" for n in range(50)] for worker in range(3)]
    workers = [spawn.Process(target=add, args=(file, mine)) for mine in names]
    for worker in workers:
        worker.start()
    registry = Registry(file)
    while any(worker.is_alive() for worker in workers):
        registry.read()  # never half of a change
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert set(registry.read()) == {name for mine in names for name in mine}


def test_a_worker_that_dies_in_a_change_blocks_nobody(tmp_path: Path) -> None:
    file = tmp_path / "regions"
    add(file, ["a"])
    worker = spawn.Process(target=die_in_a_change, args=(file,))
    worker.start()
    worker.join()
    assert worker.exitcode == -signal.SIGKILL
    began = time.monotonic()
    add(file, ["b"])
    assert time.monotonic() - began < 30
    assert list(Registry(file).read()) == ["a", "b"]
