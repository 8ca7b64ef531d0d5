"""``POST /v2/models/{name}/infer``: inference by the Open Inference Protocol.

As for ``POST /round``, the tensor is received from the socket into one buffer, rounded there, and
sent from it. A JSON header precedes the tensor. The header may have the numbers itself, or refer to
shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import lru_cache, partial
from time import perf_counter

from tensor_round.contract.errors import (
    InvalidDescriptor,
    MalformedJSON,
    PayloadSizeMismatch,
    RequestRefused,
    TensorTooLarge,
)
from tensor_round.contract.progress import Pause, no_pause
from tensor_round.contract.wire import http_fields

from ..auth.origins import check_origin
from ..codec import nesting
from ..codec.json_size import JSONSize, measure_json
from ..engine.engine import JSON_COST
from ..engine.job import Job
from ..engine.receive import admit
from ..net.bodies import ByteSource, Parts, Prefixed, read_all, read_up_to
from ..net.codings import (
    CODINGS,
    IDENTITY,
    encode,
    max_encoded_length,
    preferred_coding,
    requested_coding,
)
from ..net.head import Head
from ..net.request import Request
from ..net.response import Response, field_name, of_type
from ..routes.table import RouteEntry
from ..routes.tensor_route import TensorRoute, content_of, text
from . import infer_json
from .inference import Inference
from .models import MODELS, Model, find
from .operations import infer_operation
from .plan import CACHED_HEADER_BYTES, InferencePlan, raw_request

_ACCEPT_ENCODING = field_name(http_fields.ACCEPT_ENCODING)
_EXECUTION_BACKEND = field_name(http_fields.EXECUTION_BACKEND)
_CONTENT_ENCODING = field_name(http_fields.CONTENT_ENCODING)
_HEADER_LENGTH = field_name(infer_json.HEADER_LENGTH)

_JSON = of_type(http_fields.JSON)
_OCTETS = of_type(http_fields.OCTET_STREAM)

_CACHED_PLANS = 128
_SAYS_BINARY = b'"binary_data_size"'
#: Maximum length of a raw tensor without a Content-Length.
MAX_RAW_BYTES = 16 << 20
#: Bytes that are rounded in the time that compressing one byte takes.
_ENCODING_COST = 64


def inference_rows(
    inference: Inference, listed_origins: Set[bytes] = frozenset()
) -> Iterator[RouteEntry]:
    """The routes of every model and version, and what unknown ones get."""

    models = {f"/v2/models/{m.name}/versions/{m.version}/infer": m for m in MODELS}
    models |= {f"/v2/models/{m.name}/infer": find(m.name) for m in MODELS}
    for path, model in models.items():
        handler = _InferHandler(inference, listed_origins, model)
        yield RouteEntry(path, TensorRoute(handler.infer, inference.engine), method="POST")

    async def unknown_model(name: str, model_version: str | None = None) -> None:
        """Refuse with the name of the unknown model or version."""
        find(name, model_version)

    unknown = partial(RouteEntry, endpoint=unknown_model, method="POST", is_counted=False)
    of_model = partial(infer_operation, "infer", "Round a tensor")
    of_version = partial(infer_operation, "infer_version", "Round a tensor by a version")
    yield unknown("/v2/models/{name}/infer", operation=of_model)
    yield unknown("/v2/models/{name}/versions/{model_version}/infer", operation=of_version)


class _InferHandler:
    """Inference by one version of a model."""

    def __init__(self, inference: Inference, listed_origins: Set[bytes], model: Model) -> None:
        self.inference, self.listed_origins, self.model = inference, listed_origins, model
        # Refusals are not cached.
        self._cached_plan = lru_cache(_CACHED_PLANS)(self._make_plan)

    async def infer(self, request: Request, job: Job) -> Response:
        """Infer, and count it in the statistics."""
        began = job.began = perf_counter()
        counts = self.inference.counts
        try:
            plan, source, stated = await self._plan(request, job)
            output = await self.inference.infer(plan, source, job, stated)
            response = _response(plan, output, job)
            if _ACCEPT_ENCODING in request.head.values:
                await self._encode(request.head, response, job)
        except Exception:
            counts.failed(self.model, perf_counter() - began)
            raise
        counts.succeeded(self.model, job, perf_counter() - began)
        return response

    async def _plan(
        self, request: Request, job: Job
    ) -> tuple[InferencePlan, ByteSource, int | None]:
        """The plan, and the source of what follows the JSON header, with its length if known.

        Memory for a known length is reserved.
        """
        head, engine, limit = request.head, self.inference.engine, self.inference.max_tensor_bytes
        source, length = content_of(request, job, engine)
        json_length = _json_length(head, length, limit * len(self.model.inputs))
        if json_length == 0 and length is None:
            content = await read_all(source, MAX_RAW_BYTES, job.reserve)
            source, length = Prefixed(memoryview(content), source), len(content)
            job.reserve(length)
        elif length and json_length is not None:
            source = await admit(source, job, length)
        if json_length == 0 and length is not None:
            header, plan = b"", self.inference.plan(self.model, raw_request(self.model, length))
        else:
            header = await _header(source, job, length, json_length)
            try:
                if len(header) <= CACHED_HEADER_BYTES:
                    plan = self._cached_plan(header)
                else:
                    work = partial(self._plan_long_header, header, job)
                    plan = await engine.run_slowly(work, len(header) * JSON_COST, job)
            except MalformedJSON as refusal:
                if json_length is None:
                    _name_missing_length(refusal, header)
                raise
            if json_length is None:
                _check_no_bytes(plan)
        if plan.regions:
            # The request may change memory of another client.
            check_origin(head, self.listed_origins)
        return plan, source, None if length is None else length - len(header)

    def _make_plan(
        self, header: bytes, pause: Pause = no_pause, size: JSONSize | None = None
    ) -> InferencePlan:
        request = infer_json.read_request(header, pause, size)
        try:
            return self.inference.plan(self.model, request)
        except RequestRefused:
            with nesting.freed(request.data):
                raise

    def _plan_long_header(self, header: bytes, job: Job, pause: Pause) -> InferencePlan:
        """Reserve the memory that parsing takes, and plan."""
        size = measure_json(header, pause)
        job.reserve(size.nbytes)
        return self._make_plan(header, pause, size)

    async def _encode(self, head: Head, response: Response, job: Job) -> None:
        """Encode the content as ``Accept-Encoding`` prefers; a tensor's bytes on request alone."""
        choose = requested_coding if response.fixed is _OCTETS else preferred_coding
        coding = choose(text(head, _ACCEPT_ENCODING), CODINGS)
        if coding != IDENTITY:
            nbytes = sum(map(len, response.parts))
            job.reserve(max_encoded_length(nbytes))
            work = partial(encode, response.parts, coding)
            cost = nbytes * _ENCODING_COST
            response.parts = await self.inference.engine.run_slowly(work, cost, job)
            response.headers.append((_CONTENT_ENCODING, coding.encode()))


