"""Objects of shared memory that shrink, are replaced or vanish, and resources that run out."""

from __future__ import annotations

import gc
import resource
from pathlib import Path

import pytest

from support.segments import PREFIX, SIZE, Segment, contents, fill, full, segment
from support.small_disk import small_disk
from tensor_round.contract.errors import InvalidDescriptor, Overloaded
from tensor_round_service.oip import posix_memory as posix
from tensor_round_service.oip.codec import Region
from tensor_round_service.oip.posix_memory import PosixSharedMemory


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
