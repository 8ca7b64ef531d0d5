"""``POST /v2/models/{name}/infer``: the Open Inference Protocol's inference.

The same way as ``POST /round``: the tensor's bytes go from the socket into one buffer, are
rounded there, and go out from it. Before them comes a header in JSON, which may have the numbers
in it instead, or name shared memory that has them.
"""

from __future__ import annotations

from collections.abc import Set
from functools import lru_cache, partial
from time import perf_counter_ns

from tensor_round.errors import Fault, InvalidDescriptor, PayloadSizeMismatch, TensorTooLarge
from tensor_round.wire import native, oip, oip_request
from tensor_round.wire.accept import IDENTITY, preferred_coding
from tensor_round.wire.census import census

from ..auth.hosts import check_origin
from ..backends import Bytes
from ..engine.engine import JSON_WEIGHT, Engine, effort
from ..engine.job import Job
from ..http1.coding import CODINGS, encode, most_encoded
from ..http1.content import Prefixed, end, read, take
from ..http1.head import RequestHead
from ..http1.request import ByteSource, Request
from ..http1.response import FixedFields, Response, field_name
from ..inference.models import MODELS, Model, find
from ..inference.plan import Plan, plan_head, plan_raw
from ..inference.shared.cuda import CudaSharedMemory
from ..inference.shared.posix import SharedMemory
from ..inference.statistics import Statistics
from ..inference.work import InferenceWork
from .tensor_route import TensorRoute, Work, admit, content_of, text

_CONTENT_TYPE = field_name(native.CONTENT_TYPE)
_ACCEPT_ENCODING = field_name(native.ACCEPT_ENCODING)
_EXECUTION_BACKEND = field_name(native.EXECUTION_BACKEND)
_CONTENT_ENCODING = field_name(native.CONTENT_ENCODING)
_HEADER_LENGTH = field_name(oip.HEADER_LENGTH)

_JSON = FixedFields((_CONTENT_TYPE, native.JSON.encode()))
_OCTETS = FixedFields((_CONTENT_TYPE, native.OCTET_STREAM.encode()))

#: Heads up to this size are remembered; those with many numbers in them are longer.
_REMEMBERED_BYTES = 1024
_REMEMBERED_PLANS = 128
#: Of a raw tensor whose length nobody said.
MAX_GATHERED_BYTES = 16 << 20
#: Bytes that compressing takes as long for as rounding one.
_ENCODING_WEIGHT = 64


