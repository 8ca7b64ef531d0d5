"""Which backend is chosen, what a device must show first, and which tensors it gets."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.cases.backend_calls import flat_call
from support.devices import host_kernels
from support.devices.host_device import HostDevice
from support.devices.host_kernels import NO_COMPILER, compiler
from tensor_round.contract.dtypes import BY_NAME, ROUNDABLE, DType
from tensor_round.contract.functions import Convert, Function
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.backends.cuda import launches
from tensor_round_service.backends.cuda.backend import SIZES, CupyBackend
from tensor_round_service.backends.cuda.conversions import conversion_kernel
from tensor_round_service.backends.cuda.device import Device
from tensor_round_service.backends.cuda.kernels import (
    ROUND_KERNELS,
    STRIDED_COPY_KERNELS,
    KernelSource,
)
from tensor_round_service.backends.cuda.quantization import linear_kernel
from tensor_round_service.backends.devices import DeviceFailed, DeviceMissing, OutOfDeviceMemory
from tensor_round_service.backends.known_results import KNOWN
from tensor_round_service.backends.select import (
    BackendUnavailable,
    DeviceOptions,
    OpenDevices,
    open_cupy,
    select_backend,
)

needs_compiler = pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)


def devices(*found: Device) -> OpenDevices:
    return lambda _numbers, _pool_bytes: found


def failing(error: Exception) -> OpenDevices:
    def open_devices(_numbers: Sequence[int] | None, _pool_bytes: int | None) -> list[Device]:
        raise error

    return open_devices


def chosen(name: str, min_bytes: int | None = None) -> CupyBackend:
    backend = select_backend(name, DeviceOptions(min_bytes=min_bytes), devices(HostDevice()))
    assert isinstance(backend, CupyBackend)
    return backend


def rounded_by(backend: CupyBackend, dtype: str, nbytes: int) -> str:
    count = nbytes // BY_NAME[dtype].itemsize
    memory = np.zeros(nbytes, np.uint8)
    return backend.round(flat_call(dtype, "ties_to_even", count), memory, memory)


@needs_compiler
def test_a_backend_names_its_devices() -> None:
    with contextlib.closing(chosen("cupy")) as backend:
        assert backend.devices == [HostDevice().name]
    with contextlib.closing(NumpyBackend()) as backend:
        assert list(backend.devices) == ["CPU"]


def test_numpy_never_looks_for_a_device() -> None:
    backend = select_backend("numpy", open_devices=failing(AssertionError("looked")))
    assert isinstance(backend, NumpyBackend)


MISSING = [
    DeviceMissing("NVRTC is missing; the extras cuda12 and cuda13 have it"),
    OutOfDeviceMemory("out of memory allocating 16777216 bytes"),
    DeviceFailed("cudaErrorUnsupportedPtxVersion: the provided PTX was compiled\nand more"),
]


@pytest.mark.parametrize("error", MISSING, ids=lambda error: type(error).__name__)
def test_without_a_usable_device_cupy_fails_and_auto_is_numpy_with_one_line(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    reason = str(error).splitlines()[0]
    with pytest.raises(BackendUnavailable) as refused:
        select_backend("cupy", open_devices=failing(error))
    assert str(refused.value) == f"BACKEND=cupy: {reason}"
    caplog.clear()
    caplog.set_level(logging.INFO, "tensor_round_service")
    assert isinstance(select_backend("auto", open_devices=failing(error)), NumpyBackend)
    (line,) = [line for line in caplog.messages if line.startswith("backend")]
    assert line == f"backend: numpy (no usable GPU: {reason})"


@needs_compiler
@pytest.mark.parametrize("name", ["auto", "cupy"])
@pytest.mark.parametrize(
    ("dtype", "rounding"),
    [("float64", Rounding.TOWARD_POSITIVE), ("float8_e5m2", Rounding.TIES_TO_AWAY)],
)
def test_a_device_that_gives_one_other_bit_is_not_used(
    monkeypatch: pytest.MonkeyPatch, name: str, dtype: str, rounding: Rounding
) -> None:
    """Its kernel for one direction is another's."""
    other = ROUND_KERNELS[BY_NAME[dtype], Rounding.TIES_TO_EVEN]
    kernels = {**ROUND_KERNELS, (BY_NAME[dtype], rounding): other}
    monkeypatch.setattr(launches, "ROUND_KERNELS", kernels)
    if name == "auto":
        assert isinstance(select_backend(name, open_devices=devices(HostDevice())), NumpyBackend)
    else:
        with pytest.raises(BackendUnavailable, match=rf"{dtype} {rounding} differs from NumPy's"):
            select_backend(name, open_devices=devices(HostDevice()))


