"""The NumPy backend beside np.rint, torch and ONNX Runtime: rounding alone, no service.

The backend takes part twice: with the kernels that LLVM compiles, and with NumPy alone.

Whatever of those is installed takes part: ``make bench PEERS=1`` makes an environment
with all of them. Everybody rounds the same numbers, in memory that was just written, as
a received tensor's is, on all cores; in place, but for ONNX Runtime, which
cannot. torch takes part a second time on one thread, as the backend does below 16 MiB. They
take turns of a few milliseconds, so that a busy machine is busy for all, after pauses in
which the others' threads stop spinning; a figure is the median of the turns' medians.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import BY_NAME, DType
from tensor_round.contract.functions import RoundToIntegral
from tensor_round.contract.layout import Layout
from tensor_round.contract.operators.onnx_types import NUMBERS
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.backends.select import compiled_kernels

KIB, MIB = 1 << 10, 1 << 20

EVEN, AWAY = Rounding.TIES_TO_EVEN, Rounding.TIES_TO_AWAY
#: The columns of the two ways that the backend has.
COMPILED, WITH_NUMPY = "compiled", "NumPy"
TORCH, TORCH_ALONE = "torch", "torch, 1 thread"

#: Sizes, and the directions measured at each.
CASES: dict[int, tuple[Rounding, ...]] = {
    KIB: (EVEN, AWAY),
    MIB: (EVEN, AWAY),
    8 * MIB: (EVEN,),
    64 * MIB: tuple(Rounding),
}
DTYPES = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")

TURNS = 9
TURN_SECONDS = 0.02
PAUSE_SECONDS = 0.01

Elements = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Contestant:
    """Rounds what is in ``memory`` whenever it is called."""

    name: str
    memory: Elements
    run: Callable[[], object]

    def prepare(self) -> None:
        """Set the threads of the library for this one's turn."""
        if self.name in (TORCH, TORCH_ALONE):
            import torch

            torch.set_num_threads(1 if self.name == TORCH_ALONE else len(os.sched_getaffinity(0)))


#: Makes a contestant for memory full of elements; None where it has no such operation.
Maker = Callable[[DType, Rounding, Elements], Callable[[], object] | None]


def rows() -> list[dict[str, Any]]:
    """One row a type, direction and size: the backend's figure and everybody else's.

    In GB of payload a second, but for 1 KiB, where it is microseconds a call.
    """
    makers = dict(entrants())
    return [
        row(BY_NAME[name], rounding, nbytes, makers)
        for nbytes, roundings in CASES.items()
        for name in DTYPES
        for rounding in roundings
    ]


