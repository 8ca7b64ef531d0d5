"""Execution of planned inferences: reads the input, rounds, and writes the output."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, TypeGuard

from tensor_round.contract.call import Call
from tensor_round.contract.errors import InvalidDescriptor, NotOffered, PayloadSizeMismatch
from tensor_round.contract.progress import Pause, no_pause
from tensor_round.contract.quoting import shown

from ..backends import Bytes, in_place
from ..codec import jsontensor, nesting
from ..engine.engine import INLINE_BYTES, JSON_COST, Engine
from ..engine.job import Job
from ..net.bodies import Parts
from . import infer_json
from .cuda_memory import CudaSharedMemory
from .plan import (
    CACHED_HEADER_BYTES,
    SYSTEM_MEMORY_OFF,
    InferencePlan,
    PlannedInput,
)
from .posix_memory import PosixPart, PosixSharedMemory
from .regions import ByteRange, check_aliasing

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
        if plan.is_inline:
            return 0 if call.is_in_place else call.output.byte_length
        match plan.operand:
            case infer_json.Region() if self._is_resident(plan):
                return 0
            case infer_json.Region() if target is not None and self._is_by_pieces(plan):
                return sum(map(sum, _buffers(call)))
        return call.nbytes

    def payload_bytes(self, plan: InferencePlan) -> int:
        """The number of payload bytes whose processing takes as long as :meth:`run`."""
        if plan.regions and any(map(self._is_on_device, plan.regions)):
            return INLINE_BYTES + plan.call.nbytes  # the event loop must not wait for a device
        read = plan.header_length * JSON_COST if plan.reads_json_data else 0
        written = plan.numbers * NUMBER_COST if plan.returns_json_data else 0
        return plan.call.input.byte_length + read + written

    def run(
        self, plan: InferencePlan, received: Bytes | None, job: Job, pause: Pause = no_pause
    ) -> Parts:
        """Execute a plan; return the output: its bytes or its numbers as JSON, none for a region.

        ``received`` has the tensors after the request's header, if there are some, and room for the
        others. ``pause`` is called between pieces of JSON.
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
            with self._posix_part(plan.output.region, plan.call.output.byte_length) as target:
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
        source = plan.operand
        if not (self._is_posix(source) and self._is_by_pieces(plan)):
            memory = self._payload(plan, received, job, pause, target.range)
            self._write(target, self._engine.round(plan.call, memory, job))
            return
        with self._posix_part(source, plan.call.input.byte_length) as part:
            check_aliasing(part.range, target.range)
            self._round_by_pieces(plan.call, part, target, job)

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
        call, operand = plan.call, plan.operand
        if received is not None and not plan.parts:
            return self._engine.round(call, received, job)
        if not (self._is_posix(operand) and self._is_by_pieces(plan) and call.keeps_width):
            return self._engine.round(call, self._payload(plan, received, job, pause), job)
        memory = job.allocate(call.input.byte_length)
        with self._posix_part(operand, memory.size) as source:

            def work(start: int, end: int, _thread: int) -> None:
                piece = memory[start:end]
                source.read(start, piece)
                self._engine.round(call.flat(piece.size, start), piece, job, piece)

            self._for_each_piece(source.nbytes, work)
        return memory

    def _payload(
        self,
        plan: InferencePlan,
        received: Bytes | None,
        job: Job,
        pause: Pause,
        target: ByteRange | None = None,
    ) -> Bytes:
        """The inputs behind each other: what was received, and what JSON and regions have.

        The results go to ``target``, if they go to shared memory.
        """
        memory = job.allocate(plan.call.payload_bytes) if received is None else received
        self._fill(memory, plan, plan.inputs, pause, target)
        return memory

    def _fill(
        self,
        memory: Bytes,
        plan: InferencePlan,
        inputs: Sequence[PlannedInput],
        pause: Pause,
        target: ByteRange | None,
    ) -> None:
        """Read those of these inputs that were not received to their places in a payload."""
        for given in inputs:
            part = memory[given.part]
            match given.source:
                case infer_json.Inline(data):
                    is_kept = plan.header_length <= CACHED_HEADER_BYTES
                    with nullcontext() if is_kept else nesting.freed(data):
                        part.data[:] = _numbers(plan, given, data, pause)
                case infer_json.Region() as region if self._is_on_device(region):
                    assert self._cuda_memory is not None
                    found = self._cuda_memory.part(region, part.size)
                    _check_apart(found.range, target)
                    self._engine.device_memory.download(found.device, found.buffer, part)
                case infer_json.Region() as region:
                    with self._posix_part(region, part.size) as source:
                        _check_apart(source.range, target)
                        self._read(source, part)

    def _read(self, source: PosixPart, memory: Bytes) -> None:
        self._for_each_piece(source.nbytes, lambda at, end, _: source.read(at, memory[at:end]))

    def _write(self, target: PosixPart, memory: Bytes) -> None:
        self._for_each_piece(target.nbytes, lambda at, end, _: target.write(at, memory[at:end]))

    def _for_each_piece(self, nbytes: int, work: PieceWork) -> None:
        for_each_piece(nbytes, work, self._engine.submit)

    def _is_by_pieces(self, plan: InferencePlan) -> bool:
        """Whether the CPU rounds the tensor; a device rounds it in one call."""
        return plan.call.parameters is None and (
            plan.call.nbytes <= self._engine.backend.inline_bytes
        )

    def _is_posix(self, source: infer_json.Source | None) -> TypeGuard[infer_json.Region]:
        return isinstance(source, infer_json.Region) and not self._is_on_device(source)

    def _is_on_device(self, source: infer_json.Source | None) -> bool:
        return (
            self._cuda_memory is not None
            and isinstance(source, infer_json.Region)
            and self._cuda_memory.has(source.name)
        )

    def _is_resident(self, plan: InferencePlan) -> bool:
        """Whether a device alone computes; of calls with parameters, the host does some."""
        return (
            plan.call.parameters is None
            and self._is_on_device(plan.operand)
            and self._is_on_device(plan.output.region)
        )

    def _round_on_device(
        self, plan: InferencePlan, received: Bytes | None, job: Job, pause: Pause
    ) -> None:
        """Round into CUDA shared memory; an operand in host memory is uploaded into it first.

        Where devices have no kernel, the host computes.
        """
        assert self._cuda_memory is not None
        assert plan.output.region is not None
        call, device, inputs = plan.call, self._engine.device_memory, plan.inputs
        target = self._cuda_memory.part(plan.output.region, call.output.byte_length)
        memory = received
        if memory is None:
            memory = job.allocate(0 if self._is_resident(plan) else call.payload_bytes)
        operand = inputs[0].source
        if isinstance(operand, infer_json.Region) and self._is_on_device(operand):
            given = memory[call.input.byte_length :]
            self._fill(memory, plan, inputs[1:], pause, target.range)
            if device.can_run_resident(call, given):
                source = self._cuda_memory.part(operand, call.input.byte_length)
                if source.device != target.device:
                    raise InvalidDescriptor("the output's memory must be on the input's device")
                check_aliasing(source.range, target.range)
                places = source.buffer, target.buffer
                self._engine.round_resident(target.device, call, *places, given, job)
                return
            inputs = inputs[:1]
        self._fill(memory, plan, inputs, pause, target.range)
        if call.keeps_width and call.parameters is None:
            device.upload(target.device, memory, target.buffer)
            places = target.buffer, target.buffer
            self._engine.round_resident(target.device, call, *places, memory[:0], job)
        else:
            result = self._engine.round(call, memory, job)
            device.upload(target.device, result, target.buffer)

    def _posix_part(self, region: infer_json.Region, nbytes: int) -> PosixPart:
        if self._shared_memory is None:
            name = shown(region.name)
            raise NotOffered(
                f"there is no CUDA shared memory region {name}, and {SYSTEM_MEMORY_OFF}"
            )
        return self._shared_memory.part(region, nbytes)


def _check_apart(source: ByteRange, target: ByteRange | None) -> None:
    if target is not None:
        check_aliasing(source, target)


def _numbers(plan: InferencePlan, given: PlannedInput, data: Any, pause: Pause) -> memoryview:
    """The bytes of an input's numbers in JSON; refusals name the input."""
    loc = ("inputs", given.position, "data")
    try:
        return jsontensor.read(
            data, given.carrier, given.shape, any_nesting=True, loc=loc, pause=pause
        )
    except PayloadSizeMismatch as refusal:
        if len(plan.inputs) > 1:
            refusal.restate(f"input {given.name}: {refusal.detail}")
        raise


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
