"""What a planned inference costs, and its doing: numbers from where they are to where they go.

No HTTP here: a route brings the bytes that came with the request, and sends the parts.
"""

from __future__ import annotations

from typing import TypeGuard

from tensor_round.call import RoundCall
from tensor_round.errors import InvalidDescriptor, NotOffered
from tensor_round.quoting import shown
from tensor_round.wire import jsontensor, oip

from ..backends import Bytes
from ..engine.engine import INLINE_BYTES, JSON_WEIGHT, Engine
from ..engine.job import Job
from ..engine.overlap import flat_call
from .pieces import Work, buffers_for, in_pieces
from .plan import SYSTEM_MEMORY_OFF, Plan
from .shared.cuda import CudaSharedMemory
from .shared.posix import Part, SharedMemory


class InferenceWork:
    """Does what plans say, on an engine, in buffers or in shared memory where there is any."""

    def __init__(
        self,
        engine: Engine,
        shared_memory: SharedMemory | None,
        cuda_memory: CudaSharedMemory | None = None,
    ) -> None:
        self._engine = engine
        self._shared_memory = shared_memory
        self._cuda_memory = cuda_memory

    @property
    def has_shared_memory(self) -> bool:
        """Whether there is any kind of it."""
        return self._shared_memory is not None or self._cuda_memory is not None

    def buffer_bytes(self, plan: Plan) -> int:
        """The memory of its buffers, on this host; that of numbers in JSON goes with their text."""
        nbytes, target = plan.call.input.byte_length, plan.output.region
        match plan.source:
            case oip.Inline():
                return 0
            case oip.Region() if self._is_on_device(plan.source) and self._is_on_device(target):
                return 0
            case oip.Region() if target is not None and self._is_by_pieces(plan):
                return sum(buffers_for(nbytes))
        return nbytes

    def payload_bytes(self, plan: Plan, json_length: int) -> int:
        """The bytes of payload that would take as long."""
        if plan.uses_regions and (
            self._is_on_device(plan.source) or self._is_on_device(plan.output.region)
        ):
            return INLINE_BYTES + plan.call.nbytes  # the event loop waits for no device
        read = json_length * JSON_WEIGHT if isinstance(plan.source, oip.Inline) else 0
        return plan.call.input.byte_length + plan.text_bytes + read

    def run(self, plan: Plan, received: Bytes | None, job: Job) -> list[bytes | memoryview]:
        """The parts of the answer: a head, and the output's bytes if they go with it.

        ``received`` are the bytes that followed the request's head, if any did.
        """
        if plan.output.region is None:
            rounded = self._rounded(plan, received, job)
            if plan.output.binary:
                return [plan.bare_head, rounded.data]
            flat = (plan.call.output.element_count,)
            tokens = not plan.strict_json
            numbers = jsontensor.write(rounded.data, plan.carrier, flat, nan_tokens=tokens)
            return [plan.full_head(numbers)]
        if self._is_on_device(plan.output.region):
            self._round_on_device(plan, received, job)
        else:
            with self._part(plan.output.region, plan) as target:
                self._round_into(target, plan, received, job)
        return [plan.bare_head]

    def _round_into(self, target: Part, plan: Plan, received: Bytes | None, job: Job) -> None:
        """Round into a client's object."""
        if not self._is_in_object(plan.source):
            self._write(target, self._rounded(plan, received, job))
            return
        with self._part(plan.source, plan) as source:
            if source.overlaps(target) and not source.lies_on(target):
                raise InvalidDescriptor("the output's memory must be the input's, or none of it")
            if self._is_by_pieces(plan):
                self._round_by_pieces(plan.call, source, target, job)
                return
            memory = self._read(source, job)
        self._write(target, self._engine.round(plan.call, memory, job))

    def _round_by_pieces(self, call: RoundCall, source: Part, target: Part, job: Job) -> None:
        """From one place to another, or in place, through a cache's worth of memory a thread."""
        buffers = [job.allocate(nbytes) for nbytes in buffers_for(source.nbytes)]

        def work(start: int, end: int, thread: int) -> None:
            piece = buffers[thread][: end - start]
            source.read(start, piece)
            self._round_piece(call, piece, job)
            target.write(start, piece)

        self._in_pieces(source.nbytes, work)

    def _round_piece(self, call: RoundCall, piece: Bytes, job: Job) -> None:
        flat = flat_call(call.input.dtype, call.rounding, piece.size)
        self._engine.round(flat, piece, job, piece)

    def _rounded(self, plan: Plan, received: Bytes | None, job: Job) -> Bytes:
        """The output, in memory of the service's own."""
        if received is not None:
            return self._engine.round(plan.call, received, job)
        if not (self._is_in_object(plan.source) and self._is_by_pieces(plan)):
            return self._engine.round(plan.call, self._numbers(plan, job), job)
        call, memory = plan.call, job.allocate(plan.call.input.byte_length)
        with self._part(plan.source, plan) as source:

            def work(start: int, end: int, _thread: int) -> None:
                piece = memory[start:end]
                source.read(start, piece)
                self._round_piece(call, piece, job)

            self._in_pieces(source.nbytes, work)
        return memory

    def _numbers(self, plan: Plan, job: Job) -> Bytes:
        """The input that did not follow its JSON, in memory of the service's own."""
        if isinstance(plan.source, oip.Inline):
            return _written(plan, plan.source.data, job)
        assert isinstance(plan.source, oip.Region)
        if self._is_on_device(plan.source):
            assert self._cuda_memory is not None
            fetched = job.allocate(plan.call.input.byte_length)
            place = self._cuda_memory.place(plan.source, fetched.size)
            self._cuda_memory.download(place, fetched)
            return fetched
        with self._part(plan.source, plan) as source:
            return self._read(source, job)

    def _read(self, source: Part, job: Job) -> Bytes:
        memory = job.allocate(source.nbytes)
        self._in_pieces(source.nbytes, lambda at, end, _: source.read(at, memory[at:end]))
        return memory

    def _write(self, target: Part, memory: Bytes) -> None:
        self._in_pieces(target.nbytes, lambda at, end, _: target.write(at, memory[at:end]))

    def _in_pieces(self, nbytes: int, work: Work) -> None:
        in_pieces(nbytes, work, self._engine.have_done)

    def _is_by_pieces(self, plan: Plan) -> bool:
        """Whether a tensor may be rounded so: a device would have it whole."""
        return plan.call.nbytes <= self._engine.backend.inline_bytes

    def _is_in_object(self, source: oip.Source) -> TypeGuard[oip.Region]:
        return isinstance(source, oip.Region) and not self._is_on_device(source)

    def _is_on_device(self, source: oip.Source | None) -> bool:
        return (
            self._cuda_memory is not None
            and isinstance(source, oip.Region)
            and self._cuda_memory.has(source.name)
        )

    def _round_on_device(self, plan: Plan, received: Bytes | None, job: Job) -> None:
        """Round where the output's region is; a host's numbers are brought there first."""
        assert self._cuda_memory is not None
        assert plan.output.region is not None
        nbytes = plan.call.input.byte_length
        target = self._cuda_memory.place(plan.output.region, nbytes)
        if not (isinstance(plan.source, oip.Region) and self._is_on_device(plan.source)):
            memory = self._numbers(plan, job) if received is None else received
            self._cuda_memory.upload(memory, target)
            source = target
        else:
            source = self._cuda_memory.place(plan.source, nbytes)
        if source.device != target.device:
            raise InvalidDescriptor("the output's memory must be on the input's device")
        if source.overlaps(target) and not source.lies_on(target):
            raise InvalidDescriptor("the output's memory must be the input's, or none of it")
        self._engine.round_resident(target.device, plan.call, source.span, target.span, job)

    def _part(self, region: oip.Region, plan: Plan) -> Part:
        if self._shared_memory is None:
            name = shown(region.name)
            raise NotOffered(
                f"there is no CUDA shared memory region {name}, and {SYSTEM_MEMORY_OFF}"
            )
        return self._shared_memory.part(region, plan.call.input.byte_length)


def _written(plan: Plan, data: object, job: Job) -> Bytes:
    memory = job.allocate(plan.call.input.byte_length)
    memory.data[:] = jsontensor.read(
        data,
        plan.carrier,
        plan.call.input.shape,
        any_nesting=True,
        loc=("inputs", 0, "data"),
    )
    return memory
