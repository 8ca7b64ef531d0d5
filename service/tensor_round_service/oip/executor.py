"""Execution of planned inferences: reads the input, rounds, and writes the output."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeGuard

from tensor_round.contract.call import Call
from tensor_round.contract.errors import InvalidDescriptor, NotOffered
from tensor_round.contract.layout import Layout
from tensor_round.contract.progress import Pause, no_pause
from tensor_round.contract.quoting import shown

from ..backends import Bytes, in_place
from ..codec import jsontensor, nesting
from ..engine.engine import INLINE_BYTES, JSON_COST, Engine
from ..engine.job import Job
from ..net.bodies import Parts
from . import infer_json
from .cuda_memory import CudaSharedMemory
from .plan import CACHED_HEADER_BYTES, SYSTEM_MEMORY_OFF, InferencePlan, carried_shape
from .posix_memory import PosixPart, PosixSharedMemory
from .regions import check_aliasing

#: Size of a piece: half of a common second-level cache. With smaller pieces, threads contend for
#: the GIL and for the kernel's lock of the file.
PIECE_BYTES = 512 << 10
#: From this size on a second thread helps. Smaller runs are done before it wakes.
SHARED_BYTES = 4 << 20
#: More threads would not help: the kernel allows one writer of a file at a time, and writing is
#: half of the work.
THREADS = 2
#: Bytes of a tensor that are rounded in the time that writing one number as JSON takes.
NUMBER_COST = 180
#: The place of an input's numbers in a request, for error messages.
_DATA = ("inputs", 0, "data")
#: Processes the bytes from ``start`` to ``end`` on thread 0 or 1: ``(start, end, thread)``.
PieceWork = Callable[[int, int, int], None]


class InferenceExecutor:
    """Executes plans on an engine, with inputs and outputs in buffers or in shared memory."""

    def __init__(
        self,
        engine: Engine,
        shared_memory: PosixSharedMemory | str,
        cuda_memory: CudaSharedMemory | str = "",
    ) -> None:
        self._engine = engine
        self._shared_memory = None if isinstance(shared_memory, str) else shared_memory
        self._cuda_memory = None if isinstance(cuda_memory, str) else cuda_memory
        #: Whether the service offers shared memory of any kind.
        self.has_shared_memory = bool(self._shared_memory or self._cuda_memory)

    def buffer_bytes(self, plan: InferencePlan) -> int:
        """Host memory that :meth:`run` needs for buffers, without that for JSON, in bytes."""
        call, target = plan.call, plan.output.region
        result_bytes = 0 if call.is_in_place else call.output.byte_length
        match plan.source:
            case infer_json.Inline():
                return result_bytes
            case infer_json.Region() if self._is_on_device(plan.source) and self._is_on_device(
                target
            ):
                return 0
            case infer_json.Region() if target is not None and self._is_by_pieces(plan):
                return sum(map(sum, _buffers(call)))
        return call.nbytes

    def payload_bytes(self, plan: InferencePlan) -> int:
        """The number of payload bytes whose processing takes as long as :meth:`run`."""
        if plan.uses_regions and (
            self._is_on_device(plan.source) or self._is_on_device(plan.output.region)
        ):
            return INLINE_BYTES + plan.call.nbytes  # the event loop must not wait for a device
        read = plan.header_length * JSON_COST if isinstance(plan.source, infer_json.Inline) else 0
        written = plan.numbers * NUMBER_COST if plan.returns_json_data else 0
        return plan.call.input.byte_length + read + written

    def run(
        self, plan: InferencePlan, received: Bytes | None, job: Job, pause: Pause = no_pause
    ) -> Parts:
        """Execute a plan; return the output: its bytes or its numbers as JSON, none for a region.

        ``received`` is the tensor after the request's header, if there is one. ``pause`` is called
        between pieces of JSON.
        """
        if plan.output.region is None:
            rounded = self._rounded(plan, received, job, pause)
            if plan.output.binary:
                return [rounded.data]
            tokens = not plan.strict_json
            return jsontensor.write(
                rounded.data,
                plan.output_carrier,
                (plan.numbers,),
                nan_tokens=tokens,
                pause=pause,
            )
        if self._is_on_device(plan.output.region):
            self._round_on_device(plan, received, job, pause)
        else:
            with self._posix_part(plan.output.region, plan.call.output) as target:
                self._round_into(target, plan, received, job, pause)
        return []

    def _round_into(
        self,
        target: PosixPart,
        plan: InferencePlan,
        received: Bytes | None,
        job: Job,
        pause: Pause,
    ) -> None:
        """Round into POSIX shared memory."""
        if not self._is_posix(plan.source):
            self._write(target, self._rounded(plan, received, job, pause))
            return
        with self._posix_part(plan.source, plan.call.input) as source:
            check_aliasing(source.range, target.range)
            if self._is_by_pieces(plan):
                self._round_by_pieces(plan.call, source, target, job)
                return
            memory = self._read(source, job)
        self._write(target, self._engine.round(plan.call, memory, job))

    def _round_by_pieces(self, call: Call, source: PosixPart, target: PosixPart, job: Job) -> None:
        """Round from shared memory to shared memory, through one small buffer a thread."""
        operands, results = ([*map(job.allocate, sizes)] for sizes in _buffers(call))

        def work(start: int, end: int, thread: int) -> None:
            piece = operands[thread][: end - start]
            source.read(start, piece)
            part = call.flat(piece.size, start)
            if part.is_in_place:
                result = in_place(part, piece)
            else:
                result = results[thread][: part.output.byte_length]
            target.write(call.result_bytes(start), self._engine.round(part, piece, job, result))

        self._for_each_piece(source.nbytes, work)

    def _rounded(
        self, plan: InferencePlan, received: Bytes | None, job: Job, pause: Pause
    ) -> Bytes:
        """The output in a buffer of the job."""
        call = plan.call
        if received is not None:
            return self._engine.round(call, received, job)
        if not (self._is_posix(plan.source) and self._is_by_pieces(plan) and call.keeps_width):
            return self._engine.round(call, self._input(plan, job, pause), job)
        memory = job.allocate(call.input.byte_length)
        with self._posix_part(plan.source, plan.call.input) as source:

            def work(start: int, end: int, _thread: int) -> None:
                piece = memory[start:end]
                source.read(start, piece)
                self._engine.round(call.flat(piece.size, start), piece, job, piece)

            self._for_each_piece(source.nbytes, work)
        return memory

    def _input(self, plan: InferencePlan, job: Job, pause: Pause) -> Bytes:
        """The input from JSON or shared memory, in a buffer of the job."""
        if isinstance(plan.source, infer_json.Inline):
            memory = job.allocate(plan.call.input.byte_length)
            data, carrier = plan.source.data, plan.carrier
            shape = carried_shape(plan.call.input)
            is_kept = plan.header_length <= CACHED_HEADER_BYTES
            with nullcontext() if is_kept else nesting.freed(data):
                memory.data[:] = jsontensor.read(
                    data, carrier, shape, any_nesting=True, loc=_DATA, pause=pause
                )
            return memory
        assert isinstance(plan.source, infer_json.Region)
        if self._is_on_device(plan.source):
            assert self._cuda_memory is not None
            memory = job.allocate(plan.call.input.byte_length)
            part = self._cuda_memory.part(plan.source, memory.size)
            self._engine.device_memory.download(part.device, part.buffer, memory)
            return memory
        with self._posix_part(plan.source, plan.call.input) as source:
            return self._read(source, job)

    def _read(self, source: PosixPart, job: Job) -> Bytes:
        memory = job.allocate(source.nbytes)
        self._for_each_piece(source.nbytes, lambda at, end, _: source.read(at, memory[at:end]))
        return memory

    def _write(self, target: PosixPart, memory: Bytes) -> None:
        self._for_each_piece(target.nbytes, lambda at, end, _: target.write(at, memory[at:end]))

    def _for_each_piece(self, nbytes: int, work: PieceWork) -> None:
        for_each_piece(nbytes, work, self._engine.submit)

    def _is_by_pieces(self, plan: InferencePlan) -> bool:
        """Whether the CPU rounds the tensor; a device rounds it in one call."""
        return plan.call.nbytes <= self._engine.backend.inline_bytes

    def _is_posix(self, source: infer_json.Source) -> TypeGuard[infer_json.Region]:
        return isinstance(source, infer_json.Region) and not self._is_on_device(source)

    def _is_on_device(self, source: infer_json.Source | None) -> bool:
        return (
            self._cuda_memory is not None
            and isinstance(source, infer_json.Region)
            and self._cuda_memory.has(source.name)
        )

    def _round_on_device(
        self, plan: InferencePlan, received: Bytes | None, job: Job, pause: Pause
    ) -> None:
        """Round into CUDA shared memory; an input in host memory is uploaded into it first."""
        assert self._cuda_memory is not None
        assert plan.output.region is not None
        call = plan.call
        target = self._cuda_memory.part(plan.output.region, call.output.byte_length)
        if isinstance(plan.source, infer_json.Region) and self._is_on_device(plan.source):
            source = self._cuda_memory.part(plan.source, call.input.byte_length)
        else:
            memory = self._input(plan, job, pause) if received is None else received
            if not call.keeps_width:
                result = self._engine.round(call, memory, job)
                self._engine.device_memory.upload(target.device, result, target.buffer)
                return
            self._engine.device_memory.upload(target.device, memory, target.buffer)
            source = target
        if source.device != target.device:
            raise InvalidDescriptor("the output's memory must be on the input's device")
        check_aliasing(source.range, target.range)
        self._engine.round_resident(target.device, plan.call, source.buffer, target.buffer, job)

    def _posix_part(self, region: infer_json.Region, layout: Layout) -> PosixPart:
        if self._shared_memory is None:
            name = shown(region.name)
            raise NotOffered(
                f"there is no CUDA shared memory region {name}, and {SYSTEM_MEMORY_OFF}"
            )
        return self._shared_memory.part(region, layout.byte_length)


def threads_for(nbytes: int) -> int:
    """The number of threads for a run of ``nbytes`` bytes."""
    return THREADS if nbytes >= SHARED_BYTES else 1


def _buffers(call: Call) -> tuple[list[int], list[int]]:
    """The sizes of the buffers for a piece's operands, and for its results if they need others."""
    operands = buffers_for(call.input.byte_length)
    return operands, [] if call.is_in_place else [*map(call.result_bytes, operands)]