def row(dtype: DType, rounding: Rounding, nbytes: int, makers: dict[str, Maker]) -> dict[str, Any]:
    """The figures of one case; None for who takes no part."""
    numbers = np.random.default_rng(754).standard_normal(nbytes // dtype.itemsize, np.float32)
    given = (numbers * 100).astype(dtype.numpy)
    contestants = []
    for name, make in makers.items():
        memory = BACKEND.allocate(nbytes).view(dtype.numpy)
        run = make(dtype, rounding, memory)
        if run is not None:
            contestants.append(Contestant(name, memory, run))
    seconds = compete(contestants, given)
    small = nbytes < MIB
    return {
        "dtype": dtype.name,
        "rounding": str(rounding),
        "size": f"{nbytes // KIB} KiB" if small else f"{nbytes // MIB} MiB",
        "unit": "us" if small else "GB/s",
        **{
            name: None
            if name not in seconds
            else seconds[name] * 1e6
            if small
            else nbytes / seconds[name] / 1e9
            for name in makers
        },
    }


def compete(contestants: list[Contestant], given: Elements) -> dict[str, float]:
    """Seconds that each takes to round ``given``."""
    turns: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    for _ in range(TURNS):
        for contestant in contestants:
            time.sleep(PAUSE_SECONDS)
            contestant.prepare()
            turns[contestant.name].append(turn(contestant, given))
    return {name: statistics.median(medians) for name, medians in turns.items()}


def turn(contestant: Contestant, given: Elements) -> float:
    """The median of the calls of one turn, the first two left out: they wake threads."""
    durations: list[float] = []
    end = time.perf_counter() + TURN_SECONDS
    while time.perf_counter() < end or len(durations) < 5:
        contestant.memory[:] = given
        began = time.perf_counter()
        contestant.run()
        durations.append(time.perf_counter() - began)
    return statistics.median(durations[2:])


def entrants() -> Iterator[tuple[str, Maker]]:
    """Everybody who is installed, the backend first."""
    kernels = compiled_kernels()
    if kernels is not None:
        kernels.wait()
        yield COMPILED, partial(ours, NumpyBackend(kernels=kernels))
    yield WITH_NUMPY, partial(ours, BACKEND)
    yield "np.rint", numpy
    for name, module, make in (
        (TORCH, "torch", torch),
        (TORCH_ALONE, "torch", torch),
        ("ONNX Runtime", "onnxruntime", onnx_runtime),
    ):
        if find_spec(module):
            yield name, make


BACKEND = NumpyBackend()


def ours(
    backend: NumpyBackend, dtype: DType, rounding: Rounding, memory: Elements
) -> Callable[[], object]:
    call = Call.packed_output(RoundToIntegral(rounding), Layout.of(dtype, memory.shape))
    payload = memory.view(np.uint8)
    return partial(backend.round, call, payload, payload)


def numpy(dtype: DType, rounding: Rounding, memory: Elements) -> Callable[[], object] | None:
    """Not exact for signalling NaNs; for bfloat16 it is ml_dtypes' loop."""
    if rounding is not EVEN or dtype.itemsize == 1:
        return None
    return partial(np.rint, memory, out=memory)


def torch(dtype: DType, rounding: Rounding, memory: Elements) -> Callable[[], object] | None:
    import torch

    methods = {
        Rounding.TIES_TO_EVEN: torch.Tensor.round_,
        Rounding.TOWARD_ZERO: torch.Tensor.trunc_,
        Rounding.TOWARD_POSITIVE: torch.Tensor.ceil_,
        Rounding.TOWARD_NEGATIVE: torch.Tensor.floor_,
    }
    if rounding not in methods or dtype.itemsize == 1:
        return None
    # NumPy's bfloat16 is none of torch's; bytes are everybody's.
    tensor = torch.from_numpy(memory.view(np.uint8)).view(getattr(torch, dtype.name))
    return partial(methods[rounding], tensor)


def onnx_runtime(dtype: DType, rounding: Rounding, memory: Elements) -> Callable[[], object] | None:
    # Its CPU has no bfloat16.
    if rounding is not EVEN or dtype.name not in ONNX_TYPES:
        return None
    return onnx_node("Round", memory, np.empty_like(memory))


def onnx_node(
    op_type: str,
    operands: Elements,
    results: Elements,
    *,
    threads: int = 0,
    constants: Mapping[str, Elements] = MappingProxyType({}),
    **attributes: object,
) -> Callable[[], object]:
    """Runs one node of ONNX Runtime, which has no thread but its caller's with ``threads=1``.

    ``constants`` are its further inputs.
    """
    import onnxruntime
    from onnx import helper, numpy_helper

    memories = {"x": operands, "y": results}
    numbers = {end: NUMBERS[memory.dtype.name] for end, memory in memories.items()}
    values = [
        helper.make_tensor_value_info(end, number, memories[end].shape)
        for end, number in numbers.items()
    ]
    node = helper.make_node(op_type, ["x", *constants], ["y"], **attributes)
    tensors = [numpy_helper.from_array(np.asarray(c), name) for name, c in constants.items()]
    graph = helper.make_graph([node], "node", values[:1], values[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    for bind, (end, memory) in zip(
        (binding.bind_input, binding.bind_output), memories.items(), strict=True
    ):
        bind(end, "cpu", 0, numbers[end], memory.shape, memory.ctypes.data)

    def run(_kept: object = memories) -> None:
        session.run_with_iobinding(binding)

    return run


ONNX_TYPES = ("float16", "float32", "float64")
