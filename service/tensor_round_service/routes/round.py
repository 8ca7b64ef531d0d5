"""``POST /round``: one operator, one tensor, in one of three representations.

The tensor's bytes go from the socket into one buffer, are rounded there, and go out from it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from urllib.parse import parse_qsl

from tensor_round import operators
from tensor_round.call import RoundCall
from tensor_round.errors import (
    DuplicateDescriptor,
    Fault,
    HeadersTooLarge,
    InvalidDescriptor,
    MalformedNpy,
    MissingDescriptor,
    PayloadSizeMismatch,
    UnsupportedMediaType,
)
from tensor_round.layout import check_size
from tensor_round.rounding import Rounding
from tensor_round.wire import native, npy

from ..backends import Bytes
from ..engine import JSON_WEIGHT, Engine, effort
from ..http1.content import fill, read, take
from ..http1.head import Header, RequestHead
from ..http1.request import Request
from ..http1.response import Response, field_name
from ..job import Job
from .document import Document
from .tensor_route import TensorRoute, Work, admit, content_length, content_of, text

_CONTENT_TYPE = field_name(native.CONTENT_TYPE)
_DESCRIPTOR = field_name(native.OPERATOR_DESCRIPTOR)
_OUTPUT_DESCRIPTOR = field_name(native.OUTPUT_DESCRIPTOR)
_EXECUTION_BACKEND = field_name(native.EXECUTION_BACKEND)
_SERVER_TIMING = field_name(native.SERVER_TIMING)
_CONTENT_DIGEST = field_name(native.CONTENT_DIGEST)
_WANT_CONTENT_DIGEST = field_name(native.WANT_CONTENT_DIGEST)

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
    fixed: tuple[Header, ...]


class _Round:
    def __init__(self, engine: Engine, max_tensor_bytes: int) -> None:
        self._engine = engine
        self._limit = max_tensor_bytes
        # Refusals are not remembered.
        self._plan = lru_cache(_REMEMBERED_PLANS)(self._make_plan)

    def choose(self, head: RequestHead) -> Work:
        """What works on a request, by its Content-Type."""
        match native.media_type(text(head, _CONTENT_TYPE)):
            case "" | native.OCTET_STREAM:
                return self._octets
            case native.FORM if _DESCRIPTOR in head.values:
                return self._octets
            case native.JSON:
                return self._json
            case native.NPY:
                return self._npy
        raise UnsupportedMediaType(
            f"Content-Type must be {native.OCTET_STREAM} with the header "
            f"{native.OPERATOR_DESCRIPTOR}, {native.JSON} or {native.NPY}"
        )

    async def _octets(self, request: Request, job: Job) -> Response:
        """The tensor's bytes; the operator is a header."""
        head = request.head
        if head.query:
            _parameters(head)
        plan = self._plan(_descriptor(head))
        call = plan.call
        length = content_length(head)
        if length is not None:
            _check_payload(length, plan.lengths)
        source = await admit(content_of(request), job, call.nbytes)
        memory = job.allocate(call.input.byte_length)
        began = time.perf_counter()
        got = await fill(source, memory.data, self._engine.overlap(call, memory, job))
        if got < memory.size:
            _check_payload(got, plan.lengths)
            memory[got:] = 0
        received = time.perf_counter() - began
        work = partial(self._engine.round, call, memory, job)
        target = await self._engine.run(work, call.nbytes, plan.effort, job)
        return await self._response(head, plan.fixed, [target.data], job, received)

    async def _npy(self, request: Request, job: Job) -> Response:
        """A .npy file; the response has the header it came with."""
        query = _parameters(request.head, "rounding", "dtype")
        rounding = _rounding(query.get("rounding", Rounding.TIES_TO_EVEN.value))
        began = time.perf_counter()
        source = content_of(request)
        start = b""
        while (header := npy.read_header(start)) is None:
            piece = await take(source, npy.missing_length(start))
            if not piece:
                raise MalformedNpy("the file ends within its header")
            start += piece
        dtype = npy.resolve_dtype(header, query.get("dtype"))
        layout = header.layout(dtype)
        call = RoundCall(rounding, layout, layout, layout.byte_length)
        self._check_sizes(call)
        length = content_length(request.head)
        if length is not None:
            _check_payload(length, (header.header_length + layout.byte_length,))
        source = await admit(source, job, call.nbytes)
        memory = job.allocate(layout.byte_length)
        is_swapped = header.byte_order == "big"
        progress = None if is_swapped else self._engine.overlap(call, memory, job)
        _check_payload(await fill(source, memory.data, progress), (layout.byte_length,))
        received = time.perf_counter() - began
        work = partial(self._engine.round, call, memory, job)
        if is_swapped:
            work = partial(_round_swapped, self._engine, call, memory, job)
        target = await self._engine.run(work, memory.size, effort(call), job)
        parts: list[bytes | memoryview] = [header.raw, target.data]
        return await self._response(request.head, _NPY, parts, job, received)

    async def _json(self, request: Request, job: Job) -> Response:
        """Operator and numbers in one document, worked on off the event loop if it is long."""
        _parameters(request.head)
        began = time.perf_counter()
        likely = content_length(request.head) or 0
        document = await read(content_of(request), native.MAX_JSON_LENGTH, job.reserve, likely)
        received = time.perf_counter() - began
        work = partial(self._round_document, bytes(document), job)
        content = await self._engine.run(work, len(document) * JSON_WEIGHT, job=job)
        return await self._response(request.head, _JSON, [content], job, received)

    def _round_document(self, text: bytes, job: Job) -> bytes:
        document = Document.read(text)
        self._check_sizes(document.call)
        memory = job.allocate(document.call.input.byte_length)
        memory.data[:] = document.payload()
        return document.answer(self._engine.round(document.call, memory, job).data)

    def _make_plan(self, descriptor: bytes) -> RoundPlan:
        call = operators.parse(descriptor).resolve()
        self._check_sizes(call)
        described = native.output_descriptor(call.output)
        return RoundPlan(
            call,
            effort(call),
            (call.input.byte_length, call.shortest_input),
            (*_OCTETS, (_OUTPUT_DESCRIPTOR, described)),
        )

    def _check_sizes(self, call: RoundCall) -> None:
        check_size(call.input, self._limit, "input")
        check_size(call.output, self._limit, "output")

    async def _response(
        self,
        head: RequestHead,
        fixed: tuple[Header, ...],
        parts: Sequence[bytes | memoryview],
        job: Job,
        received: float,
    ) -> Response:
        """The response; ``received`` are the seconds in which the body came."""
        overlap = job.overlap_seconds
        durations = b"receive;dur=%.3f, queue;dur=%.3f, execute;dur=%.3f" % (
            (received - overlap) * 1e3,
            job.queue_seconds * 1e3,
            (job.execute_seconds + overlap) * 1e3,
        )
        headers = [(_EXECUTION_BACKEND, job.executed_by.encode()), (_SERVER_TIMING, durations)]
        if _WANT_CONTENT_DIGEST in head.values and native.wants_digest(
            [text(head, _WANT_CONTENT_DIGEST)]
        ):
            digest = await self._engine.run(partial(_sha256, parts), sum(map(len, parts)))
            headers.append((_CONTENT_DIGEST, native.content_digest(digest).encode()))
        return Response(200, fixed, parts, headers)


