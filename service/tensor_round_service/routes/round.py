"""``POST /round``: one operator, one tensor, in one of three forms.

A plain ASGI endpoint: the tensor's bytes go from the socket into one buffer, are
rounded there, and go out from it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from functools import lru_cache, partial

from tensor_round.call import RoundCall
from tensor_round.errors import (
    Fault,
    InvalidDescriptor,
    MalformedNpy,
    RequestRefused,
    UnsupportedMediaType,
)
from tensor_round.layout import Layout, check_size
from tensor_round.rounding import Rounding
from tensor_round.wire import native, npy

from ..answers import Answer, Finish, field_name, problem_answer
from ..backends import Bytes
from ..buffers import Lease
from ..direct import Header
from ..engine import JSON_WEIGHT, Engine, Timing, effort
from ..receive import Body, Receive
from .document import Document
from .head import Head, check_payload, head_of
from .tensor_route import Scope, TensorRoute

_OUTPUT_DESCRIPTOR = field_name(native.OUTPUT_DESCRIPTOR)
_EXECUTION_BACKEND = field_name(native.EXECUTION_BACKEND)
_SERVER_TIMING = field_name(native.SERVER_TIMING)
_CONTENT_DIGEST = field_name(native.CONTENT_DIGEST)


def round_route(engine: Engine, max_tensor_bytes: int) -> TensorRoute:
    """The endpoint."""
    return TensorRoute(engine, _Round(engine, max_tensor_bytes).answer, problem_answer)


class _Round:
    def __init__(self, engine: Engine, max_tensor_bytes: int) -> None:
        self._engine = engine
        self._limit = max_tensor_bytes

    async def answer(self, scope: Scope, receive: Receive, lease: Lease) -> Answer:
        """Round one tensor, in whichever form it comes."""
        head = head_of(scope)
        match head.media_type:
            case "" | native.OCTET_STREAM:
                form = self._octets
            case native.FORM if head.has_descriptor:
                form = self._octets
            case native.JSON:
                form = self._json
            case native.NPY:
                form = self._npy
            case _:
                raise UnsupportedMediaType(
                    f"Content-Type must be {native.OCTET_STREAM} with the header "
                    f"{native.OPERATOR_DESCRIPTOR}, {native.JSON} or {native.NPY}"
                )
        answer = await form(head, head.body(scope, receive), lease)
        if head.wants_digest:
            answer.headers.append(await self._digest(answer.parts))
        return answer

    async def _octets(self, head: Head, body: Body, lease: Lease) -> Answer:
        """The tensor's bytes; the operator is a header."""
        call = head.call
        self._check_sizes(call)
        head.check_length(call.input.byte_length, call.shortest_input)
        await body.admit(lease, call.nbytes)
        source = lease.take(call.input.byte_length)
        began = time.perf_counter()
        got = await body.fill(source.data, progress=self._engine.ahead(call, source, lease))
        check_payload(got, call.input.byte_length, call.shortest_input)
        if got < source.size:
            source[got:] = 0
        received = time.perf_counter() - began
        target, timing = await self._engine.run(
            partial(self._engine.round, call, source, lease), call.nbytes, effort(call)
        )
        described = _described(call.output)
        answer = _octets_answer(target, described, _common(lease, received, timing))
        plain = head.content_length is not None and head.sha256 is None and not head.wants_digest
        if plain and self._engine.runs_here(call):
            answer.again = partial(self._octets_again, call, described, got)
        return answer

    def _octets_again(
        self, call: RoundCall, described: bytes, length: int, came: memoryview, lease: Lease
    ) -> tuple[memoryview, Finish]:
        """Take on a payload of a length that was found right."""
        began = time.perf_counter()
        lease.reserve(call.nbytes)
        source = lease.take(call.input.byte_length)
        memory = source.data
        memory[: len(came)] = came
        if length < len(memory):
            source[length:] = 0

        def finish(refusal: RequestRefused | None) -> Answer:
            if refusal is not None:
                raise refusal
            received = time.perf_counter()
            target = self._engine.round(call, source, lease)
            timing = Timing(0.0, time.perf_counter() - received)
            return _octets_answer(target, described, _common(lease, received - began, timing))

        return memory[len(came) : length], finish

    async def _npy(self, head: Head, body: Body, lease: Lease) -> Answer:
        """A .npy file; the answer has the header it came with."""
        query = head.query("rounding", "dtype")
        rounding = _rounding(query.get("rounding", Rounding.TIES_TO_EVEN.value))
        began = time.perf_counter()
        start = b""
        while (header := npy.read_header(start)) is None:
            piece = await body.piece()
            if piece is None:
                raise MalformedNpy("the file ends within its header")
            start += piece
        dtype = npy.resolve_dtype(header, query.get("dtype"))
        layout = header.layout(dtype)
        call = RoundCall(rounding, layout, layout, layout.byte_length)
        self._check_sizes(call)
        head.check_length(header.header_length + call.input.byte_length)
        await body.admit(lease, call.nbytes)
        source = lease.take(call.input.byte_length)
        is_swapped = header.byte_order == "big"
        progress = None if is_swapped else self._engine.ahead(call, source, lease)
        got = await body.fill(source.data, start[header.header_length :], progress)
        check_payload(got, call.input.byte_length)
        received = time.perf_counter() - began
        work = partial(self._engine.round, call, source, lease)
        if is_swapped:
            work = partial(_round_swapped, self._engine, call, source, lease)
        target, timing = await self._engine.run(work, source.size)
        parts: list[bytes | memoryview] = [header.raw, target.data]
        return Answer(native.NPY, parts, headers=_common(lease, received, timing))

    async def _json(self, head: Head, body: Body, lease: Lease) -> Answer:
        """Operator and numbers in one document, worked on off the event loop if it is long."""
        head.query()
        began = time.perf_counter()
        length = native.MAX_JSON_LENGTH if head.length is None else head.length
        await body.admit(lease, min(length * JSON_WEIGHT, self._engine.budget.most))
        document = await body.read(native.MAX_JSON_LENGTH)
        received = time.perf_counter() - began
        text, timing = await self._engine.run(
            partial(self._round_document, document, lease), len(document) * JSON_WEIGHT
        )
        return Answer(native.JSON, [text], headers=_common(lease, received, timing))

    def _round_document(self, text: bytes, lease: Lease) -> bytes:
        document = Document.read(text)
        self._check_sizes(document.call)
        source = lease.take(document.call.input.byte_length)
        source.data[:] = document.payload()
        return document.answer(self._engine.round(document.call, source, lease).data)

    def _check_sizes(self, call: RoundCall) -> None:
        check_size(call.input, self._limit, "input")
        check_size(call.output, self._limit, "output")

    async def _digest(self, parts: Sequence[bytes | memoryview]) -> Header:
        work = partial(_sha256, parts)
        digest, _ = await self._engine.run(work, sum(map(len, parts)))
        return _CONTENT_DIGEST, native.content_digest(digest).encode()


