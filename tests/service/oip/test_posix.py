"""Regions of shared memory: what may be registered and used, and the list that processes share."""

from __future__ import annotations

import contextlib
import gc
import json
import multiprocessing
import os
import resource
import secrets
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.segments import (
    OBJECTS,
    PREFIX,
    SIZE,
    Segment,
    add,
    contents,
    die_in_a_change,
    fill,
    full,
    registration,
    segment,
)
from support.small_disk import small_disk
from tensor_round.contract.errors import InvalidDescriptor, NotFound, Overloaded
from tensor_round_service.oip import posix_memory as posix
from tensor_round_service.oip import regions
from tensor_round_service.oip.infer_json import Region
from tensor_round_service.oip.posix_memory import PosixSharedMemory
from tensor_round_service.oip.regions import ByteRange, Registry


@pytest.fixture
def owned() -> Iterator[Segment]:
    with segment(SIZE) as made:
        made.memory[:] = np.arange(SIZE) % 251
        yield made


@pytest.fixture
def memory() -> PosixSharedMemory:
    return PosixSharedMemory(PREFIX, Registry())


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize(("offset", "size"), [(0, SIZE), (7, 100), (SIZE - 1, 1)])
def test_a_region_is_the_objects_own_bytes(
    memory: PosixSharedMemory, owned: Segment, slash: str, offset: int, size: int
) -> None:
    memory.register("r", slash + owned.key, offset, size)
    assert contents(memory, "r", size) == owned.memory[offset : offset + size].tobytes()
    fill(memory, "r", 255, 1, size - 1)
    assert owned.memory[offset + size - 1] == 255


def test_registered_regions_are_listed(memory: PosixSharedMemory, owned: Segment) -> None:
    assert memory.registered() == []
    memory.register("b", "/" + owned.key, 3, 5)
    memory.register("a", owned.key, 0, SIZE)
    told = [(r.name, r.key, r.offset, r.byte_size) for r in memory.registered()]
    assert told == [("b", "/" + owned.key, 3, 5), ("a", owned.key, 0, SIZE)]
    assert [region.name for region in memory.registered("a")] == ["a"]
    with pytest.raises(NotFound, match='"c"'):
        memory.registered("c")


WRONG_BOUNDS: dict[str, tuple[int, int]] = {
    "one-too-many": (0, SIZE + 1),
    "offset": (1, SIZE),
    "offset-at-the-end": (SIZE, 1),
    "beyond-32-bits": (2**32, 1),
    "sum-beyond-64-bits": (2**63, 2**63),
    "sum-wraps-64-bits": (2**64 - 1, 2),
    "beyond-everything": (0, 10**30),
}


@pytest.mark.parametrize(("offset", "size"), WRONG_BOUNDS.values(), ids=WRONG_BOUNDS)
def test_bounds_at_registration_and_at_use(
    memory: PosixSharedMemory, owned: Segment, offset: int, size: int
) -> None:
    with pytest.raises(InvalidDescriptor, match="4096 bytes"):
        memory.register("r", owned.key, offset, size)
    assert memory.registered() == []
    memory.register("r", owned.key, 0, SIZE)
    with pytest.raises(InvalidDescriptor, match="4096 bytes"):
        memory.part(Region("r", size, offset), 1)


def test_a_region_smaller_than_its_object(memory: PosixSharedMemory, owned: Segment) -> None:
    memory.register("r", owned.key, 100, 50)
    assert contents(memory, "r", 50) == owned.memory[100:150].tobytes()
    for offset, size in ((0, 51), (1, 50), (50, 1)):
        with pytest.raises(InvalidDescriptor, match="50 bytes"):
            memory.part(Region("r", size, offset), size)