def inference_routes(
    engine: Engine,
    max_tensor_bytes: int,
    shared_memory: SharedMemory | None,
    counts: Statistics,
    cuda_memory: CudaSharedMemory | None = None,
    listed_origins: Set[bytes] = frozenset(),
) -> dict[str, TensorRoute]:
    """The endpoint of each model and version, by path."""

    def endpoint(model: Model) -> TensorRoute:
        work = InferenceWork(engine, shared_memory, cuda_memory)
        inference = _Inference(engine, max_tensor_bytes, work, counts, model, listed_origins)
        return TensorRoute(engine, inference.choose)

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
        work: InferenceWork,
        counts: Statistics,
        model: Model,
        listed_origins: Set[bytes],
    ) -> None:
        self._engine = engine
        self._work = work
        self._limit = max_tensor_bytes
        self._counts = counts
        self._model = model
        self._listed_origins = listed_origins
        # Refusals are not remembered.
        self._remembered = lru_cache(_REMEMBERED_PLANS)(self._make_plan)

    def choose(self, _content_type: bytes, _has_descriptor: bool) -> Work:
        """What works on a request: one and the same on any."""
        return self._counted

    async def _counted(self, request: Request, job: Job) -> Response:
        """Respond to one request, and count it."""
        began = perf_counter_ns()
        try:
            return await self._infer(request, job, began)
        except Exception:  # counted, whatever it is, and told elsewhere
            self._counts.failed(self._model, perf_counter_ns() - began)
            raise

    async def _infer(self, request: Request, job: Job, began: int) -> Response:
        head = request.head
        source, length = content_of(request)
        json_length = _json_length(head, length, self._limit)
        if json_length == 0 and length is None:
            content = await read(source, MAX_GATHERED_BYTES, job.reserve)
            source, length = Prefixed(memoryview(content), source), len(content)
            job.reserve(length)
        elif length and json_length is not None:
            source = await admit(source, job, length)
        if json_length == 0 and length is not None:
            header, plan = b"", plan_raw(self._model, length)
            plan.check_sizes(self._limit)
        else:
            header = await _header(source, job, length, json_length)
            if len(header) <= _REMEMBERED_BYTES:
                plan = self._remembered(header)
            else:
                read_it = partial(self._read_long_header, header, job)
                plan = await self._engine.run(read_it, len(header) * JSON_WEIGHT)
        if plan.uses_regions:
            check_origin(
                head, self._listed_origins
            )  # it may change what another client has registered
        received = await self._receive(plan, source, job, length, len(header))
        came = perf_counter_ns()
        nbytes = self._work.payload_bytes(plan, len(header))
        work = partial(self._work.run, plan, received, job)
        cost = nbytes - plan.call.nbytes + effort(plan.call)
        parts = await self._engine.run(work, nbytes, cost, job)
        rounded = perf_counter_ns()
        response = _response(parts, job)
        if _ACCEPT_ENCODING in head.values:
            await self._encode(head, response, job)
        overlap = 0 if job.overlap is None else int(job.overlap.seconds * 1e9)
        self._counts.succeeded(
            self._model,
            queue=int(job.queue_seconds * 1e9),
            input=came - began - overlap,
            infer=int(job.execute_seconds * 1e9) + overlap,
            output=perf_counter_ns() - rounded,
        )
        return response

    def _make_plan(self, header: bytes) -> Plan:
        plan = plan_head(self._model, header, self._work.has_shared_memory)
        plan.check_sizes(self._limit)
        return plan

    def _read_long_header(self, header: bytes, job: Job) -> Plan:
        """Count what there is to read, reserve the memory for it, and read."""
        job.reserve(census(header).nbytes)
        return self._make_plan(header)

    async def _receive(
        self, plan: Plan, source: ByteSource, job: Job, length: int | None, json_length: int
    ) -> Bytes | None:
        """Reserve what the plan needs, and receive the rest of the body: a tensor, or nothing."""
        needed = self._work.buffer_bytes(plan) + plan.text_bytes
        if not isinstance(plan.source, oip.Binary):
            job.reserve(needed)
            await end(source, 0)
            return None
        nbytes = plan.source.byte_size
        if length is not None:
            if length - json_length != nbytes:
                raise _wrong_size(length - json_length, nbytes)
            needed -= nbytes  # as its sender has stated, and admit() has reserved
        if needed:
            job.reserve(needed)
        memory = job.allocate(nbytes)
        # What goes to a region is rounded on its way there.
        stays = plan.output.region is None
        progress = self._engine.overlap(plan.call, memory, job) if stays else None
        got = await source.receive_into(memory.data, progress)
        if not source.is_at_end:
            await end(source, nbytes)
        if got != nbytes:
            raise _wrong_size(got, nbytes)
        return memory

    async def _encode(self, head: RequestHead, response: Response, job: Job) -> None:
        """Encode the content as was asked for."""
        coding = preferred_coding(text(head, _ACCEPT_ENCODING), CODINGS)
        if coding != IDENTITY:
            nbytes = sum(map(len, response.parts))
            job.reserve(most_encoded(nbytes))
            work = partial(encode, response.parts, coding)
            response.parts = await self._engine.run(work, nbytes * _ENCODING_WEIGHT)
            response.headers.append((_CONTENT_ENCODING, coding.encode()))


def _response(parts: list[bytes | memoryview], job: Job) -> Response:
    backend = (_EXECUTION_BACKEND, job.executed_by.encode())
    if len(parts) == 1:
        return Response(200, _JSON, parts, [backend])
    return Response(200, _OCTETS, parts, [backend, (_HEADER_LENGTH, b"%d" % len(parts[0]))])


async def _header(
    source: ByteSource, job: Job, length: int | None, json_length: int | None
) -> bytes:
    """The request's JSON."""
    if json_length is None:
        return bytes(await read(source, oip.MAX_HEAD_LENGTH, job.reserve, length or 0))
    if length is None:
        job.reserve(json_length)
    header = await take(source, json_length)
    if len(header) < json_length:
        raise PayloadSizeMismatch(
            f"the body ends after {len(header)} bytes, within its JSON of {json_length}"
        )
    return header


def _json_length(head: RequestHead, content: int | None, limit_bytes: int) -> int | None:
    """Bytes of the content that are its JSON; None is all, 0 is none of a raw tensor.

    Raises :class:`InvalidDescriptor` for what is no length, or beyond the content, and
    :class:`TensorTooLarge` for what is stated to be too large.
    """
    stated = head.values.get(_HEADER_LENGTH)
    if stated is None:
        oip_request.check_head_length(content or 0)
        return None
    length = oip_request.read_header_length(stated.decode("latin-1"))
    nbytes = 0 if content is None else content - length
    if nbytes < 0:
        rule = f"is beyond the {content} bytes of the body"
        raise InvalidDescriptor.of([Fault((oip.HEADER_LENGTH,), rule)])
    oip_request.check_head_length(length)
    if nbytes > limit_bytes:
        raise TensorTooLarge(
            f"the body has {nbytes} bytes of binary data, the limit is {limit_bytes}",
            limit_bytes=limit_bytes,
            got_bytes=nbytes,
        )
    return length


def _wrong_size(got: int, nbytes: int) -> PayloadSizeMismatch:
    return PayloadSizeMismatch(
        f"the binary data must have {nbytes} bytes, as its shape and datatype say, got {got}"
    )
