"""``POST /v2/models/{name}/infer``: the Open Inference Protocol's inference.

Plain ASGI, and the same way as ``POST /round``: the tensor's bytes go from the socket
into one buffer, are rounded there, and go out from it. Before them comes a head in
JSON, which may have the numbers in it instead, or name shared memory that has them.
"""

from __future__ import annotations

from functools import partial
from time import perf_counter_ns

from tensor_round.errors import PayloadSizeMismatch, RequestRefused, TensorTooLarge
from tensor_round.wire import native, oip, oip_request
from tensor_round.wire.accept import IDENTITY

from ..answers import Answer, Finish, error_answer, field_name
from ..backends import Bytes
from ..buffers import Lease
from ..cuda_shared_memory import CudaSharedMemory
from ..direct import Header
from ..encoding import encode
from ..engine import JSON_WEIGHT, Engine, effort
from ..inference import REMEMBERED_BYTES, Plan, plan_head, plan_raw
from ..inference_work import InferenceWork, check_sizes, text_bytes
from ..models import MODELS, Model, find
from ..receive import Body, Receive
from ..shared_memory import SharedMemory
from ..statistics import Statistics
from .inference_head import HEADER_LENGTH, InferenceHead, inference_head_of
from .tensor_route import Scope, TensorRoute

_EXECUTION_BACKEND = field_name(native.EXECUTION_BACKEND)
_CONTENT_ENCODING = field_name(native.CONTENT_ENCODING)

#: Of a raw tensor whose length nobody said.
MAX_GATHERED_BYTES = 16 << 20
#: Bytes that compressing takes as long for as rounding one.
_ENCODING_WEIGHT = 64
_NOTHING = memoryview(bytearray())