def test_no_bytes_at_the_very_end(memory: PosixSharedMemory, owned: Segment) -> None:
    memory.register("r", owned.key, 0, SIZE)
    assert contents(memory, "r", 0, SIZE) == b""
    fill(memory, "r", 255, 0, SIZE)
    assert owned.path.stat().st_size == SIZE


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/etc/hostname"), os.mkfifo])
def test_only_plain_objects(memory: PosixSharedMemory, make: Any) -> None:
    key = PREFIX + secrets.token_hex(8)
    make(OBJECTS / key)
    try:
        with pytest.raises(InvalidDescriptor, match="shared memory object"):
            memory.register("r", key, 0, 1)
    finally:
        (OBJECTS / key).unlink()


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "other",
        "/other",
        "//" + PREFIX,
        "../shm/" + PREFIX,
        PREFIX + "/../x",
        PREFIX + "a/b",
        "/" + PREFIX + "a/",
        PREFIX[:-1],
        PREFIX.upper() + "x",
        " " + PREFIX,
        PREFIX + "\0x",
        PREFIX + "does-not-exist",
        PREFIX + "x" * 300,
    ],
)
def test_keys_outside_the_prefix_or_of_nothing(memory: PosixSharedMemory, key: str) -> None:
    with pytest.raises(InvalidDescriptor):
        memory.register("r", key, 0, 1)


def test_a_name_is_taken_once(memory: PosixSharedMemory, owned: Segment) -> None:
    memory.register("r", owned.key, 0, 8)
    with segment(SIZE) as other, pytest.raises(InvalidDescriptor, match="already") as caught:
        memory.register("r", other.key, 0, 8)
    assert owned.key not in caught.value.detail
    memory.unregister("r")
    memory.register("r", owned.key, 0, 16)
    assert memory.registered("r")[0].byte_size == 16


def test_unregistering(memory: PosixSharedMemory, owned: Segment) -> None:
    for name in "abc":
        memory.register(name, owned.key, 0, 8)
    memory.unregister("b")
    memory.unregister("b")
    memory.unregister("never there")
    assert [region.name for region in memory.registered()] == ["a", "c"]
    memory.unregister()
    assert memory.registered() == []
    with pytest.raises(NotFound, match='"a"'):
        contents(memory, "a", 1)


def test_a_part_outlives_its_registration(memory: PosixSharedMemory, owned: Segment) -> None:
    memory.register("r", owned.key, 0, SIZE)
    with memory.part(Region("r", 8, 0), 8) as part:
        memory.unregister()
        with segment(SIZE) as other:
            memory.register("r", other.key, 0, SIZE)
            contents(memory, "r", 8)
        part.write(0, full(8, 9))
    assert (owned.memory[:8] == 9).all()


def test_pieces_of_a_part(memory: PosixSharedMemory, owned: Segment) -> None:
    memory.register("r", owned.key, 100, 200)
    before, status = owned.memory.copy(), owned.path.stat()
    with memory.part(Region("r", 50, 10), 40) as part:
        assert part.range == ByteRange((status.st_dev, status.st_ino), 110, 40)
        found = full(7, 0)
        part.read(30, found)
        assert found.tobytes() == before[140:147].tobytes()
        part.write(33, full(7, 255))
    assert (owned.memory[143:150] == 255).all()
    owned.memory[143:150] = before[143:150]
    np.testing.assert_array_equal(owned.memory, before)


def test_the_number_of_regions_is_bounded(
    memory: PosixSharedMemory, owned: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regions, "MAX_REGIONS", 3)
    for name in "abc":
        memory.register(name, owned.key, 0, 1)
    with pytest.raises(InvalidDescriptor, match="3 regions"):
        memory.register("d", owned.key, 0, 1)


