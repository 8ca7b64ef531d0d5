"""What every route that takes tensors shares: a job, and the content of its requests."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
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
    RequestRefused,
    UnsupportedMediaType,
)
from tensor_round.quoting import shown
from tensor_round.wire import native, npy

from ..engine.engine import Engine
from ..engine.job import FIRST_BYTES, Job
from ..http1.coding import decoder_for
from ..http1.content import Decoded, Prefixed, Verified, take
from ..http1.head import RequestHead
from ..http1.request import ByteSource, Request
from ..http1.response import Parts, Response, field_name

DESCRIPTOR = field_name(native.OPERATOR_DESCRIPTOR)
_CONTENT_TYPE = field_name(native.CONTENT_TYPE)
_CONTENT_ENCODING = field_name(native.CONTENT_ENCODING)
_CONTENT_DIGEST = field_name(native.CONTENT_DIGEST)
_WANT_CONTENT_DIGEST = field_name(native.WANT_CONTENT_DIGEST)

#: So much of a body must come before all its memory is reserved: nearly FIRST_BYTES, as much as
#: comes with a head in one segment of the loopback's 64 KiB.
ENOUGH_BYTES = 60 << 10

_REMEMBERED_CHOICES = 64

#: Reads a request and works on it; raises the refusal that there is to tell.
Work = Callable[[Request, Job], Awaitable[Response]]


class TensorRoute:
    """A route: ``choose`` says what works on a request, by its Content-Type and by whether it has
    a descriptor.
    """

    def __init__(self, engine: Engine, choose: Callable[[bytes, bool], Work]) -> None:
        self._engine = engine
        self._choose = lru_cache(_REMEMBERED_CHOICES)(choose)

    async def __call__(self, request: Request) -> Response:
        """The response to one request, which holds the job's memory until it is sent."""
        values = request.head.values
        work = self._choose(values.get(_CONTENT_TYPE, b""), DESCRIPTOR in values)
        job = Job(self._engine.memory)
        try:
            response = await work(request, job)
            if _WANT_CONTENT_DIGEST in values:
                await self._state_digest(request.head, response)
        except asyncio.CancelledError:
            # The server leaves. Where a thread still works on the buffers it goes on: they are
            # nobody else's any more.
            job.end(settled=False)
            raise
        except BaseException:
            job.end(settled=True)
            raise
        response.holder = job
        return response

    async def _state_digest(self, head: RequestHead, response: Response) -> None:
        """Give a response the digest of its content (RFC 9530), if its request asks for SHA-256."""
        if native.wants_digest([text(head, _WANT_CONTENT_DIGEST)]):
            parts = response.parts
            digest = await self._engine.run(partial(_sha256, parts), sum(map(len, parts)))
            response.headers.append((_CONTENT_DIGEST, native.content_digest(digest).encode()))


def representation(content_type: bytes, has_descriptor: bool) -> str:
    """The media type of a request's representation: octet-stream's, JSON's or .npy's.

    Raises :class:`UnsupportedMediaType`.
    """
    match native.media_type(content_type.decode("latin-1")):
        case "" | native.OCTET_STREAM:
            return native.OCTET_STREAM
        case native.FORM if has_descriptor:
            return native.OCTET_STREAM
        case native.JSON | native.NPY as other:
            if not has_descriptor:
                return other
            raise UnsupportedMediaType(
                f"beside the header {native.OPERATOR_DESCRIPTOR} the body is a tensor's bytes: "
                f"Content-Type must be {native.OCTET_STREAM}, got {other}"
            )
    raise UnsupportedMediaType(
        f"Content-Type must be {native.OCTET_STREAM} with the header "
        f"{native.OPERATOR_DESCRIPTOR}, {native.JSON} or {native.NPY}, "
        f"got {shown(content_type.decode('latin-1'))}"
    )


def no_descriptor(head: RequestHead) -> RequestRefused:
    """The refusal of a request without one descriptor in its header."""
    name = native.OPERATOR_DESCRIPTOR
    count = sum(field == DESCRIPTOR for field, _ in head.fields)
    if count:
        return DuplicateDescriptor(f"the header {name} came {count} times")
    return MissingDescriptor(
        f"the header {name} must carry the operator, as JSON; GET /operators lists what it can say"
    )


def call_of(descriptor: bytes) -> RoundCall:
    """What a descriptor in a header stands for; raises the refusal of one that stands for none."""
    if len(descriptor) > native.MAX_DESCRIPTOR_LENGTH:
        raise HeadersTooLarge(
            f"the header {native.OPERATOR_DESCRIPTOR} has more than "
            f"{native.MAX_DESCRIPTOR_LENGTH} bytes"
        )
    return operators.parse(descriptor).resolve()


def parameters(head: RequestHead, *known: str) -> dict[str, str]:
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


async def npy_header(source: ByteSource) -> npy.NpyHeader:
    """The header that a .npy file begins with, taken from the source."""
    start = b""
    while (header := npy.read_header(start)) is None:
        piece = await take(source, npy.missing_length(start))
        if not piece:
            raise MalformedNpy("the file ends within its header")
        start += piece
    return header


def content_of(request: Request) -> tuple[ByteSource, int | None]:
    """The request's content, its digest verified and its coding undone; and its length in bytes.

    The length is None where nobody said, as of a chunked or encoded body. Raises
    :class:`DigestMismatch` or :class:`UnsupportedEncoding` for fields that say no such.
    """
    head = request.head
    source: ByteSource = request
    length = head.length
    if _CONTENT_DIGEST in head.values:
        sha256 = native.parse_content_digest([text(head, _CONTENT_DIGEST)])
        if sha256 is not None:
            source = Verified(source, sha256)
    if _CONTENT_ENCODING in head.values:
        decoder = decoder_for(text(head, _CONTENT_ENCODING))
        if decoder is not None:
            source, length = Decoded(source, decoder), None
    return source, length


def text(head: RequestHead, name: bytes) -> str:
    """The value of a field, empty without it."""
    return head.values.get(name, b"").decode("latin-1")


async def admit(source: ByteSource, job: Job, nbytes: int) -> ByteSource:
    """Reserve what a request needs; if it is much, a little first, the rest once its body comes.

    The source has the bytes that came. Raises :class:`TensorTooLarge` or :class:`Overloaded`.
    """
    if nbytes <= FIRST_BYTES:
        job.reserve(nbytes)
        return source
    job.reserve_first(nbytes)
    first = memoryview(bytearray(ENOUGH_BYTES))
    came = await source.receive_into(first)
    job.reserve_rest()
    return Prefixed(first[:came], source)


def _sha256(parts: Parts) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()
