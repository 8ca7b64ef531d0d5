"""``POST /round``: one operator, one tensor, in one of three forms.

A plain ASGI endpoint: the tensor's bytes go from the socket into one buffer, are
rounded there, and go out from it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import MutableMapping
from functools import lru_cache, partial
from typing import Any

from tensor_round import operators
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

from ..answers import Answer, Header, Send, field_name, problem_answer
from ..backends import Bytes
from ..buffers import Lease
from ..direct import SenderGone, direct_body
from ..engine import Engine, Timing
from ..receive import Receive
from .document import Document
from .head import Head, check_payload

_OUTPUT_DESCRIPTOR = field_name(native.OUTPUT_DESCRIPTOR)
_EXECUTION_BACKEND = field_name(native.EXECUTION_BACKEND)
_SERVER_TIMING = field_name(native.SERVER_TIMING)
_CONTENT_DIGEST = field_name(native.CONTENT_DIGEST)

#: Text costs about this many times what its bytes would; decides where it is worked on.
JSON_WEIGHT = 16


class RoundEndpoint:
    """The ASGI endpoint of ``POST /round``."""

    def __init__(self, engine: Engine, max_tensor_bytes: int) -> None:
        self._engine = engine
        self._limit = max_tensor_bytes

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        with self._engine.lease() as lease:
            try:
                answer = await self._answer(Head(scope), receive, lease)
            except RequestRefused as refusal:
                answer = problem_answer(refusal)
            except SenderGone:
                return
            if await answer.send(send, direct_body(scope)):
                lease.settle()

    async def _answer(self, head: Head, receive: Receive, lease: Lease) -> Answer:
        match head.media_type:
            case "" | native.OCTET_STREAM:
                return await self._octets(head, receive, lease)
            case native.FORM if head.has_descriptor:
                return await self._octets(head, receive, lease)
            case native.JSON:
                return await self._json(head, receive, lease)
            case native.NPY:
                return await self._npy(head, receive, lease)
        raise UnsupportedMediaType(
            f"Content-Type must be {native.OCTET_STREAM} with the header "
            f"{native.OPERATOR_DESCRIPTOR}, {native.JSON} or {native.NPY}"
        )

    async def _octets(self, head: Head, receive: Receive, lease: Lease) -> Answer:
        """The tensor's bytes; the operator is a header."""
        head.query()
        call = operators.resolve_json(head.descriptor())
        self._check_sizes(call)
        head.check_length(call.input.byte_length, call.shortest_input)
        body = head.body(receive)
        source = lease.take(call.input.byte_length)
        began = time.perf_counter()
        got = await body.fill(source.data)
        check_payload(got, call.input.byte_length, call.shortest_input)
        source[got:] = 0
        received = time.perf_counter() - began
        target, timing = await self._engine.run(
            partial(self._engine.round, call, source, lease), source.size
        )
        output = target.data
        headers = [(_OUTPUT_DESCRIPTOR, _described(call.output))]
        headers += await self._common(head, [output], received, timing)
        return Answer(native.OCTET_STREAM, [output], headers=headers)

    async def _npy(self, head: Head, receive: Receive, lease: Lease) -> Answer:
        """A .npy file; the answer has the header it came with."""
        query = head.query("rounding", "dtype")
        rounding = _rounding(query.get("rounding", Rounding.TIES_TO_EVEN.value))
        body = head.body(receive)
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
        source = lease.take(call.input.byte_length)
        got = await body.fill(source.data, start[header.header_length :])
        check_payload(got, call.input.byte_length)
        received = time.perf_counter() - began
        work = partial(self._engine.round, call, source, lease)
        if header.byte_order == "big":
            work = partial(_round_swapped, self._engine, call, source, lease)
        target, timing = await self._engine.run(work, source.size)
        parts = [memoryview(header.raw), target.data]
        return Answer(
            native.NPY, list(parts), headers=await self._common(head, parts, received, timing)
        )

    async def _json(self, head: Head, receive: Receive, lease: Lease) -> Answer:
        """Operator and numbers in one document, worked on off the event loop if it is long."""
        head.query()
        began = time.perf_counter()
        document = await head.body(receive).read(native.MAX_JSON_LENGTH)
        received = time.perf_counter() - began
        text, timing = await self._engine.run(
            partial(self._round_document, document, lease), len(document) * JSON_WEIGHT
        )
        parts = [memoryview(text)]
        return Answer(
            native.JSON, list(parts), headers=await self._common(head, parts, received, timing)
        )

    def _round_document(self, text: bytes, lease: Lease) -> bytes:
        document = Document.read(text)
        self._check_sizes(document.call)
        source = lease.take(document.call.input.byte_length)
        source.data[:] = document.payload()
        return document.answer(self._engine.round(document.call, source, lease).data)

    def _check_sizes(self, call: RoundCall) -> None:
        check_size(call.input, self._limit, "input")
        check_size(call.output, self._limit, "output")

    async def _common(
        self, head: Head, parts: list[memoryview], received: float, timing: Timing
    ) -> list[Header]:
        """The headers that every answer of this route carries."""
        durations = (("receive", received), ("queue", timing.queue), ("execute", timing.execute))
        headers = [
            (_EXECUTION_BACKEND, self._engine.backend.name.encode()),
            (
                _SERVER_TIMING,
                ", ".join(f"{name};dur={s * 1e3:.3f}" for name, s in durations).encode(),
            ),
        ]
        if head.wants_digest:
            digest, _ = await self._engine.run(partial(_sha256, parts), sum(map(len, parts)))
            headers.append((_CONTENT_DIGEST, native.content_digest(digest).encode()))
        return headers


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


def _sha256(parts: list[memoryview]) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()


@lru_cache(maxsize=1024)
def _described(layout: Layout) -> bytes:
    return native.output_descriptor(layout)
