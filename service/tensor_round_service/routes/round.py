"""``POST /round``: one operator, one tensor, in one of three representations.

The tensor is received from the socket into one buffer, rounded there, and sent from it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from tensor_round.contract import operators
from tensor_round.contract.call import RoundCall, wrong_size
from tensor_round.contract.layout import check_size
from tensor_round.contract.wire import native, npy
from tensor_round.contract.wire.json_size import measure_json

from ..backends import Bytes
from ..engine.engine import JSON_COST, Engine, rounding_cost
from ..engine.job import FIRST_BYTES, Job
from ..http1.content import expect_end, read_all
from ..http1.request import Request
from ..http1.response import FixedFields, Response, field_name
from ..openapi.tensors import round_operation
from .document import Document
from .operator_query import dialect_of, operator_of, rounding_of
from .table import Row
from .tensor_route import (
    TensorRoute,
    admit,
    by_representation,
    content_of,
    descriptor_of,
    npy_header,
    parameters,
)

_CONTENT_TYPE = field_name(native.CONTENT_TYPE)
_OUTPUT_DESCRIPTOR = field_name(native.OUTPUT_DESCRIPTOR)
_EXECUTION_BACKEND = field_name(native.EXECUTION_BACKEND)
_SERVER_TIMING = field_name(native.SERVER_TIMING)

#: Number of cached plans. A descriptor has at most 16 KiB.
_CACHED_PLANS = 1024


def round_row(engine: Engine, max_tensor_bytes: int) -> Row:
    """The route of ``/round``."""
    handlers = _Round(engine, max_tensor_bytes)
    select = by_representation(octets=handlers.octets, npy=handlers.npy, json=handlers.json)
    route = TensorRoute(engine, select)
    return Row("/round", route, method="POST", link="round", operation=round_operation)


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """The plan of a descriptor: the call, its cost, and the fixed fields of the response."""

    call: RoundCall
    #: Dialect and dtype.
    labels: tuple[str, str]
    #: See :func:`.engine.rounding_cost`.
    cost: int
    #: Valid lengths of the payload in bytes.
    lengths: tuple[int, ...]
    fixed: FixedFields


class _Round:
    def __init__(self, engine: Engine, max_tensor_bytes: int) -> None:
        self._engine = engine
        self._limit = max_tensor_bytes
        # Refusals are not cached.
        self._plan = lru_cache(_CACHED_PLANS)(self._make_plan)

    async def octets(self, request: Request, job: Job) -> Response:
        """A tensor's bytes; the header ``Operator-Descriptor`` has the descriptor."""
        head = request.head
        if head.query:
            parameters(head)
        plan = self._plan(descriptor_of(head))
        source, length = content_of(request)
        if length is not None and length not in plan.lengths:
            raise wrong_size(length, plan.lengths)
        call, progress = plan.call, None
        job.labels, job.call = plan.labels, call
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
            await expect_end(source, memory.size)
        if got < memory.size:
            if got not in plan.lengths:
                raise wrong_size(got, plan.lengths)
            memory[got:] = 0
        received = time.perf_counter() - began
        work = partial(self._engine.round, call, memory, job)
        target = await self._engine.run(work, call.nbytes, plan.cost, job)
        return response(plan.fixed, [target.data], job, received)

    async def npy(self, request: Request, job: Job) -> Response:
        """A .npy file; the response has the same .npy header."""
        query = parameters(request.head, "operator", "rounding", "dtype")
        operator = operator_of(query)
        began = time.perf_counter()
        source, length = content_of(request)
        header = await npy_header(source)
        dtype = npy.resolve_dtype(header, query.get("dtype"))
        layout = header.layout(dtype)
        call = RoundCall(rounding_of(operator, layout), layout, layout, layout.byte_length)
        job.labels, job.call = (dialect_of(query), dtype.name), call
        self._check_sizes(call)
        if length is not None and length != header.header_length + layout.byte_length:
            raise wrong_size(length, (header.header_length + layout.byte_length,))
        source = await admit(source, job, call.nbytes)
        memory = job.allocate(layout.byte_length)
        is_swapped = header.byte_order == "big"
        progress = None if is_swapped else self._engine.overlap(call, memory, job)
        got = await source.receive_into(memory.data, progress)
        await expect_end(source, memory.size)
        if got != memory.size:
            raise wrong_size(got, (memory.size,))
        received = time.perf_counter() - began
        work = partial(self._engine.round, call, memory, job)
        if is_swapped:
            work = partial(_round_swapped, self._engine, call, memory, job)
        target = await self._engine.run(work, memory.size, rounding_cost(call), job)
        parts: list[bytes | memoryview] = [header.raw, target.data]
        return response(_NPY, parts, job, received)

    async def json(self, request: Request, job: Job) -> Response:
        """A JSON document with descriptor and numbers; a thread handles long ones."""
        query = parameters(request.head, "operator")
        began = time.perf_counter()
        source, length = content_of(request)
        content = bytes(await read_all(source, native.MAX_JSON_LENGTH, job.reserve, length or 0))
        received = time.perf_counter() - began
        work = partial(self._round_document, content, query.get("operator"), job)
        text = await self._engine.run(work, len(content) * JSON_COST, job=job)
        return response(JSON_FIELDS, [text], job, received)

    def _round_document(self, text: bytes, operator: str | None, job: Job) -> bytes:
        job.reserve(measure_json(text).nbytes)
        document = Document.read(text, operator)
        job.labels = document.dialect, document.call.input.dtype.name
        job.call = document.call
        self._check_sizes(document.call)
        job.reserve(document.call.nbytes)
        memory = job.allocate(document.call.input.byte_length)
        memory.data[:] = document.payload()
        return document.response(self._engine.round(document.call, memory, job).data)

    def _make_plan(self, descriptor: bytes) -> RoundPlan:
        described_by = operators.parse(descriptor)
        call = described_by.resolve()
        self._check_sizes(call)
        described = native.output_descriptor(call.output)
        return RoundPlan(
            call,
            (described_by.dialect, call.input.dtype.name),
            rounding_cost(call),
            call.lengths,
            FixedFields(_OCTETS, (_OUTPUT_DESCRIPTOR, described)),
        )

    def _check_sizes(self, call: RoundCall) -> None:
        check_size(call.input, self._limit, "input")
        check_size(call.output, self._limit, "output")


def response(
    fixed: FixedFields, parts: Sequence[bytes | memoryview], job: Job, received: float
) -> Response:
    """A response with timings; ``received`` is the time to receive the body, in seconds."""
    overlap = 0.0 if job.overlap is None else job.overlap.seconds
    job.receive_seconds = received - overlap
    job.execute_seconds += overlap
    receive, queue = job.receive_seconds * 1e3, job.queue_seconds * 1e3
    execute = job.execute_seconds * 1e3
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
    """Round big-endian elements: swap the bytes, round, swap back."""
    bits = source.view(call.input.dtype.bits)
    bits.byteswap(inplace=True)
    target = engine.round(call, source, job)
    target.view(call.output.dtype.bits).byteswap(inplace=True)
    return target
