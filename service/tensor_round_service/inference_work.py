"""What a planned inference costs, and its doing: numbers from where they are to where they go.

No HTTP here: a route brings the bytes that came with the request, and sends the parts.
"""

from __future__ import annotations

from tensor_round.echo import shown
from tensor_round.errors import InvalidDescriptor, NotOffered, TensorTooLarge
from tensor_round.layout import check_size
from tensor_round.wire import jsontensor, oip

from .backends import Bytes
from .cuda_shared_memory import CudaSharedMemory
from .engine import INLINE_BYTES, JSON_WEIGHT, Engine
from .inference import SYSTEM_MEMORY_OFF, Plan
from .job import Job
from .shared_memory import SharedMemory, Span

#: Bytes that a number in JSON takes, with what else there is of it meanwhile.
NUMBER_BYTES = 32
#: As many numbers go out in JSON as can come in; larger tensors are for binary data.
MAX_JSON_NUMBERS = 8 << 20


def check_sizes(plan: Plan, limit_bytes: int) -> None:
    """Refuse a tensor over the limit, or over JSON's, with :class:`TensorTooLarge`."""
    check_size(plan.call.input, limit_bytes, "input")
    count = plan.call.output.element_count
    if plan.answers_in_text and count > MAX_JSON_NUMBERS:
        raise TensorTooLarge(
            f"the output has {count} elements, at most {MAX_JSON_NUMBERS} go out in JSON; "
            "ask for binary data",
            limit_bytes=MAX_JSON_NUMBERS * plan.carrier.itemsize,
            got_bytes=plan.call.output.byte_length,
        )


def buffer_bytes(plan: Plan) -> int:
    """The memory of its buffers; that of numbers in JSON is counted with their text."""
    match plan.source:
        case oip.Binary():
            return plan.call.nbytes
        case oip.Region() if plan.output.region is None:
            return plan.call.output.byte_length
    return 0


def output_text_bytes(plan: Plan) -> int:
    """The memory of numbers that go out in JSON, with what else there is of them meanwhile."""
    return plan.call.output.element_count * NUMBER_BYTES if plan.answers_in_text else 0


def payload_bytes(plan: Plan, json_length: int) -> int:
    """The bytes of payload that would take as long."""
    read = 0 if isinstance(plan.source, oip.Inline) else json_length * JSON_WEIGHT
    text = json_length * JSON_WEIGHT + output_text_bytes(plan)
    return plan.call.input.byte_length + text - read


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
        """The memory of its buffers, on this host."""
        fetched = self._is_on_device(plan.source) and not self._is_on_device(plan.output.region)
        return plan.call.nbytes if fetched else buffer_bytes(plan)

    def payload_bytes(self, plan: Plan, json_length: int) -> int:
        """The bytes of payload that would take as long."""
        if self._is_on_device(plan.source) or self._is_on_device(plan.output.region):
            return INLINE_BYTES + plan.call.nbytes  # the event loop waits for no device
        return payload_bytes(plan, json_length)

    def run(self, plan: Plan, received: Bytes | None, job: Job) -> list[bytes | memoryview]:
        """The parts of the answer: a head, and the output's bytes if they go with it.

        ``received`` are the bytes that followed the request's head, if any did.
        """
        if self._is_on_device(plan.output.region):
            self._round_on_device(plan, received, job)
            return [plan.bare_head]
        source, target = self._memory(plan, received, job)
        rounded = self._engine.round(plan.call, source, job, target)
        if plan.output.region is not None:
            return [plan.bare_head]
        if plan.output.binary:
            return [plan.bare_head, rounded.data]
        flat = (plan.call.output.element_count,)
        numbers = jsontensor.write(rounded.data, plan.carrier, flat, nan_tokens=True)
        return [plan.full_head(numbers)]

    def _memory(self, plan: Plan, received: Bytes | None, job: Job) -> tuple[Bytes, Bytes | None]:
        """Where the numbers are, and where they shall go if that is given."""
        source, region = self._source(plan, received, job)
        if plan.output.region is None:
            # A client's input is not ours to write in.
            return source, None if region is None else job.allocate(source.size)
        target = self._span(plan.output.region, plan)
        if region is None or not target.overlaps(region):
            return source, target.memory
        if not target.lies_on(region):
            raise InvalidDescriptor("the output's memory must be the input's, or none of it")
        return source, source

    def _source(self, plan: Plan, received: Bytes | None, job: Job) -> tuple[Bytes, Span | None]:
        """Where the host has the numbers, and the region if they are in one."""
        match plan.source:
            case oip.Region() if self._is_on_device(plan.source):
                assert self._cuda_memory is not None
                fetched = job.allocate(plan.call.input.byte_length)
                place = self._cuda_memory.place(plan.source, fetched.size)
                self._cuda_memory.download(place, fetched)
                return fetched, None
            case oip.Region():
                region = self._span(plan.source, plan)
                return region.memory, region
            case oip.Inline(data):
                return _written(plan, data, job), None
            case oip.Binary():
                assert received is not None
                return received, None

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
            memory, _ = self._source(plan, received, job)
            self._cuda_memory.upload(memory, target)
            source = target
        else:
            source = self._cuda_memory.place(plan.source, nbytes)
        if source.device != target.device:
            raise InvalidDescriptor("the output's memory must be on the input's device")
        if source.overlaps(target) and not source.lies_on(target):
            raise InvalidDescriptor("the output's memory must be the input's, or none of it")
        self._engine.round_resident(target.device, plan.call, source.span, target.span, job)

    def _span(self, region: oip.Region, plan: Plan) -> Span:
        if self._shared_memory is None:
            name = shown(region.name)
            raise NotOffered(
                f"there is no CUDA shared memory region {name}, and {SYSTEM_MEMORY_OFF}"
            )
        return self._shared_memory.span(region, plan.call.input.byte_length)


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