def _octets_answer(target: Bytes, described: bytes, headers: list[Header]) -> Answer:
    headers.append((_OUTPUT_DESCRIPTOR, described))
    return Answer(native.OCTET_STREAM, [target.data], headers=headers)


def _common(lease: Lease, received: float, timing: Timing) -> list[Header]:
    """The headers that every answer of this route carries; ``received`` in seconds."""
    durations = b"receive;dur=%.3f, queue;dur=%.3f, execute;dur=%.3f" % (
        (received - lease.seconds_ahead) * 1e3,
        timing.queue * 1e3,
        (timing.execute + lease.seconds_ahead) * 1e3,
    )
    return [
        (_EXECUTION_BACKEND, lease.executed_by.encode()),
        (_SERVER_TIMING, durations),
    ]


def _rounding(name: str) -> Rounding:
    try:
        return Rounding(name)
    except ValueError:
        names = ", ".join(Rounding)
        raise InvalidDescriptor.of(
            [Fault(("query", "rounding"), f"must be one of {names}")]
        ) from None


def _round_swapped(engine: Engine, call: RoundCall, source: Bytes, lease: Lease) -> Bytes:
    """Round big-endian elements: swap, round, swap back."""
    bits = source.view(call.input.dtype.bits)
    bits.byteswap(inplace=True)
    target = engine.round(call, source, lease)
    target.view(call.output.dtype.bits).byteswap(inplace=True)
    return target


def _sha256(parts: Sequence[bytes | memoryview]) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()


@lru_cache(maxsize=1024)
def _described(layout: Layout) -> bytes:
    return native.output_descriptor(layout)