@pytest.mark.parametrize(
    ("one", "other", "overlaps"),
    [
        ((0, 8), (0, 8), True), ((0, 8), (8, 8), False), ((0, 8), (7, 8), True),
        ((4, 8), (0, 16), True), ((4, 0), (0, 8), False), ((0, 0), (0, 0), False),
    ],
)  # fmt: skip
def test_overlaps(one: tuple[int, int], other: tuple[int, int], overlaps: bool) -> None:
    a, b, elsewhere = (ByteRange((1, n), *which) for n, which in ((2, one), (2, other), (3, other)))
    assert a.overlaps(b) is b.overlaps(a) is overlaps
    assert (a == b) is (one == other)
    assert not a.overlaps(elsewhere)


def test_workers_share_registrations(tmp_path: Path, owned: Segment) -> None:
    first, second = (PosixSharedMemory(PREFIX, Registry(tmp_path)) for _ in range(2))
    first.register("r", owned.key, 0, SIZE)
    assert contents(second, "r", SIZE) == owned.memory.tobytes()
    with pytest.raises(InvalidDescriptor, match="already"):
        second.register("r", owned.key, 0, 8)
    second.unregister("r")
    with pytest.raises(NotFound):
        contents(first, "r", 8)
    with segment(SIZE) as other:
        second.register("r", other.key, 8, 8)
        assert contents(first, "r", 8) == bytes(8)
        assert first.registered() == second.registered()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_an_object_that_shrinks_in_use(memory: PosixSharedMemory, owned: Segment) -> None:
    memory.register("r", owned.key, 0, SIZE)
    with memory.part(Region("r", SIZE, 0), SIZE) as part:
        owned.shrink(100)
        with pytest.raises(InvalidDescriptor, match="truncated"):
            part.read(0, full(SIZE, 0))
        with pytest.raises(InvalidDescriptor, match="truncated"):
            part.write(0, full(8, 0))
        assert owned.path.stat().st_size == 100, "it is not made longer again"
        found = full(100, 255)
        part.read(0, found)
        assert found.tobytes() == owned.memory[:100].tobytes()