def _response(plan: InferencePlan, output: Parts, job: Job) -> Response:
    backend = (_EXECUTION_BACKEND, job.executed_by.encode())
    if plan.returns_json_data:
        return Response(200, _JSON, plan.header_with_data(output), [backend])
    header = plan.header_without_data
    if plan.output.region is not None:
        return Response(200, _JSON, [header], [backend])
    length = (_HEADER_LENGTH, b"%d" % len(header))
    return Response(200, _OCTETS, [header, *output], [backend, length])


def _name_missing_length(refusal: MalformedJSON, header: bytes) -> None:
    """Name the field that a body with bytes after its JSON lacks: they are no JSON."""
    if _SAYS_BINARY in header[: infer_json.MAX_BARE_HEADER_LENGTH]:
        refusal.restate(f"{refusal.detail}; {infer_json.NEEDS_HEADER_LENGTH}")


def _check_no_bytes(plan: InferencePlan) -> None:
    """Raise :class:`PayloadSizeMismatch` if bytes should follow a body that is JSON alone."""
    if plan.following_bytes:
        raise PayloadSizeMismatch(
            f"the binary data must have {plan.following_bytes} bytes, got 0; "
            f"{infer_json.NEEDS_HEADER_LENGTH}"
        )


async def _header(
    source: ByteSource, job: Job, length: int | None, json_length: int | None
) -> bytes:
    """Read the JSON header of a request."""
    if json_length is None:
        return bytes(await read_all(source, infer_json.MAX_HEADER_LENGTH, job.reserve, length or 0))
    if length is None:
        job.reserve(json_length)
    header = await read_up_to(source, json_length)
    if len(header) < json_length:
        raise PayloadSizeMismatch(
            f"the body ends after {len(header)} bytes, within its JSON of {json_length}"
        )
    return header


def _json_length(head: Head, content: int | None, limit_bytes: int) -> int | None:
    """Length of the JSON header in bytes; None if it is the whole content, 0 for a raw tensor.

    Raises :class:`InvalidDescriptor` for an invalid length, and :class:`TensorTooLarge` if the
    stated lengths are above the limits.
    """
    stated = head.values.get(_HEADER_LENGTH)
    if stated is None:
        infer_json.check_header_length(content or 0)
        return None
    length = infer_json.read_header_length(stated.decode("latin-1"))
    nbytes = 0 if content is None else content - length
    if nbytes < 0:
        rule = f"must not be larger than the body, which has {content} bytes"
        raise InvalidDescriptor.at((infer_json.HEADER_LENGTH,), rule)
    infer_json.check_header_length(length)
    if nbytes > limit_bytes:
        raise TensorTooLarge(
            f"the body has {nbytes} bytes of binary data, the limit is {limit_bytes}",
            limit_bytes=limit_bytes,
            got_bytes=nbytes,
        )
    return length
