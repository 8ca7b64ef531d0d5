from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec

import pytest

from support.devices.host_device import HostDevice
from support.devices.host_kernels import NO_COMPILER, compiler
from tensor_round.contract.dtypes import DTYPES, DType
from tensor_round.contract.functions import Function
from tensor_round_service.backends import Backend
from tensor_round_service.backends.cpu.backend import Kernels, NumpyBackend
from tensor_round_service.backends.cpu.loops import Loop
from tensor_round_service.backends.cpu.quantization import Stage
from tensor_round_service.backends.cuda.backend import CupyBackend
from tensor_round_service.backends.devices import DeviceMissing
from tensor_round_service.backends.select import compiled_kernels, open_cupy

#: Every backend that this machine can run.
FACTORIES: dict[str, Callable[[], Backend]] = {
    "numpy": lambda: NumpyBackend(threads=3),
    # The GPU's backend, its kernels and all, on a device that is this CPU.
    "cupy-on-host": lambda: CupyBackend([HostDevice()], NumpyBackend()),
}


@dataclass(frozen=True)
class SharedEarly:
    """Kernels whose runs threads share from 1 MiB on: large ones would only take longer.

    They are compiled when they are asked for, not later.
    """

    kernels: Kernels

    def get(self, function: Function, source: DType, target: DType) -> Loop | None:
        key = function, source, target
        self.kernels.ask(*key)
        self.kernels.wait()
        found = self.kernels.get(*key)
        return found and replace(found, split_bytes=1 << 20)

    def stage(self, function: Function, source: DType, scale: DType, target: DType) -> Stage | None:
        key = function, source, scale, target
        # Of those that are not common, a quarter: a sweep compiles all.
        if scale is not source and sum(map(DTYPES.index, key[1:])) % 4:
            return None
        self.kernels.ask(*key)
        self.kernels.wait()
        return self.kernels.stage(*key)

    def ask(self, function: Function, *types: DType) -> None:
        self.kernels.ask(function, *types)

    def wait(self) -> None:
        self.kernels.wait()


def with_kernels() -> Backend:
    """Compiled here, where a worker runs them: not by every worker, to collect."""
    kernels = compiled_kernels()
    assert kernels is not None
    return NumpyBackend(threads=3, kernels=SharedEarly(kernels))


if find_spec("llvmlite"):
    FACTORIES["compiled"] = with_kernels


def devices_here() -> bool:
    """Whether there is a GPU."""
    try:
        return bool(open_cupy(None, None))
    except DeviceMissing:
        return False


if devices_here():
    FACTORIES["cupy"] = lambda: CupyBackend(open_cupy(None, None), NumpyBackend())

NEEDS_COMPILER = pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)


PARAMETERS = [
    pytest.param(factory, marks=[NEEDS_COMPILER] if name == "cupy-on-host" else [], id=name)
    for name, factory in FACTORIES.items()
]
#: For calls so large that threads share them: smaller ones go the same way without others.
ONE_THREAD = pytest.param(lambda: NumpyBackend(threads=1), id="numpy-1-thread")


@pytest.fixture(scope="session", params=PARAMETERS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Each backend in turn."""
    yield from opened(request)


@pytest.fixture(scope="session", params=[*PARAMETERS, ONE_THREAD])
def sharing_backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Each backend in turn, and one that has no threads to share a call."""
    yield from opened(request)


#: GPUs share no call among threads.
ON_CPU = [each for each in PARAMETERS if "cupy" not in str(each.id)]


@pytest.fixture(scope="session", params=[each for each in PARAMETERS if each.id != "cupy-on-host"])
def quantizing_backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Each but the GPU that is this CPU, for which each pair of types would be compiled alone."""
    yield from opened(request)


@pytest.fixture(scope="session", params=[*ON_CPU, ONE_THREAD])
def threaded_backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Each whose threads share a large call, and one that has no others."""
    yield from opened(request)


def opened(request: pytest.FixtureRequest) -> Iterator[Backend]:
    backend: Backend = request.param()
    yield backend
    backend.close()
