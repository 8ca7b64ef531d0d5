"""What becomes of a request, and of those after it, when a device gives way at any point.

The faults are put into the device; all that has to cope with them is run as it is.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest

from support.cases.backend_calls import flat_call, sample_pair
from support.devices.host_device import HostDevice
from support.devices.host_kernels import NO_COMPILER, compiler
from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import BackendFailed, DeviceOutOfMemory
from tensor_round.contract.functions import RoundToIntegral
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends import Bytes
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.backends.cuda.backend import CupyBackend, OffloadPolicy
from tensor_round_service.backends.cuda.pipeline import SourceCorrupted
from tensor_round_service.backends.devices import DeviceFailed, OutOfDeviceMemory
from tensor_round_service.engine import digests
from tensor_round_service.engine.engine import Engine
from tensor_round_service.engine.job import Job

pytestmark = [pytest.mark.skipif(compiler() is None, reason=NO_COMPILER), pytest.mark.slow]

#: Several pieces, and a tail.
COUNT = (3 << 20) // 4 + 5


@pytest.fixture
def device() -> HostDevice:
    return HostDevice()


@pytest.fixture
def backend(device: HostDevice) -> Iterator[CupyBackend]:
    backend = CupyBackend([device], NumpyBackend())
    yield backend
    backend.close()


class Once:
    """Fails an operation the ``nth`` time, and again from then on if ``always``."""

    def __init__(
        self, operation: str, failure: Exception, *, nth: int = 1, always: bool = False
    ) -> None:
        self._operation = operation
        self._failure = failure
        self._left = nth
        self._always = always
        self._lock = threading.Lock()

    def __call__(self, operation: str) -> None:
        if operation != self._operation:
            return
        with self._lock:
            self._left -= 1
            strikes = self._left == 0 or (self._always and self._left < 0)
        if strikes:
            raise self._failure


def operands(backend: CupyBackend, in_place: bool) -> tuple[Call, Bytes, Bytes, bytes]:
    """A call, its memory, and the right answer; the memory is page-locked."""
    patterns, right = sample_pair("float32", "toward_negative")
    source = backend.allocate(COUNT * 4)
    source[:] = np.resize(patterns, COUNT).view(np.uint8)
    target = source if in_place else backend.allocate(COUNT * 4)
    backend.wait_until_pinned()
    call = flat_call("float32", "toward_negative", COUNT)
    return call, source, target, np.resize(right, COUNT).tobytes()


def assert_right(backend: CupyBackend, by: str, in_place: bool = False) -> None:
    call, source, target, right = operands(backend, in_place)
    assert backend.round(call, source, target) == by
    assert target.tobytes() == right


def spaced_call() -> Call:
    """One that takes memory of its own on the device."""
    layout = Layout.of(BY_NAME["float32"], (1000,), (2,))
    return Call.packed_output(RoundToIntegral(Rounding.TIES_TO_EVEN), layout)


IN_PLACE = pytest.mark.parametrize("in_place", [False, True], ids=["out-of-place", "in-place"])


@IN_PLACE
@pytest.mark.parametrize(("always", "by"), [(False, "cupy"), (True, "numpy")], ids=["once", "on"])
@pytest.mark.parametrize("operation", ["copy in", "run", "copy out"])
def test_memory_that_ran_out_is_had_at_the_second_try_or_numpy_rounds(
    device: HostDevice, backend: CupyBackend, operation: str, always: bool, by: str, in_place: bool
) -> None:
    device.when_asked = Once(operation, OutOfDeviceMemory("full"), nth=2, always=always)
    device.operations.clear()
    assert_right(backend, by, in_place)
    assert "trim" in device.operations
    device.when_asked = lambda _operation: None
    assert_right(backend, "cupy", in_place)
    assert backend.is_healthy


def test_memory_that_stays_out_is_503_without_a_fallback(
    device: HostDevice, backend: CupyBackend
) -> None:
    backend.policy = OffloadPolicy(falls_back=False)
    call, source, target, _ = operands(backend, in_place=False)
    device.when_asked = Once("run", OutOfDeviceMemory("full"), always=True)
    with pytest.raises(DeviceOutOfMemory) as told:
        backend.round(call, source, target)
    assert told.value.status == 503
    assert told.value.retry_after == 1
    device.when_asked = lambda _operation: None
    assert_right(backend, "cupy")


def test_strided_call_gets_memory_that_trimming_frees(
    device: HostDevice, backend: CupyBackend
) -> None:
    """The device's own bookkeeping: freed memory is in the way until it is trimmed."""
    call = spaced_call()
    source = np.zeros(call.input.byte_length, np.uint8)
    target = np.empty(call.output.byte_length, np.uint8)
    device.allocate(1 << 20)  # in use, and at once kept
    device.memory_bytes = device.used + device.kept + 100
    assert backend.round(call, source, target) == "cupy"
    device.memory_bytes = device.used + 100
    assert backend.round(call, source, target) == "numpy"
    backend.policy = OffloadPolicy(falls_back=False)
    with pytest.raises(DeviceOutOfMemory):
        backend.round(call, source, target)


