"""``POST /round``: one operator, one tensor, in one of three representations.

The tensor's bytes go from the socket into one buffer, are rounded there, and go out from it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from tensor_round.call import RoundCall, wrong_size
from tensor_round.layout import check_size
from tensor_round.wire import native, npy
from tensor_round.wire.census import census

from ..backends import Bytes
from ..engine.engine import JSON_WEIGHT, Engine, effort
from ..engine.job import FIRST_BYTES, Job
from ..http1.content import end, read
from ..http1.request import Request
from ..http1.response import FixedFields, Response, field_name
from .document import Document
from .operator_query import operator_of, rounding_of
from .tensor_route import (
    DESCRIPTOR,
    TensorRoute,
    Work,
    admit,
    call_of,
    content_of,
    no_descriptor,
    npy_header,
    parameters,
    representation,
)

_CONTENT_TYPE = field_name(native.CONTENT_TYPE)
_OUTPUT_DESCRIPTOR = field_name(native.OUTPUT_DESCRIPTOR)
_EXECUTION_BACKEND = field_name(native.EXECUTION_BACKEND)
_SERVER_TIMING = field_name(native.SERVER_TIMING)

#: What is remembered of descriptors: each has at most 16 KiB.
_REMEMBERED_PLANS = 1024


def round_route(engine: Engine, max_tensor_bytes: int) -> TensorRoute:
    """The route."""
    return TensorRoute(engine, _Round(engine, max_tensor_bytes).choose)


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """What a descriptor means: the call, what it costs, and what its response says."""

    call: RoundCall
    #: Bytes of a narrow type that would take as long to round.
    effort: int
    #: Lawful lengths of the payload, in bytes.
    lengths: tuple[int, ...]
    fixed: FixedFields


class _Round:
    def __init__(self, engine: Engine, max_tensor_bytes: int) -> None:
        self._engine = engine
        self._limit = max_tensor_bytes
        # Refusals are not remembered.
        self._plan = lru_cache(_REMEMBERED_PLANS)(self._make_plan)

    def choose(self, content_type: bytes, has_descriptor: bool) -> Work:
        """What works on a request of this representation."""
        works = {native.OCTET_STREAM: self._octets, native.JSON: self._json, native.NPY: self._npy}
        return works[representation(content_type, has_descriptor)]

    async def _octets(self, request: Request, job: Job) -> Response:
        """The tensor's bytes; the operator is a header."""
        head = request.head
        if head.query:
            parameters(head)
        descriptor = head.values.get(DESCRIPTOR)
        if descriptor is None or DESCRIPTOR in head.repeated:
            raise no_descriptor(head)
        plan = self._plan(descriptor)
        source, length = content_of(request)
        if length is not None and length not in plan.lengths:
            raise wrong_size(length, plan.lengths)
        call, progress = plan.call, None
        began = time.perf_counter()
        if call.nbytes <= FIRST_BYTES:
            job.reserve(call.nbytes)
            memory = job.allocate(call.input.byte_length)
        else:
            source = await admit(source, job, call.nbytes)
            memory = job.allocate(call.input.byte_length)
            progress = self._engine.overlap(call, memory, job)
        got = await source.receive_into(memory.data, progress)
        if not source.is_at_end:
            await end(source, memory.size)
        if got < memory.size:
            if got not in plan.lengths:
                raise wrong_size(got, plan.lengths)
            memory[got:] = 0
        received = time.perf_counter() - began
        work = partial(self._engine.round, call, memory, job)
        target = await self._engine.run(work, call.nbytes, plan.effort, job)
        return response(plan.fixed, [target.data], job, received)

    async def _npy(self, request: Request, job: Job) -> Response:
        """A .npy file; the response has the header it came with."""
        query = parameters(request.head, "operator", "rounding", "dtype")
        operator = operator_of(query)
        began = time.perf_counter()
        source, length = content_of(request)
        header = await npy_header(source)
        dtype = npy.resolve_dtype(header, query.get("dtype"))
        layout = header.layout(dtype)
        call = RoundCall(rounding_of(operator, layout), layout, layout, layout.byte_length)
        self._check_sizes(call)
        if length is not None and length != header.header_length + layout.byte_length:
            raise wrong_size(length, (header.header_length + layout.byte_length,))
        source = await admit(source, job, call.nbytes)
        memory = job.allocate(layout.byte_length)
        is_swapped = header.byte_order == "big"
        progress = None if is_swapped else self._engine.overlap(call, memory, job)
        got = await source.receive_into(memory.data, progress)
        await end(source, memory.size)
        if got != memory.size:
            raise wrong_size(got, (memory.size,))
        received = time.perf_counter() - began
        work = partial(self._engine.round, call, memory, job)
        if is_swapped:
            work = partial(_round_swapped, self._engine, call, memory, job)
        target = await self._engine.run(work, memory.size, effort(call), job)
        parts: list[bytes | memoryview] = [header.raw, target.data]
        return response(_NPY, parts, job, received)

    async def _json(self, request: Request, job: Job) -> Response:
        """Operator and numbers in one document, worked on off the event loop if it is long."""
        parameters(request.head)
        began = time.perf_counter()
        source, length = content_of(request)
        content = bytes(await read(source, native.MAX_JSON_LENGTH, job.reserve, length or 0))
        received = time.perf_counter() - began
        work = partial(self._round_document, content, job)
        text = await self._engine.run(work, len(content) * JSON_WEIGHT, job=job)
        return response(JSON_FIELDS, [text], job, received)

    def _round_document(self, text: bytes, job: Job) -> bytes:
        job.reserve(census(text).nbytes)
        document = Document.read(text)
        self._check_sizes(document.call)
        job.reserve(document.call.nbytes)
        memory = job.allocate(document.call.input.byte_length)
        memory.data[:] = document.payload()
        return document.answer(self._engine.round(document.call, memory, job).data)

    def _make_plan(self, descriptor: bytes) -> RoundPlan:
        call = call_of(descriptor)
        self._check_sizes(call)
        described = native.output_descriptor(call.output)
        return RoundPlan(
            call,
            effort(call),
            call.lengths,
            FixedFields(_OCTETS, (_OUTPUT_DESCRIPTOR, described)),
        )

    def _check_sizes(self, call: RoundCall) -> None:
        check_size(call.input, self._limit, "input")
        check_size(call.output, self._limit, "output")