def inference_routes(
    engine: Engine,
    max_tensor_bytes: int,
    shared_memory: SharedMemory | None,
    counts: Statistics,
    cuda_memory: CudaSharedMemory | None = None,
) -> dict[str, TensorRoute]:
    """The endpoint of each model and version, by path."""

    def endpoint(model: Model) -> TensorRoute:
        work = InferenceWork(engine, shared_memory, cuda_memory)
        inference = _Inference(engine, max_tensor_bytes, work, counts, model)
        return TensorRoute(engine, inference.answer, error_answer)

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
    ) -> None:
        self._engine = engine
        self._work = work
        self._limit = max_tensor_bytes
        self._counts = counts
        self._model = model

    async def answer(self, scope: Scope, receive: Receive, lease: Lease) -> Answer:
        """Answer one request, and count it."""
        began = perf_counter_ns()
        try:
            return await self._answer(scope, receive, lease, began)
        except Exception:  # counted, whatever it is, and told elsewhere
            self._counts.failed(self._model, perf_counter_ns() - began)
            raise

    async def _answer(self, scope: Scope, receive: Receive, lease: Lease, began: int) -> Answer:
        head = inference_head_of(scope)
        body = head.body(scope, receive)
        self._check_declared(head)
        room = self._room(head.content_length or 0, _unstated_bytes(head))
        await body.admit(lease, room)
        plan, text = await self._plan(head, body)
        check_sizes(plan, self._limit)
        needed = self._room(self._work.buffer_bytes(plan), text_bytes(plan, head.json_most))
        if needed > room:
            await body.admit(lease, needed)
        received = await self._receive(plan, head, body, lease)
        came = perf_counter_ns()
        nbytes = self._work.payload_bytes(plan, head.json_most)
        parts, timing = await self._engine.run(
            partial(self._work.run, plan, received, lease),
            nbytes,
            nbytes - plan.call.nbytes + effort(plan.call),
        )
        rounded = perf_counter_ns()
        answer = await self._encoded(parts, head.coding, lease.executed_by)
        ahead = int(lease.seconds_ahead * 1e9)
        self._counts.succeeded(
            self._model,
            queue=int(timing.queue * 1e9),
            input=came - began - ahead,
            infer=int(timing.execute * 1e9) + ahead,
            output=perf_counter_ns() - rounded,
        )
        if text is not None and self._may_repeat(head, plan, text):
            answer.again = partial(self._take_again, plan, text, room)
        return answer

    def _may_repeat(self, head: InferenceHead, plan: Plan, text: bytes) -> bool:
        """Whether a request with this head and this JSON may be answered without a look at them."""
        is_plain = head.content_length is not None and head.sha256 is None
        is_binary = isinstance(plan.source, oip.Binary) and plan.output.region is None
        return (
            is_plain
            and is_binary
            and plan.output.binary
            and head.coding == IDENTITY
            and len(text) <= REMEMBERED_BYTES
            and self._engine.runs_here(plan.call)
        )

    def _take_again(
        self, plan: Plan, text: bytes, room: int, came: memoryview, lease: Lease
    ) -> tuple[memoryview, Finish] | None:
        """Take on a request with the same head, if its JSON is the same."""
        began = perf_counter_ns()
        if bytes(came[: len(text)]) != text:
            return None
        payload = came[len(text) :]
        failure: Exception | None = None
        memory = _NOTHING
        try:
            lease.reserve(room)
            source = lease.take(plan.call.input.byte_length)
        except Exception as error:  # counted and told by finish(), which need not be called
            failure = error
        else:
            memory = source.data
            memory[: len(payload)] = payload

        def finish(refusal: RequestRefused | None) -> Answer:
            arrived = perf_counter_ns()
            fault = refusal or failure
            try:
                if fault is not None:
                    raise fault
                parts = self._work.run(plan, source, lease)
            except Exception:  # counted and told elsewhere, as in answer()
                self._counts.failed(self._model, perf_counter_ns() - began)
                raise
            rounded = perf_counter_ns()
            answer = _plain_answer(parts, lease.executed_by)
            self._counts.succeeded(
                self._model,
                queue=0,
                input=arrived - began,
                infer=rounded - arrived,
                output=perf_counter_ns() - rounded,
            )
            return answer

        return memory[len(payload) :], finish

    def _check_declared(self, head: InferenceHead) -> None:
        """Refuse what its headers say is too large, before any of it is read."""
        oip_request.check_head_length(head.json_most)
        nbytes = head.binary_length or 0
        if nbytes > self._limit:
            raise TensorTooLarge(
                f"the body has {nbytes} bytes of binary data, the limit is {self._limit}",
                limit_bytes=self._limit,
                got_bytes=nbytes,
            )

    def _room(self, nbytes: int, others: int) -> int:
        """What to reserve: all that buffers take, and for others what there is room for at all."""
        return max(nbytes, min(nbytes + others, self._engine.budget.most))

    async def _plan(self, head: InferenceHead, body: Body) -> tuple[Plan, bytes | None]:
        """What the request asks for, and its JSON, if there is any."""
        if head.json_length == 0:
            length = head.content_length
            if length is None:
                length = await body.gather(MAX_GATHERED_BYTES)
            return plan_raw(self._model, length), None
        if head.json_length is None:
            text = await body.read(oip.MAX_HEAD_LENGTH)
        else:
            text = await body.take(head.json_length)
            if len(text) < head.json_length:
                raise PayloadSizeMismatch(
                    f"the body ends after {len(text)} bytes, within its JSON of {head.json_length}"
                )
        read = partial(plan_head, self._model, text, self._work.has_shared_memory)
        if len(text) <= REMEMBERED_BYTES:
            return read(), text
        plan, _ = await self._engine.run(read, len(text) * JSON_WEIGHT)
        return plan, text

    async def _receive(
        self, plan: Plan, head: InferenceHead, body: Body, lease: Lease
    ) -> Bytes | None:
        """The rest of the body: the tensor, or nothing."""
        if not isinstance(plan.source, oip.Binary):
            await body.fill(_NOTHING)
            return None
        nbytes = plan.source.byte_size
        if head.binary_length is not None:
            _check_binary(head.binary_length, nbytes)
        buffer = lease.take(nbytes)
        # What goes to a region is rounded on its way there.
        stays = plan.output.region is None
        progress = self._engine.ahead(plan.call, buffer, lease) if stays else None
        _check_binary(await body.fill(buffer.data, progress=progress), nbytes)
        return buffer

    async def _encoded(
        self, parts: list[bytes | memoryview], coding: str, executed_by: str
    ) -> Answer:
        """The answer, in the Content-Encoding that was asked for."""
        answer = _plain_answer(parts, executed_by)
        if coding != IDENTITY:
            encoded, _ = await self._engine.run(
                partial(encode, parts, coding), sum(map(len, parts)) * _ENCODING_WEIGHT
            )
            answer.parts = list(encoded)
            answer.headers.append((_CONTENT_ENCODING, coding.encode()))
        return answer


def _plain_answer(parts: list[bytes | memoryview], executed_by: str) -> Answer:
    headers: list[Header] = [(_EXECUTION_BACKEND, executed_by.encode())]
    if len(parts) == 1:
        return Answer(native.JSON, parts, headers=headers)
    headers.append((HEADER_LENGTH, str(len(parts[0])).encode()))
    return Answer(native.OCTET_STREAM, parts, headers=headers)


def _unstated_bytes(head: InferenceHead) -> int:
    """The most memory that a body takes beyond its stated length, before its plan is known."""
    if head.json_length == 0 and head.content_length is None:
        return 2 * MAX_GATHERED_BYTES  # in pieces, and joined
    return head.json_most * JSON_WEIGHT


def _check_binary(got: int, nbytes: int) -> None:
    if got != nbytes:
        raise PayloadSizeMismatch(
            f"the binary data must have {nbytes} bytes, as its shape and datatype say, got {got}"
        )
