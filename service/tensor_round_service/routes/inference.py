"""``POST /v2/models/{name}/infer``: the Open Inference Protocol's inference.

Plain ASGI, and the same way as ``POST /round``: the tensor's bytes go from the socket
into one buffer, are rounded there, and go out from it. Before them comes a head in
JSON, which may have the numbers in it instead, or name shared memory that has them.
"""

from __future__ import annotations

from functools import partial
from time import perf_counter_ns

from tensor_round.errors import (
    InvalidDescriptor,
    PayloadSizeMismatch,
    TensorTooLarge,
)
from tensor_round.layout import check_size
from tensor_round.wire import jsontensor, native, oip
from tensor_round.wire.accept import IDENTITY

from ..answers import Answer, error_answer, field_name
from ..backends import Bytes
from ..buffers import Lease
from ..direct import Header
from ..encoding import encode
from ..engine import Engine
from ..inference import Plan, plan_head, plan_raw
from ..models import MODELS, Model, find
from ..receive import Body, Receive
from ..shared_memory import SharedMemory, Span
from ..statistics import Statistics
from .inference_head import HEADER_LENGTH, InferenceHead, inference_head_of
from .round import JSON_WEIGHT
from .tensor_route import Scope, TensorRoute

_EXECUTION_BACKEND = field_name(native.EXECUTION_BACKEND)
_CONTENT_ENCODING = field_name(native.CONTENT_ENCODING)

#: Bytes that a number in JSON takes, with what else there is of it meanwhile.
NUMBER_BYTES = 32
#: As many numbers go out in JSON as can come in; larger tensors are for binary data.
MAX_JSON_NUMBERS = 8 << 20
#: Of a raw tensor whose length nobody said.
MAX_GATHERED_BYTES = 16 << 20
#: Bytes that compressing takes as long for as rounding one.
_ENCODING_WEIGHT = 64
_NOTHING = memoryview(bytearray())


def inference_routes(
    engine: Engine, max_tensor_bytes: int, shared_memory: SharedMemory | None, counts: Statistics
) -> dict[str, TensorRoute]:
    """The endpoint of each model and version, by path."""

    def endpoint(model: Model) -> TensorRoute:
        work = _Inference(engine, max_tensor_bytes, shared_memory, counts, model)
        return TensorRoute(engine, work.answer, error_answer)

    routes = {}
    for model in MODELS:
        routes[f"/v2/models/{model.name}/versions/{model.version}/infer"] = endpoint(model)
        routes[f"/v2/models/{model.name}/infer"] = endpoint(find(model.name))
    return routes