def buffers_for(nbytes: int) -> list[int]:
    """The sizes of the buffers for one piece on each thread."""
    return [min(nbytes, PIECE_BYTES)] * threads_for(nbytes)


def for_each_piece(
    nbytes: int, work: PieceWork, submit: Callable[[Callable[[], None]], None]
) -> None:
    """Call ``work`` for each piece of a run, in any order, until it raises.

    ``submit`` runs a function on another thread, which may be late or never. So the caller may
    itself be on a thread of the same pool. On return no thread works on the run any more.
    """
    if nbytes <= PIECE_BYTES:
        work(0, nbytes, 0)
        return
    starts = deque(range(0, nbytes, PIECE_BYTES))
    helping, failures = threading.Lock(), list[Exception]()

    def process(thread: int) -> None:
        while True:
            try:
                start = starts.popleft()
            except IndexError:
                return
            work(start, min(start + PIECE_BYTES, nbytes), thread)

    def help() -> None:
        with helping:
            try:
                process(1)
            except Exception as error:  # raised below
                failures.append(error)
                starts.clear()

    if threads_for(nbytes) > 1:
        submit(help)
    try:
        process(0)
    finally:
        # A late helper finds no piece. Wait for one at work: it writes into the caller's memory.
        starts.clear()
        with helping:
            pass
    if failures:
        raise failures[0]
