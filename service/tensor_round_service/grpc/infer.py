"""``ModelInfer`` and ``ModelStreamInfer``: the messages around an inference.

A message whose tensor follows all else, as every client sends it, is planned as soon as its first
bytes are there. Then its memory is reserved, and the tensor is received into it and sent from it.
Any other message is received as a whole before it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from time import perf_counter

from tensor_round.contract.errors import PayloadSizeMismatch, RequestRefused, UnsupportedEncoding
from tensor_round.contract.progress import Pause
from tensor_round.contract.wire import http_fields

from ..engine.engine import JSON_COST
from ..engine.job import Job
from ..engine.receive import admit
from ..failures import refusal_for
from ..net.bodies import ByteSource, ClientDisconnected, Parts, Prefixed, expect_end
from ..net.http2.fields import encoded
from ..net.http2.serving import ServedStream
from ..net.response import field_name
from ..oip import infer_json
from ..oip.inference import Inference
from ..oip.models import find
from ..oip.plan import InferencePlan
from ..routes.tensor_route import runner_for
from .call import HEAD_BYTES, MAX_LENGTH, PREFIX_BYTES, Call, Rest, prefixed
from .messages import (
    BYTES_A_BYTE,
    SCHEMA,
    find_tensor,
    has_varints,
    packed_varints,
    raw_bytes,
    read_request,
    response_head,
)
from .protobuf import varint
from .status import OK, CallRefused, outcome

#: The field of an answer in a message of ``ModelStreamInfer``, length-delimited.
_STREAM_RESPONSE = ".inference.ModelStreamInferResponse"
_INFER_RESPONSE = varint(2 << 3 | 2)
#: Plans of heads up to this size are cached.
_CACHED_HEAD_BYTES = 1024
_CACHED_PLANS = 128
#: The most of a refused message that is received before the next one of the same call is.
_SKIPPED_BYTES = 8 << 20


@dataclass(frozen=True)
class _Planned:
    """A plan, and its response before the tensor, which has ``nbytes`` bytes there."""

    plan: InferencePlan
    head: bytes
    nbytes: int
    is_typed: bool

    @classmethod
    def of(cls, plan: InferencePlan, nbytes: int | None, *, is_typed: bool) -> _Planned:
        """With the head of a response; None if the tensor is in shared memory."""
        members, output = plan.response_members, plan.response_output
        head = response_head(members, output, nbytes, is_typed=is_typed)
        return cls(plan, head, nbytes or 0, is_typed)

    @property
    def has_varints(self) -> bool:
        """Whether the numbers of the tensor are yet to be written."""
        plan = self.plan
        return (
            self.is_typed and not plan.output.region and has_varints(str(plan.output_carrier.oip))
        )

    @cached_property
    def single(self) -> bytes:
        """The begin of the message, with its prefix."""
        return prefixed(self.head, self.nbytes)

    @cached_property
    def streamed(self) -> bytes:
        """The begin of the message in which it is an answer of ``ModelStreamInfer``."""
        length = varint(len(self.head) + self.nbytes)
        return prefixed(b"".join((_INFER_RESPONSE, length, self.head)), self.nbytes)


class InferMethods:
    """The two methods."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        # Refusals are not cached.
        self._cached_plan = lru_cache(_CACHED_PLANS)(self._plan)

    async def infer(self, call: Call, job: Job) -> bool:
        """Answer one message by one."""
        found = await call.begins()
        if found is None:
            raise PayloadSizeMismatch("the call has no message")
        planned, output = await self._infer(call, job, call.stream, *found)
        call.add(_backend_field(job.executed_by))
        return await call.infer_response(job, [planned.single, *output], OK)

    async def infer_stream(self, call: Call, _job: Job) -> bool:
        """Answer each message by one; a refusal is an answer, and the next message follows."""
        call.is_counted = True
        is_sent = True
        while is_sent and (found := await call.begins()) is not None:
            rest = Rest(call.stream, PREFIX_BYTES + found[1])
            job = Job(self._inference.engine.memory, call.stream)
            is_whole = is_reusable = False
            try:
                planned, output = await self._infer(call, job, rest, *found)
                is_sent = is_whole = await call.infer_response(
                    job, [planned.streamed, *output], None
                )
                is_reusable = not call.stream.holds_memory
            except ClientDisconnected:
                is_reusable = not call.stream.holds_memory
                raise
            except Exception as error:  # every error becomes a message
                is_reusable = not call.stream.holds_memory
                is_sent = await _refuse(call, rest, found[1], refusal_for(error), job.began)
            finally:
                job.end(reusable=is_reusable, is_sent=is_whole)
        return is_sent and await call.respond([], OK)

    async def _infer(
        self,
        call: Call,
        job: Job,
        source: ServedStream | Rest,
        is_compressed: bool,
        length: int,
        start: bytes,
    ) -> tuple[_Planned, Parts]:
        """The plan of the message that begins with ``start``, and its output."""
        began = job.began = perf_counter()
        inference = self._inference
        found = None
        if not is_compressed:
            found = find_tensor(start)
            if found is None and len(start) < min(length, HEAD_BYTES):
                start = await call.head(length)
                found = find_tensor(start)
        tensor: ByteSource = source
        stated = None
        if found is not None and found[1] + found[2] == length:
            end, begin, stated = found
            is_short = end <= _CACHED_HEAD_BYTES
            planned = (self._cached_plan if is_short else self._plan)(start[:end], stated)[0]
            source.skip(PREFIX_BYTES + begin)
            tensor = await admit(source, job, stated)
        else:
            source.skip(PREFIX_BYTES)
            rest = source if isinstance(source, Rest) else Rest(source, length)
            limit = inference.max_tensor_bytes + infer_json.MAX_BARE_HEADER_LENGTH
            run = runner_for(inference.engine, job)
            message = await call.message(
                job, rest, length, is_compressed=is_compressed, limit=limit, run=run
            )
            await expect_end(source, length)
            work = partial(self._plan_slowly, message, job)
            planned, held = await inference.engine.run_slowly(work, len(message) * JSON_COST, job)
            for part in reversed(held):
                tensor = Prefixed(memoryview(part), tensor)
        try:
            output = await inference.infer(planned.plan, tensor, job, stated)
            if planned.has_varints:
                datatype = str(planned.plan.output_carrier.oip)
                write = partial(packed_varints, output, datatype)
                output = await inference.engine.run_slowly(write, planned.nbytes * JSON_COST, job)
                planned = _Planned.of(planned.plan, sum(map(len, output)), is_typed=True)
        except Exception:  # of any class: it is counted, and raised on
            inference.counts.failed(planned.plan.model, perf_counter() - began)
            raise
        inference.counts.succeeded(planned.plan.model, job, perf_counter() - began)
        return planned, output

    def _plan_slowly(self, message: memoryview, job: Job, _pause: Pause) -> tuple[_Planned, Parts]:
        """Reserve the memory that reading takes, and plan a whole message."""
        job.reserve(max(0, len(message) - raw_bytes(message)) * BYTES_A_BYTE)
        return self._plan(message, None)

    def _plan(self, message: bytes | memoryview, following: int | None) -> tuple[_Planned, Parts]:
        """The plan of a message, and the tensors in it; ``following`` as :func:`read_request`."""
        read = read_request(message, following)
        model = find(read.model_name, read.model_version or None)
        began = perf_counter()
        try:
            plan = self._inference.plan(model, read.request)
        except Exception:  # of any class: it is counted, and raised on
            self._inference.counts.failed(model, perf_counter() - began)
            raise
        nbytes = None if plan.output.region is not None else plan.call.output.byte_length
        return _Planned.of(plan, nbytes, is_typed=read.is_typed), read.tensors


@lru_cache(16)
def _backend_field(name: str) -> bytes:
    return encoded((field_name(http_fields.EXECUTION_BACKEND), name.encode()))


async def _refuse(
    call: Call, rest: Rest, length: int, refusal: RequestRefused, began: float
) -> bool:
    """Answer a message that came at ``began`` by a refusal, and drop what is left of it.

    Raises the refusal where that is too much, or the coding is at fault: it ends the call.
    """
    if rest.left > _SKIPPED_BYTES or isinstance(refusal, CallRefused | UnsupportedEncoding):
        raise refusal
    dropped = memoryview(bytearray(min(rest.left, MAX_LENGTH)))
    while rest.left:
        await rest.receive_into(dropped)
    message = prefixed(SCHEMA.write(_STREAM_RESPONSE, {"error_message": refusal.detail}))
    is_sent = await call.respond([message])
    if is_sent:  # or else the call is counted as one whose caller has left
        call.gate.count(
            call.stream.head.path,
            outcome(refusal),
            PREFIX_BYTES + length,
            len(message),
            perf_counter() - began,
        )
    return is_sent
