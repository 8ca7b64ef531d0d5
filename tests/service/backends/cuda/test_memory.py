from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from support.devices.host_device import HostDevice
from tensor_round_service.backends.cpu.backend import MAPPED_BYTES
from tensor_round_service.backends.cuda.memory import PinnedMemory

LARGE = MAPPED_BYTES + 3


@pytest.fixture
def device() -> HostDevice:
    return HostDevice()


@pytest.fixture
def memory(device: HostDevice) -> Iterator[PinnedMemory]:
    memory = PinnedMemory(device)
    yield memory
    memory.close()


def test_large_memory_is_locked_in_the_background_for_as_long_as_any_of_it_is_used(
    device: HostDevice, memory: PinnedMemory
) -> None:
    buffer = memory.allocate(LARGE)
    part = buffer[100:200]
    memory.wait_until_pinned()
    assert device.is_pinned(buffer)
    del buffer
    gc.collect()
    memory.wait_until_pinned()
    assert device.is_pinned(part)
    del part
    gc.collect()
    memory.wait_until_pinned()
    assert device.pinned == {}


def test_small_memory_is_not_locked(device: HostDevice, memory: PinnedMemory) -> None:
    buffer = memory.allocate(MAPPED_BYTES - 1)
    memory.wait_until_pinned()
    assert buffer.size == MAPPED_BYTES - 1
    assert device.pinned == {}


def test_memory_that_cannot_be_locked_serves_as_it_is(
    device: HostDevice, memory: PinnedMemory
) -> None:
    device.can_pin = False
    buffer = memory.allocate(LARGE)
    memory.wait_until_pinned()
    buffer[:] = 7
    assert not device.is_pinned(buffer)
    del buffer
    gc.collect()
    memory.wait_until_pinned()


def test_memory_outlives_its_allocator(device: HostDevice) -> None:
    memory = PinnedMemory(device)
    buffer = memory.allocate(LARGE)
    memory.close()
    buffer[:] = 7
    del buffer
    gc.collect()
