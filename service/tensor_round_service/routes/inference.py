"""``POST /v2/models/{name}/infer``: inference by the Open Inference Protocol.

As for ``POST /round``, the tensor is received from the socket into one buffer, rounded there, and
sent from it. A JSON header precedes the tensor. The header may have the numbers itself, or refer to
shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import lru_cache, partial
from time import perf_counter_ns

from tensor_round.contract.errors import (
    Fault,
    InvalidDescriptor,
    PayloadSizeMismatch,
    TensorTooLarge,
)
from tensor_round.contract.progress import Pause, no_pause
from tensor_round.contract.wire import native
from tensor_round.contract.wire.json_size import measure_json

from ..auth.origins import check_origin
from ..backends import Bytes
from ..codec import oip
from ..content.codings import CODINGS, IDENTITY, encode, max_encoded_length, preferred_coding
from ..content.sources import ByteSource, Prefixed, expect_end, read_all, read_up_to
from ..engine.admission import admit
from ..engine.engine import JSON_COST, Engine, rounding_cost
from ..engine.job import Job
from ..http1.head import RequestHead
from ..http1.request import Request
from ..http1.response import Response, field_name, of_type
from ..inference.executor import InferenceExecutor
from ..inference.models import MODELS, Model, find
from ..inference.plan import InferencePlan, plan_from_header, plan_from_raw_body
from ..inference.statistics import Statistics
from ..openapi.inference import infer_operation
from .table import Row
from .tensor_route import Handler, TensorRoute, content_of, text

_ACCEPT_ENCODING = field_name(native.ACCEPT_ENCODING)
_EXECUTION_BACKEND = field_name(native.EXECUTION_BACKEND)
_CONTENT_ENCODING = field_name(native.CONTENT_ENCODING)
_HEADER_LENGTH = field_name(oip.HEADER_LENGTH)

_JSON = of_type(native.JSON)
_OCTETS = of_type(native.OCTET_STREAM)

#: Plans of headers up to this size are cached. Headers with many numbers are longer.
_CACHED_HEADER_BYTES = 1024
_CACHED_PLANS = 128
#: Maximum length of a raw tensor without a Content-Length.
MAX_RAW_BYTES = 16 << 20
#: Bytes that are rounded in the time that compressing one byte takes.
_ENCODING_COST = 64


def inference_rows(
    engine: Engine,
    max_tensor_bytes: int,
    executor: InferenceExecutor,
    counts: Statistics,
    listed_origins: Set[bytes] = frozenset(),
) -> Iterator[Row]:
    """The routes of every model and version, and what unknown ones get."""

    inference = partial(_Inference, engine, max_tensor_bytes, executor, counts, listed_origins)

    def row(path: str, model: Model) -> Row:
        route = TensorRoute(engine, inference(model).select_handler)
        return Row(path, route, method="POST")

    for model in MODELS:
        yield row(f"/v2/models/{model.name}/versions/{model.version}/infer", model)
    for name in dict.fromkeys(model.name for model in MODELS):
        yield row(f"/v2/models/{name}/infer", find(name))

    async def unknown_model(name: str, model_version: str | None = None) -> None:
        """Refuse with the name of the unknown model or version."""
        find(name, model_version)

    unknown = partial(Row, endpoint=unknown_model, method="POST", is_counted=False)
    of_model = partial(infer_operation, "infer", "Round a tensor", "name")
    of_version = partial(
        infer_operation, "infer_version", "Round a tensor by a version", "name", "model_version"
    )
    yield unknown("/v2/models/{name}/infer", operation=of_model)
    yield unknown("/v2/models/{name}/versions/{model_version}/infer", operation=of_version)


@dataclass(eq=False)
class _Inference:
    """Inference by one version of a model."""

    engine: Engine
    limit: int
    executor: InferenceExecutor
    counts: Statistics
    listed_origins: Set[bytes]
    model: Model

    def __post_init__(self) -> None:
        # Refusals are not cached.
        self._cached_plan = lru_cache(_CACHED_PLANS)(self._make_plan)

    def select_handler(self, _content_type: bytes, _has_descriptor: bool) -> Handler:
        """The handler; it is the same for all requests."""
        return self._infer_and_count

    async def _infer_and_count(self, request: Request, job: Job) -> Response:
        """Infer, and count failures in the statistics."""
        began = perf_counter_ns()
        try:
            return await self._infer(request, job, began)
        except Exception:
            self.counts.failed(self.model, perf_counter_ns() - began)
            raise

    async def _infer(self, request: Request, job: Job, began: int) -> Response:
        head = request.head
        source, length = content_of(request, job, self.engine)
        json_length = _json_length(head, length, self.limit)
        if json_length == 0 and length is None:
            content = await read_all(source, MAX_RAW_BYTES, job.reserve)
            source, length = Prefixed(memoryview(content), source), len(content)
            job.reserve(length)
        elif length and json_length is not None:
            source = await admit(source, job, length)
        if json_length == 0 and length is not None:
            header, plan = b"", plan_from_raw_body(self.model, length)
            plan.check_sizes(self.limit)
        else:
            header = await _header(source, job, length, json_length)
            if len(header) <= _CACHED_HEADER_BYTES:
                plan = self._cached_plan(header)
            else:
                work = partial(self._plan_long_header, header, job)
                plan = await self.engine.run_slowly(work, len(header) * JSON_COST, job)
        if plan.uses_regions:
            # The request may change memory of another client.
            check_origin(head, self.listed_origins)
        job.labels = self.model.dialect.name, plan.call.input.dtype.name
        job.call = plan.call
        tensor = await self._receive(plan, source, job, length, len(header))
        received = perf_counter_ns()
        nbytes = self.executor.payload_bytes(plan, len(header))
        execute = partial(self.executor.run, plan, tensor, job)
        cost = nbytes - plan.call.nbytes + rounding_cost(plan.call)
        if plan.has_json_data:
            parts = await self.engine.run_slowly(execute, cost, job, is_timed=True)
        else:
            parts = await self.engine.run(execute, nbytes, cost, job)
        rounded = perf_counter_ns()
        response = _response(plan, parts, job)
        if _ACCEPT_ENCODING in head.values:
            await self._encode(head, response, job)
        overlap = 0.0 if job.overlap is None else job.overlap.seconds
        job.receive_seconds = (received - began) / 1e9 - overlap
        job.execute_seconds += overlap
        self.counts.succeeded(
            self.model,
            queue=int(job.queue_seconds * 1e9),
            input=int(job.receive_seconds * 1e9),
            infer=int(job.execute_seconds * 1e9),
            output=perf_counter_ns() - rounded,
        )
        return response

    def _make_plan(self, header: bytes, pause: Pause = no_pause) -> InferencePlan:
        plan = plan_from_header(self.model, header, self.executor.has_shared_memory, pause)
        plan.check_sizes(self.limit)
        return plan

    def _plan_long_header(self, header: bytes, job: Job, pause: Pause) -> InferencePlan:
        """Reserve the memory that parsing takes, and plan."""
        job.reserve(measure_json(header, pause).nbytes)
        return self._make_plan(header, pause)

    async def _receive(
        self,
        plan: InferencePlan,
        source: ByteSource,
        job: Job,
        length: int | None,
        json_length: int,
    ) -> Bytes | None:
        """Reserve the memory of the plan, and receive the tensor if it follows the header."""
        needed = self.executor.buffer_bytes(plan) + plan.text_bytes
        if not isinstance(plan.source, oip.Binary):
            job.reserve(needed)
            await expect_end(source, 0)
            return None
        nbytes = plan.source.byte_size
        if length is not None:
            if length - json_length != nbytes:
                raise _wrong_size(length - json_length, nbytes)
            needed -= nbytes  # admit() has reserved the stated length
        if needed:
            job.reserve(needed)
        memory = job.allocate(nbytes)
        # A tensor for a shared memory region is rounded while it is copied there.
        has_region = plan.output.region is not None
        progress = None if has_region else self.engine.overlap(plan.call, memory, job)
        got = await source.receive_into(memory.data, progress)
        if not source.is_at_end:
            await expect_end(source, nbytes)
        if got != nbytes:
            raise _wrong_size(got, nbytes)
        return memory

    async def _encode(self, head: RequestHead, response: Response, job: Job) -> None:
        """Encode the content as ``Accept-Encoding`` prefers."""
        coding = preferred_coding(text(head, _ACCEPT_ENCODING), CODINGS)
        if coding != IDENTITY:
            nbytes = sum(map(len, response.parts))
            job.reserve(max_encoded_length(nbytes))
            work = partial(encode, response.parts, coding)
            response.parts = await self.engine.run_slowly(work, nbytes * _ENCODING_COST, job)
            response.headers.append((_CONTENT_ENCODING, coding.encode()))


def _response(plan: InferencePlan, parts: list[bytes | memoryview], job: Job) -> Response:
    backend = (_EXECUTION_BACKEND, job.executed_by.encode())
    if plan.output.region is not None or not plan.output.binary:
        return Response(200, _JSON, parts, [backend])
    return Response(200, _OCTETS, parts, [backend, (_HEADER_LENGTH, b"%d" % len(parts[0]))])


async def _header(
    source: ByteSource, job: Job, length: int | None, json_length: int | None
) -> bytes:
    """Read the JSON header of a request."""
    if json_length is None:
        return bytes(await read_all(source, oip.MAX_HEADER_LENGTH, job.reserve, length or 0))
    if length is None:
        job.reserve(json_length)
    header = await read_up_to(source, json_length)
    if len(header) < json_length:
        raise PayloadSizeMismatch(
            f"the body ends after {len(header)} bytes, within its JSON of {json_length}"
        )
    return header


def _json_length(head: RequestHead, content: int | None, limit_bytes: int) -> int | None:
    """Length of the JSON header in bytes; None if it is the whole content, 0 for a raw tensor.

    Raises :class:`InvalidDescriptor` for an invalid length, and :class:`TensorTooLarge` if the
    stated lengths are above the limits.
    """
    stated = head.values.get(_HEADER_LENGTH)
    if stated is None:
        oip.check_header_length(content or 0)
        return None
    length = oip.read_header_length(stated.decode("latin-1"))
    nbytes = 0 if content is None else content - length
    if nbytes < 0:
        rule = f"must not be larger than the body, which has {content} bytes"
        raise InvalidDescriptor.of([Fault((oip.HEADER_LENGTH,), rule)])
    oip.check_header_length(length)
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