def test_no_memory_for_the_pages_of_an_object(
    tmp_path: Path, memory: PosixSharedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written through a mapping, it would end the process."""
    key = PREFIX + "sparse"
    monkeypatch.setattr(posix, "OBJECTS", tmp_path)
    with small_disk(tmp_path) as disk:
        if not disk.is_mounted:
            pytest.skip("no file system may be mounted here, and /dev/shm is not to be filled")
        with (tmp_path / key).open("wb") as file:
            file.truncate(2 * SIZE)
        memory.register("r", key, 0, 2 * SIZE)
        with disk.full():
            assert contents(memory, "r", 2 * SIZE) == bytes(2 * SIZE)
            with pytest.raises(Overloaded, match="no memory") as caught:
                fill(memory, "r", 1, 2 * SIZE)
            assert key not in caught.value.detail
        fill(memory, "r", 1, 2 * SIZE)
        assert contents(memory, "r", 2 * SIZE) == b"\1" * 2 * SIZE


def test_no_descriptor_to_be_had(memory: PosixSharedMemory, owned: Segment) -> None:
    memory.register("r", owned.key, 0, SIZE)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        with pytest.raises(Overloaded):
            memory.register("s", owned.key, 0, SIZE)
        with pytest.raises(Overloaded):
            contents(memory, "r", 8)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert contents(memory, "r", 8) == owned.memory[:8].tobytes()


def test_a_shrunken_object(memory: PosixSharedMemory, owned: Segment) -> None:
    memory.register("r", owned.key, 0, SIZE)
    contents(memory, "r", SIZE)
    owned.shrink(100)
    for nbytes in (8, SIZE):
        with pytest.raises(InvalidDescriptor, match="truncated"):
            contents(memory, "r", nbytes)


def test_a_replaced_object(memory: PosixSharedMemory, owned: Segment) -> None:
    memory.register("r", owned.key, 0, SIZE)
    spare = owned.path.with_name(owned.key + "_spare")
    spare.write_bytes(bytes(SIZE))
    spare.rename(owned.path)
    with pytest.raises(InvalidDescriptor, match="replaced"):
        contents(memory, "r", 8)
    memory.unregister("r")
    memory.register("r", owned.key, 0, SIZE)
    assert contents(memory, "r", 8) == bytes(8)


def test_an_object_that_is_gone(memory: PosixSharedMemory) -> None:
    with segment(SIZE) as made:
        memory.register("r", made.key, 0, SIZE)
    with pytest.raises(InvalidDescriptor, match="removed"):
        contents(memory, "r", 8)


def test_descriptors_do_not_leak(memory: PosixSharedMemory, owned: Segment) -> None:
    gc.collect()  # what other tests left must not go meanwhile
    before = open_files()
    for _ in range(50):
        memory.register("r", owned.key, 0, SIZE)
        contents(memory, "r", 8)
        memory.unregister("r")
    with pytest.raises(InvalidDescriptor):
        memory.register("r", owned.key, 0, SIZE + 1)
    memory.register("r", owned.key, 0, SIZE)
    owned.shrink(8)
    with pytest.raises(InvalidDescriptor):
        contents(memory, "r", 8)
    assert open_files() == before


spawn = multiprocessing.get_context("spawn")


@pytest.mark.parametrize("shared", [True, False])
def test_stored_bytes_are_read_back(tmp_path: Path, shared: bool) -> None:
    registry = Registry(tmp_path if shared else None)
    assert registry.read() == {}
    with registry.edit() as regions:
        regions["a"] = registration("a")
    assert registry.read() == {"a": registration("a")}
    if shared:
        assert Registry(tmp_path).read() == registry.read()


def test_what_changes_nothing_writes_nothing(tmp_path: Path, owned: Segment) -> None:
    memory, file = PosixSharedMemory(PREFIX, Registry(tmp_path)), tmp_path / "regions"
    for change in (
        lambda: memory.unregister(),
        lambda: memory.register("r", owned.key, 0, SIZE),
        lambda: memory.unregister("s"),
        lambda: memory.register("r", owned.key, 0, SIZE),
        lambda: memory.unregister("r"),
    ):
        before, regions = version(file), memory.registered()
        with contextlib.suppress(InvalidDescriptor):
            change()
        assert (version(file) == before) == (memory.registered() == regions)


def version(file: Path) -> int | None:
    return file.stat().st_ino if file.exists() else None


def test_one_worker_writes_no_registry(monkeypatch: pytest.MonkeyPatch, owned: Segment) -> None:
    """Nor the text of one: a change costs the same beside the most regions."""
    memory = PosixSharedMemory(PREFIX, Registry())
    monkeypatch.setattr(json, "dumps", None)
    memory.register("r", owned.key, 0, SIZE)
    memory.unregister("r")


@pytest.mark.parametrize("shared", [True, False])
def test_an_exception_changes_nothing(tmp_path: Path, shared: bool) -> None:
    registry = Registry(tmp_path if shared else None)
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
                registry = Registry(file.parent)
                with pytest.raises(Overloaded) as caught, registry.edit() as regions:
                    regions.update((name, registration(name)) for name in many)
                assert caught.value.retry_after
                assert str(disk.folder) not in caught.value.detail
                assert list(registry.read()) == list(Registry(file.parent).read()) == ["a"]
                assert not file.with_suffix(".new").exists(), "nothing half written stays"
        add(file, many)
        assert list(Registry(file.parent).read()) == ["a", *many]


def test_a_lock_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "gone")
    with pytest.raises(Overloaded), registry.edit():
        raise AssertionError("nobody has the list alone")


def test_changes_at_once_are_all_kept(tmp_path: Path) -> None:
    file = tmp_path / "regions"
    names = [[f"{worker}-{n}" for n in range(50)] for worker in range(3)]
    workers = [spawn.Process(target=add, args=(file, mine)) for mine in names]
    for worker in workers:
        worker.start()
    registry = Registry(file.parent)
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
    assert list(Registry(file.parent).read()) == ["a", "b"]