@needs_compiler
def test_a_device_that_converts_one_operand_wrongly_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its kernel for float32 to float16 takes ties away from zero."""

    def other(function: Function, source: DType, target: DType) -> KernelSource:
        if target.name == "float16" and function.rounding is Rounding.TIES_TO_EVEN:
            function = Convert(Rounding.TIES_TO_AWAY)
        return conversion_kernel(function, source, target)

    monkeypatch.setattr(launches, "conversion_kernel", other)
    with pytest.raises(BackendUnavailable, match="float32 to float16 ties_to_even differs"):
        select_backend("cupy", open_devices=devices(HostDevice()))


#: Faults in the text of quantization: what becomes of a part of it, and where that shows.
FAULTS = {
    "reciprocal": (
        'asm("div.rn.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y))',
        "z = x * (1.0f / y)",
        "float32 to int8",
    ),
    "flushed operands": (
        'asm("div.rn.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y))',
        "z = (__builtin_fabsf(x) < 0x1p-126f ? 0 * x : x)"
        " / (__builtin_fabsf(y) < 0x1p-126f ? 0 * y : y)",
        "float32 to int8",
    ),
    "flushed products": (
        'asm("mul.rn.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y))',
        "z = x * y; z = __builtin_fabsf(z) < 0x1p-126f ? 0 * z : z",
        "int8 to float32",
    ),
    "one scale for a row": ("load();\n    }\n    ++element", "}\n    ++element", "float32"),
    "zero points first": ("low = ", "low = point + ", "float32 to int8"),
    "NaNs with signs": ("converted(quiet(", "converted((", "float32 to float8_e4m3fn"),
    "products of float32": ("__dmul_rn(x, y)", "product((float)x, (float)y)", "uint16 to float16"),
}


@needs_compiler
@pytest.mark.parametrize(("right", "wrong", "types"), FAULTS.values(), ids=FAULTS)
def test_a_device_that_quantizes_one_operand_wrongly_is_not_used(
    monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, types: str
) -> None:
    found = 0

    def other(*of: Any) -> KernelSource:
        nonlocal found
        kernel = linear_kernel(*of)
        found += right in kernel.preamble
        return replace(kernel, preamble=kernel.preamble.replace(right, wrong))

    monkeypatch.setattr(launches, "linear_kernel", other)
    with pytest.raises(BackendUnavailable, match=f"{types}.* differs"):
        select_backend("cupy", open_devices=devices(HostDevice()))
    assert found


@needs_compiler
def test_one_bad_device_among_two_is_enough_and_nothing_is_left_of_the_other() -> None:
    bad = HostDevice("bad", memory_bytes=1 << 20)
    before = set(threading.enumerate())
    with pytest.raises(BackendUnavailable, match="no 16777216 bytes"):
        select_backend("cupy", open_devices=devices(HostDevice(), bad))
    left = {thread.name for thread in set(threading.enumerate()) - before}
    assert not [name for name in left if name.startswith("tensor-round")]


@needs_compiler
def test_every_kernel_has_run_when_a_backend_is_chosen() -> None:
    """A kernel is compiled at its first launch, for which no request should wait."""
    device = HostDevice()
    select_backend("cupy", open_devices=devices(device)).close()
    others = {host_kernels.kernel_of(known.call) for known in KNOWN[1:]}
    assert device.launched == {*ROUND_KERNELS.values(), *others}
    assert device.operations.count("copy_strided") >= len(STRIDED_COPY_KERNELS)


@needs_compiler
def test_cupy_is_taken_at_its_word_and_integers_are_copied_by_the_host() -> None:
    backend = chosen("cupy")
    assert rounded_by(backend, "float32", 4) == "cupy"
    assert rounded_by(backend, "int32", 4) == "numpy"
    assert backend.inline_bytes < 0, "even an empty tensor must not keep the event loop waiting"
    backend.close()


@needs_compiler
@pytest.mark.parametrize("name", ["auto", "cupy"])
def test_the_least_size_for_a_device_can_be_given(name: str) -> None:
    backend = chosen(name, 8192)
    assert backend.inline_bytes == 8191
    for dtype in ("float8_e4m3fn", "float64"):
        assert rounded_by(backend, dtype, 8184) == "numpy"
        assert rounded_by(backend, dtype, 8192) == "cupy"
    backend.close()


@needs_compiler
def test_auto_measures_the_least_size_for_each_dtype() -> None:
    backend = chosen("auto")
    least = backend.policy.min_bytes
    assert set(least) == {dtype for dtype in ROUNDABLE if dtype.is_float}
    assert set(least.values()) <= set(SIZES)
    assert backend.policy.falls_back
    assert rounded_by(backend, "float32", SIZES[0] // 2) == "numpy"
    assert rounded_by(backend, "float32", SIZES[-1]) == "cupy"
    backend.close()


def test_which_devices_and_how_much_of_them_is_passed_on() -> None:
    asked: list[object] = []

    def open_devices(numbers: Sequence[int] | None, pool_bytes: int | None) -> list[Device]:
        asked.append((numbers, pool_bytes))
        raise DeviceMissing("none")

    select_backend("auto", DeviceOptions(numbers=(1, 0), pool_bytes=5), open_devices)
    select_backend("auto", DeviceOptions(), open_devices)
    assert asked == [((1, 0), 5), (None, None)]


def test_missing_part_of_this_machine_is_named() -> None:
    """On this machine as it is: CuPy, the driver or the device; or nothing is missing."""
    said = ""
    try:
        found: Sequence[Device] = open_cupy(None, None)
    except DeviceMissing as missing:
        found, said = [], str(missing)
    assert found or any(word in said for word in ("CuPy", "driver", "NVRTC", "device"))
    assert "\n" not in said