@pytest.mark.parametrize(
    ("nth", "in_place"),
    [(1, True), (1, False), (3, False)],
    ids=["first-piece-in-place", "first-piece", "third-piece"],
)
@pytest.mark.parametrize("operation", ["copy in", "run"])
@pytest.mark.parametrize("falls_back", [True, False], ids=["auto", "cupy"])
def test_a_device_lost_before_it_writes_costs_no_request(
    device: HostDevice,
    backend: CupyBackend,
    operation: str,
    nth: int,
    in_place: bool,
    falls_back: bool,
) -> None:
    backend.policy = OffloadPolicy(falls_back=falls_back)
    device.when_done = Once(operation, DeviceFailed("illegal address"), nth=nth)
    assert_right(backend, "numpy", in_place)
    assert_lost(device, backend)


@pytest.mark.parametrize("nth", range(2, 8))
@pytest.mark.parametrize("operation", ["copy in", "run"])
def test_a_device_lost_while_another_piece_may_go_out_gives_the_right_answer_or_none(
    device: HostDevice, backend: CupyBackend, operation: str, nth: int
) -> None:
    device.when_done = Once(operation, DeviceFailed("illegal address"), nth=nth)
    call, source, target, right = operands(backend, in_place=True)
    with suppress(SourceCorrupted):
        by = backend.round(call, source, target)
        assert (by, target.tobytes()) == ("numpy" if not backend.is_healthy else "cupy", right)


@pytest.mark.parametrize(("can_pin", "in_place"), [(True, False), (False, True)])
def test_a_device_lost_while_it_writes_elsewhere_costs_no_request(
    device: HostDevice, backend: CupyBackend, can_pin: bool, in_place: bool
) -> None:
    """Into a target, or into the memory in which a source that is not page-locked is staged."""
    device.can_pin = can_pin
    device.when_done = Once("copy out", DeviceFailed("ECC"), nth=2)
    assert_right(backend, "numpy", in_place)
    assert_lost(device, backend)


def test_a_device_lost_while_it_writes_over_its_source_costs_that_request_alone(
    device: HostDevice, backend: CupyBackend
) -> None:
    device.when_done = Once("copy out", DeviceFailed("ECC"), nth=2)
    engine = Engine(backend)
    call, source, _, _ = operands(backend, in_place=True)
    with pytest.raises(BackendFailed) as told:
        engine.round(call, source, Job(engine.memory))
    assert told.value.status == 503
    assert isinstance(told.value.__context__, SourceCorrupted)
    assert_lost(device, backend)


def assert_lost(device: HostDevice, backend: CupyBackend) -> None:
    """For good: nothing but NumPy from now on, and whoever watches can see it."""
    assert not backend.is_healthy
    device.when_done = lambda _operation: None
    device.operations.clear()
    for in_place in (False, True):
        assert_right(backend, "numpy", in_place)
    assert device.operations == []
    report = digests.report(digests.roundings(backend))
    assert report["conforms"]
    assert list(report["backends"]) == ["numpy"]


@pytest.mark.parametrize(("copies", "by"), [(True, "cupy"), (False, "numpy")])
def test_a_device_that_refuses_a_call_counts_as_lost_if_its_bits_are_wrong(
    device: HostDevice,
    backend: CupyBackend,
    monkeypatch: pytest.MonkeyPatch,
    copies: bool,
    by: str,
) -> None:
    device.when_asked = Once("run", DeviceFailed("invalid argument"))
    if not copies:
        monkeypatch.setattr("support.devices.host_device._move", lambda *_: None)
    assert_right(backend, "numpy")
    assert backend.is_healthy is copies
    assert_right(backend, by)


def test_requests_under_way_when_the_device_is_lost_are_all_answered(
    device: HostDevice, backend: CupyBackend
) -> None:
    outcomes: list[str] = []

    def request() -> None:
        call, source, target, right = operands(backend, in_place=False)
        by = backend.round(call, source, target)
        outcomes.append(by if target.tobytes() == right else "wrong")

    device.when_done = Once("run", DeviceFailed("launch failure"), nth=9)
    callers = [threading.Thread(target=request) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(outcomes) == 6
    assert set(outcomes) <= {"cupy", "numpy"}
    assert_lost(device, backend)


def test_two_devices_take_turns(device: HostDevice) -> None:
    second = HostDevice("second", number=1)
    backend = CupyBackend([device, second], NumpyBackend())
    device.operations.clear()
    second.operations.clear()
    for _ in range(4):
        assert_right(backend, "cupy")
    assert device.operations.count("run") == second.operations.count("run") > 0
    backend.close()