_OCTETS = ((_CONTENT_TYPE, native.OCTET_STREAM.encode()),)
_NPY = ((_CONTENT_TYPE, native.NPY.encode()),)
_JSON = ((_CONTENT_TYPE, native.JSON.encode()),)


def _descriptor(head: RequestHead) -> bytes:
    descriptor = head.values.get(_DESCRIPTOR)
    name = native.OPERATOR_DESCRIPTOR
    if descriptor is None:
        raise MissingDescriptor(
            f"the header {name} must carry the operator, as JSON; "
            "GET /operators lists what it can say"
        )
    if _DESCRIPTOR in head.repeated:
        count = sum(field == _DESCRIPTOR for field, _ in head.fields)
        raise DuplicateDescriptor(f"the header {name} came {count} times")
    if len(descriptor) > native.MAX_DESCRIPTOR_LENGTH:
        raise HeadersTooLarge(
            f"the header {name} has more than {native.MAX_DESCRIPTOR_LENGTH} bytes"
        )
    return descriptor


def _parameters(head: RequestHead, *known: str) -> dict[str, str]:
    """The query's parameters; an unknown one, or one twice, would be lost and is refused."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(head.query.decode("latin-1"), keep_blank_values=True):
        if name not in known:
            takes = " and ".join(known) if known else "none"
            fault = Fault(("query", name[:40]), f"unknown parameter; this form takes {takes}")
            raise InvalidDescriptor.of([fault])
        if name in found:
            raise InvalidDescriptor.of([Fault(("query", name), "given more than once")])
        found[name] = value
    return found


def _check_payload(got: int, lawful: tuple[int, ...]) -> None:
    """Refuse a payload of any length but the lawful ones."""
    if got not in lawful:
        raise PayloadSizeMismatch(
            f"the payload must have {' or '.join(map(str, sorted(set(lawful))))} bytes "
            f"for this descriptor, got {got}"
        )


def _rounding(name: str) -> Rounding:
    try:
        return Rounding(name)
    except ValueError:
        names = ", ".join(Rounding)
        raise InvalidDescriptor.of(
            [Fault(("query", "rounding"), f"must be one of {names}")]
        ) from None


def _round_swapped(engine: Engine, call: RoundCall, source: Bytes, job: Job) -> Bytes:
    """Round big-endian elements: swap, round, swap back."""
    bits = source.view(call.input.dtype.bits)
    bits.byteswap(inplace=True)
    target = engine.round(call, source, job)
    target.view(call.output.dtype.bits).byteswap(inplace=True)
    return target


def _sha256(parts: Sequence[bytes | memoryview]) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()