class _Inference:
    def __init__(
        self,
        engine: Engine,
        max_tensor_bytes: int,
        shared_memory: SharedMemory | None,
        counts: Statistics,
        model: Model,
    ) -> None:
        self._engine = engine
        self._limit = max_tensor_bytes
        self._shared_memory = shared_memory
        self._counts = counts
        self._model = model

    async def answer(self, scope: Scope, receive: Receive, lease: Lease) -> Answer:
        """Answer one request, and count it."""
        began = perf_counter_ns()
        try:
            return await self._answer(scope, receive, lease, began)
        except Exception:  # counted, whatever it is, and told elsewhere
            self._counts.failed(self._model, perf_counter_ns() - began)
            raise

    async def _answer(self, scope: Scope, receive: Receive, lease: Lease, began: int) -> Answer:
        head = inference_head_of(scope)
        body = head.body(scope, receive)
        room = self._declared(head)
        await body.admit(lease, room)
        plan = await self._plan(head, body)
        if (needed := self._needed(head, plan)) > room:
            await body.admit(lease, needed)
        received = await _receive(plan, head, body, lease)
        came = perf_counter_ns()
        parts, timing = await self._engine.run(
            partial(self._round, plan, received, lease), _work(plan, head)
        )
        rounded = perf_counter_ns()
        answer = await self._encoded(plan, parts, head.coding, lease.executed_by)
        self._counts.succeeded(
            self._model,
            queue=int(timing.queue * 1e9),
            input=came - began,
            infer=int(timing.execute * 1e9),
            output=perf_counter_ns() - rounded,
        )
        return answer

    def _declared(self, head: InferenceHead) -> int:
        """The memory that a request needs by what its headers say; too large ones are refused."""
        oip.check_head_length(head.json_most)
        nbytes = head.binary_length or 0
        if nbytes > self._limit:
            raise TensorTooLarge(
                f"the body has {nbytes} bytes of binary data, the limit is {self._limit}",
                limit_bytes=self._limit,
                got_bytes=nbytes,
            )
        return self._room(head.content_length or 0, head.json_most * JSON_WEIGHT)

    def _needed(self, head: InferenceHead, plan: Plan) -> int:
        """The memory that a request needs by what it asks for."""
        check_size(plan.call.input, self._limit, "input")
        count = plan.call.output.element_count
        if plan.answers_in_text and count > MAX_JSON_NUMBERS:
            raise TensorTooLarge(
                f"the output has {count} elements, at most {MAX_JSON_NUMBERS} go out in JSON; "
                "ask for binary data",
                limit_bytes=MAX_JSON_NUMBERS * plan.carrier.itemsize,
                got_bytes=plan.call.output.byte_length,
            )
        return self._room(
            _buffer_bytes(plan),
            head.json_most * JSON_WEIGHT + count * NUMBER_BYTES * plan.answers_in_text,
        )

    def _room(self, nbytes: int, text_bytes: int) -> int:
        """What to reserve for so many bytes, and for text as far as there is any room for it."""
        return max(nbytes, min(nbytes + text_bytes, self._engine.budget.most))

    async def _plan(self, head: InferenceHead, body: Body) -> Plan:
        """What the request asks for, by its JSON."""
        if head.json_length == 0:
            length = head.content_length
            if length is None:
                length = await body.gather(MAX_GATHERED_BYTES)
            return plan_raw(self._model, length)
        if head.json_length is None:
            text = await body.read(oip.MAX_HEAD_LENGTH)
        else:
            text = await body.take(head.json_length)
            if len(text) < head.json_length:
                raise PayloadSizeMismatch(
                    f"the body ends after {len(text)} bytes, within its JSON of {head.json_length}"
                )
        plan, _ = await self._engine.run(
            partial(plan_head, self._model, text, self._shared_memory is not None),
            len(text) * JSON_WEIGHT,
        )
        return plan

    def _round(self, plan: Plan, received: Bytes | None, lease: Lease) -> list[bytes | memoryview]:
        """The parts of the answer."""
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
        nbytes = plan.call.input.byte_length
        region = None
        match plan.source:
            case oip.Region():
                region = self._span(plan.source, nbytes)
                source = region.memory
            case oip.Inline(data):
                source = lease.take(nbytes)
                source.data[:] = jsontensor.read(
                    data,
                    plan.carrier,
                    plan.call.input.shape,
                    any_nesting=True,
                    loc=("inputs", 0, "data"),
                )
            case oip.Binary():
                assert received is not None
                source = received
        if plan.output.region is None:
            # A client's input is not ours to write in.
            return source, None if region is None else lease.take(nbytes)
        target = self._span(plan.output.region, nbytes)
        if region is not None and target.lies_on(region):
            return source, source
        if region is not None and target.overlaps(region):
            raise InvalidDescriptor("the output's memory must be the input's, or none of it")
        return source, target.memory

    def _span(self, region: oip.Region, nbytes: int) -> Span:
        assert self._shared_memory is not None
        return self._shared_memory.span(region, nbytes)

    async def _encoded(
        self, plan: Plan, parts: list[bytes | memoryview], coding: str, executed_by: str
    ) -> Answer:
        """The answer, in the Content-Encoding that was asked for."""
        headers: list[Header] = [(_EXECUTION_BACKEND, executed_by.encode())]
        content_type = native.JSON
        if len(parts) > 1:
            content_type = native.OCTET_STREAM
            headers.append((HEADER_LENGTH, str(len(parts[0])).encode()))
        if coding != IDENTITY:
            encoded, _ = await self._engine.run(
                partial(encode, parts, coding), sum(map(len, parts)) * _ENCODING_WEIGHT
            )
            parts = list(encoded)
            headers.append((_CONTENT_ENCODING, coding.encode()))
        return Answer(content_type, parts, headers=headers)


async def _receive(plan: Plan, head: InferenceHead, body: Body, lease: Lease) -> Bytes | None:
    """The rest of the body: the tensor, or nothing."""
    if not isinstance(plan.source, oip.Binary):
        await body.fill(_NOTHING)
        return None
    nbytes = plan.source.byte_size
    if head.binary_length is not None:
        _check_binary(head.binary_length, nbytes)
    buffer = lease.take(nbytes)
    _check_binary(await body.fill(buffer.data), nbytes)
    return buffer


def _check_binary(got: int, nbytes: int) -> None:
    if got != nbytes:
        raise PayloadSizeMismatch(
            f"the binary data must have {nbytes} bytes, as its shape and datatype say, got {got}"
        )


def _buffer_bytes(plan: Plan) -> int:
    """The memory of buffers; that of numbers in JSON is counted with their text."""
    match plan.source:
        case oip.Binary():
            return plan.call.nbytes
        case oip.Region() if plan.output.region is None:
            return plan.call.output.byte_length
    return 0


def _work(plan: Plan, head: InferenceHead) -> int:
    """The bytes of payload that rounding would take as long for."""
    nbytes = plan.call.input.byte_length
    if isinstance(plan.source, oip.Inline):
        nbytes += head.json_most * JSON_WEIGHT
    if plan.answers_in_text:
        nbytes += plan.call.output.element_count * NUMBER_BYTES
    return nbytes
