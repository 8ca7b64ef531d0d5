"""``POST /compare``: the differences between roundings on one tensor, as JSON."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from tensor_round.contract import operators
from tensor_round.contract.call import wrong_size
from tensor_round.contract.layout import Layout, check_size
from tensor_round.contract.wire import native, npy, strictjson
from tensor_round.contract.wire.json_size import measure_json

from ..backends import Bytes
from ..engine.differences import check_dense, compared
from ..engine.engine import INLINE_BYTES, Engine
from ..engine.job import Job
from ..http1.content import expect_end, read_all
from ..http1.request import ByteSource, Request
from ..http1.response import Response
from .document import Document
from .round import JSON_FIELDS, response
from .tensor_route import (
    TensorRoute,
    admit,
    by_representation,
    content_of,
    descriptor_of,
    npy_header,
    parameters,
)

#: Memory that comparing needs besides the tensor: a multiple of its bytes, up to a maximum.
WORK_FACTOR, MAX_WORK_BYTES = 32, 8 << 20


def compare_route(engine: Engine, max_tensor_bytes: int) -> TensorRoute:
    """The route of ``/compare``."""
    handlers = _Compare(engine, max_tensor_bytes)
    return TensorRoute(
        engine,
        by_representation(octets=handlers.octets, npy=handlers.npy, json=handlers.json),
    )


class _Compare:
    def __init__(self, engine: Engine, max_tensor_bytes: int) -> None:
        self._engine = engine
        self._limit = max_tensor_bytes

    async def octets(self, request: Request, job: Job) -> Response:
        """A tensor's bytes; a descriptor of any dialect has its layout."""
        parameters(request.head)
        call = operators.parse(descriptor_of(request.head)).resolve()
        check_size(call.input, self._limit, "input")
        check_dense(call.input)
        source, length = content_of(request)
        if length is not None and length not in call.lengths:
            raise wrong_size(length, call.lengths)
        began = time.perf_counter()
        memory, got = await _received(source, call.input, job)
        if got not in call.lengths:
            raise wrong_size(got, call.lengths)
        return await self._respond(memory, call.input, job, time.perf_counter() - began)

    async def npy(self, request: Request, job: Job) -> Response:
        """A .npy file."""
        query = parameters(request.head, "dtype")
        began = time.perf_counter()
        source, length = content_of(request)
        header = await npy_header(source)
        layout = header.layout(npy.resolve_dtype(header, query.get("dtype")))
        check_size(layout, self._limit, "input")
        whole = header.header_length + layout.byte_length
        if length is not None and length != whole:
            raise wrong_size(length, (whole,))
        memory, got = await _received(source, layout, job)
        if got != memory.size:
            raise wrong_size(got, (memory.size,))
        received = time.perf_counter() - began
        is_swapped = header.byte_order == "big"
        return await self._respond(memory, layout, job, received, swapped=is_swapped)

    async def json(self, request: Request, job: Job) -> Response:
        """A descriptor and numbers in one document."""
        parameters(request.head)
        began = time.perf_counter()
        source, length = content_of(request)
        content = bytes(await read_all(source, native.MAX_JSON_LENGTH, job.reserve, length or 0))
        received = time.perf_counter() - began

        def work() -> bytes:
            job.reserve(measure_json(content).nbytes)
            document = Document.read(content)
            layout = document.call.input
            check_size(layout, self._limit, "input")
            job.reserve(_needed_bytes(layout))
            memory = job.allocate(layout.byte_length)
            memory.data[:] = document.payload()
            return strictjson.dumps(compared(memory, layout))

        return await self._responded(work, job, received)

    async def _respond(
        self, memory: Bytes, layout: Layout, job: Job, received: float, *, swapped: bool = False
    ) -> Response:
        comparing = partial(compared, memory, layout, swapped=swapped)
        return await self._responded(lambda: strictjson.dumps(comparing()), job, received)

    async def _responded(self, work: Callable[[], bytes], job: Job, received: float) -> Response:
        """Run ``work`` on a thread, as even small tensors take long, and return its response."""
        text = await self._engine.run(work, INLINE_BYTES + 1, job=job)
        job.executed_by = "numpy"
        return response(JSON_FIELDS, [text], job, received)


async def _received(source: ByteSource, layout: Layout, job: Job) -> tuple[Bytes, int]:
    """Receive a tensor; return its memory and the number of received bytes."""
    source = await admit(source, job, _needed_bytes(layout))
    memory = job.allocate(layout.byte_length)
    got = await source.receive_into(memory.data)
    await expect_end(source, memory.size)
    return memory, got


def _needed_bytes(layout: Layout) -> int:
    return layout.byte_length + min(WORK_FACTOR * layout.element_bytes, MAX_WORK_BYTES)