def response(
    fixed: FixedFields, parts: Sequence[bytes | memoryview], job: Job, received: float
) -> Response:
    """The response; ``received`` are the seconds in which the body came."""
    overlap = 0.0 if job.overlap is None else job.overlap.seconds
    receive, queue = (received - overlap) * 1e3, job.queue_seconds * 1e3
    execute = (job.execute_seconds + overlap) * 1e3
    durations = f"receive;dur={receive:.3f}, queue;dur={queue:.3f}, execute;dur={execute:.3f}"
    headers = [
        (_EXECUTION_BACKEND, job.executed_by.encode()),
        (_SERVER_TIMING, durations.encode()),
    ]
    return Response(200, fixed, parts, headers)


_OCTETS = _CONTENT_TYPE, native.OCTET_STREAM.encode()
_NPY = FixedFields((_CONTENT_TYPE, native.NPY.encode()))
JSON_FIELDS = FixedFields((_CONTENT_TYPE, native.JSON.encode()))


def _round_swapped(engine: Engine, call: RoundCall, source: Bytes, job: Job) -> Bytes:
    """Round big-endian elements: swap, round, swap back."""
    bits = source.view(call.input.dtype.bits)
    bits.byteswap(inplace=True)
    target = engine.round(call, source, job)
    target.view(call.output.dtype.bits).byteswap(inplace=True)
    return target
