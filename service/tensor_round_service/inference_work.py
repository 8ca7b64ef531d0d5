"""What a planned inference costs, and its doing: numbers from where they are to where they go.

No HTTP here: a route brings the bytes that came with the request, and sends the parts.
"""

from __future__ import annotations

from tensor_round.errors import InvalidDescriptor, TensorTooLarge
from tensor_round.layout import check_size
from tensor_round.wire import jsontensor, oip

from .backends import Bytes
from .buffers import Lease
from .engine import JSON_WEIGHT, Engine
from .inference import Plan
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


def text_bytes(plan: Plan, json_length: int) -> int:
    """The memory of its text, in and out, with what else there is of it meanwhile."""
    numbers = plan.call.output.element_count if plan.answers_in_text else 0
    return json_length * JSON_WEIGHT + numbers * NUMBER_BYTES


def payload_bytes(plan: Plan, json_length: int) -> int:
    """The bytes of payload that would take as long."""
    read = 0 if isinstance(plan.source, oip.Inline) else json_length * JSON_WEIGHT
    return plan.call.input.byte_length + text_bytes(plan, json_length) - read


class InferenceWork:
    """Does what plans say, on an engine, in buffers or in shared memory where there is any."""

    def __init__(self, engine: Engine, shared_memory: SharedMemory | None) -> None:
        self._engine = engine
        self._shared_memory = shared_memory

    def run(self, plan: Plan, received: Bytes | None, lease: Lease) -> list[bytes | memoryview]:
        """The parts of the answer: a head, and the output's bytes if they go with it.

        ``received`` are the bytes that followed the request's head, if any did.
        """
        source, target = self._memory(plan, received, lease)
        rounded = self._engine.round(plan.call, source, lease, target)
        if plan.output.region is not None:
            return [plan.bare_head]
        if plan.output.binary:
            return [plan.bare_head, rounded.data]
        flat = (plan.call.output.element_count,)
        numbers = jsontensor.write(rounded.data, plan.carrier, flat, nan_tokens=True)
        return [plan.full_head(numbers)]

    def _memory(
        self, plan: Plan, received: Bytes | None, lease: Lease
    ) -> tuple[Bytes, Bytes | None]:
        """Where the numbers are, and where they shall go if that is given."""
        region = None
        match plan.source:
            case oip.Region():
                region = self._span(plan.source, plan)
                source = region.memory
            case oip.Inline(data):
                source = _written(plan, data, lease)
            case oip.Binary():
                assert received is not None
                source = received
        if plan.output.region is None:
            # A client's input is not ours to write in.
            return source, None if region is None else lease.take(source.size)
        target = self._span(plan.output.region, plan)
        if region is None or not target.overlaps(region):
            return source, target.memory
        if not target.lies_on(region):
            raise InvalidDescriptor("the output's memory must be the input's, or none of it")
        return source, source

    def _span(self, region: oip.Region, plan: Plan) -> Span:
        assert self._shared_memory is not None
        return self._shared_memory.span(region, plan.call.input.byte_length)


def _written(plan: Plan, data: object, lease: Lease) -> Bytes:
    memory = lease.take(plan.call.input.byte_length)
    memory.data[:] = jsontensor.read(
        data,
        plan.carrier,
        plan.call.input.shape,
        any_nesting=True,
        loc=("inputs", 0, "data"),
    )
    return memory
