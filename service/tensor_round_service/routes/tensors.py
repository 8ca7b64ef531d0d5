"""Requests with one tensor, in one of three representations, for ``/round`` and ``/compare``.

The tensor is received from the socket into one buffer. What is done with it there is the route's.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl

from tensor_round.contract.call import RoundCall, wrong_size
from tensor_round.contract.errors import (
    DuplicateDescriptor,
    Fault,
    HeadersTooLarge,
    InvalidDescriptor,
    MalformedJSON,
    MalformedNpy,
    MissingDescriptor,
    RequestRefused,
    UnsupportedMediaType,
)
from tensor_round.contract.layout import Layout
from tensor_round.contract.operators import registry
from tensor_round.contract.operators.dialects.ieee754 import IEEE754Round
from tensor_round.contract.operators.operator import RoundOperator, as_operator
from tensor_round.contract.operators.registry import DIALECTS, operator_from_text
from tensor_round.contract.progress import Pause, no_pause
from tensor_round.contract.quoting import not_accepted
from tensor_round.contract.rounding import Rounding
from tensor_round.contract.wire import native, npy, strictjson

from ..backends import Bytes
from ..codec import jsontensor, nesting
from ..codec.json_size import JSONSize, loads_exact, measure_json
from ..content.sources import ByteSource, Progress, expect_end, read_all, read_up_to
from ..engine.engine import JSON_COST, Engine, rounding_cost
from ..engine.job import FIRST_BYTES, Job, admit
from ..http1.head import RequestHead
from ..http1.request import Request
from ..http1.response import FixedFields, Response, field_name, of_type
from .tensor_route import CODED, DESCRIPTOR, Handler, TensorRoute, content_of

_OUTPUT_DESCRIPTOR = field_name(native.OUTPUT_DESCRIPTOR)
_EXECUTION_BACKEND = field_name(native.EXECUTION_BACKEND)
_SERVER_TIMING = field_name(native.SERVER_TIMING)

#: Number of cached plans. A descriptor has at most 16 KiB.
_CACHED_PLANS = 1024

_NPY = of_type(native.NPY)
_JSON = of_type(native.JSON)

#: The representations, and what messages say of them.
_TYPES = (native.OCTET_STREAM, native.JSON, native.NPY)
_FORMS = (f"{native.OCTET_STREAM} with the header {native.OPERATOR_DESCRIPTOR}", *_TYPES[1:])
_LIMITS = strictjson.Limits(native.MAX_JSON_DEPTH, nesting.MAX_CONTAINERS, native.MAX_JSON_MEMBERS)
_MEMBERS = ("descriptor", "data")
#: The members of the short form; the shape may be that of the data.
_SHORT_MEMBERS = ("operator", "dtype", "shape", "data")
#: Maximum number of unknown fields in a refusal.
_LISTED_FAULTS = 32
#: Fields of all dialects that describe memory layouts, which numbers in JSON do not have.
_LAYOUT_FIELDS = frozenset({"strides", "byte_length", "Strides", "TotalTensorSizeInBytes"})


@dataclass(frozen=True, slots=True)
class Plan:
    """A request resolved and checked, before its tensor is received."""

    call: RoundCall
    #: Dialect and dtype.
    labels: tuple[str, str]
    #: Memory that the request needs, in bytes.
    needed_bytes: int
    #: See :func:`.engine.rounding_cost`.
    cost: int
    #: Of the response, if it has the representation of the request.
    fixed: FixedFields
    #: The header of a .npy file.
    header: bytes = b""
    #: Whether the elements are big-endian.
    is_swapped: bool = False


class TensorHandlers(TensorRoute, ABC):
    """A route with one handler for each representation; subclasses say what it does."""

    #: Parameters of the query with a .npy file, and with a JSON document.
    npy_query: tuple[str, ...]
    json_query: tuple[str, ...] = ()
    #: The least cost of work on a document; see :meth:`.Engine.run`.
    least_cost = 0

    def __init__(self, engine: Engine, max_tensor_bytes: int) -> None:
        super().__init__(engine, self._select)
        self._limit = max_tensor_bytes
        # Refusals are not cached.
        self._plan = lru_cache(_CACHED_PLANS)(self._make_plan)

    @abstractmethod
    def needed_bytes(self, call: RoundCall) -> int:
        """The memory that a call needs; raises a refusal for one that the route does not have."""

    @abstractmethod
    async def respond(self, plan: Plan, memory: Bytes, job: Job, received: float) -> Response:
        """Work on a received tensor; ``received`` is the time that took, in seconds."""

    @abstractmethod
    def respond_to_document(
        self, document: Document, memory: Bytes, job: Job, pause: Pause
    ) -> list[bytes]:
        """Work on the tensor of a document; return the JSON of the response, in parts."""

    def text_bytes(self, document: Document) -> int:
        """The memory for the JSON of the response; raises a refusal if there would be too much."""
        return 0

    def overlap(self, plan: Plan, memory: Bytes, job: Job) -> Progress | None:
        """What to do while the tensor is being received; by default nothing."""
        return None

    def _select(self, content_type: bytes, has_descriptor: bool) -> Handler:
        """The handler of a Content-Type; raises :class:`UnsupportedMediaType`."""
        match native.media_type(content_type.decode("latin-1")):
            case "" | native.OCTET_STREAM:
                return self._octets
            case native.FORM if has_descriptor:
                return self._octets
            case native.JSON | native.NPY as other if has_descriptor:
                raise UnsupportedMediaType(
                    f"with the header {native.OPERATOR_DESCRIPTOR}, Content-Type must be "
                    f"{native.OCTET_STREAM}, got {other}"
                )
            case native.JSON:
                return self._json
            case native.NPY:
                return self._npy
        raise UnsupportedMediaType(
            f"Content-Type: {not_accepted(content_type.decode('latin-1'), _TYPES, listed=_FORMS)}"
        )

    async def _octets(self, request: Request, job: Job) -> Response:
        """A tensor's bytes; the header ``Operator-Descriptor`` has the descriptor."""
        head = request.head
        if head.query:
            _parameters(head)
        if DESCRIPTOR in head.repeated:
            raise _repeated(head)
        plan = self._plan(head.values.get(DESCRIPTOR))
        source: ByteSource = request
        length = head.length
        if not CODED.isdisjoint(head.values):
            source, length = content_of(request, job, self._engine)
        if length is not None and length not in plan.call.lengths:
            raise wrong_size(length, plan.call.lengths)
        began = time.perf_counter()
        memory = await self._receive(plan, source, job)
        return await self.respond(plan, memory, job, time.perf_counter() - began)

    async def _npy(self, request: Request, job: Job) -> Response:
        """A .npy file."""
        query = _parameters(request.head, *self.npy_query)
        operator = _operator_of(query)
        began = time.perf_counter()
        source, length = content_of(request, job, self._engine)
        header = await _npy_header(source)
        dtype = npy.resolve_dtype(header, query.get("dtype"))
        layout = header.layout(dtype)
        call = RoundCall(_rounding_of(operator, layout), layout, layout, layout.byte_length)
        needed = self.needed_bytes(call)
        whole = header.header_length + layout.byte_length
        if length not in (None, whole):
            raise wrong_size(length, (whole,))
        plan = Plan(
            call,
            (_dialect_of(query), dtype.name),
            needed,
            rounding_cost(call),
            _NPY,
            header.raw,
            header.byte_order == "big",
        )
        memory = await self._receive(plan, source, job)
        return await self.respond(plan, memory, job, time.perf_counter() - began)

    async def _json(self, request: Request, job: Job) -> Response:
        """A JSON document with descriptor and numbers; a thread handles long ones."""
        query = _parameters(request.head, *self.json_query)
        began = time.perf_counter()
        source, length = content_of(request, job, self._engine)
        content = bytes(await read_all(source, native.MAX_JSON_LENGTH, job.reserve, length or 0))
        received = time.perf_counter() - began
        work = partial(self._work_on_document, content, query.get("operator"), job)
        cost = max(len(content) * JSON_COST, self.least_cost)
        parts = await self._engine.run_slowly(work, cost, job, is_timed=True)
        return json_response(parts, job, received)

    def _work_on_document(
        self, text: bytes, operator: str | None, job: Job, pause: Pause
    ) -> list[bytes]:
        size = measure_json(text, pause)
        job.reserve(size.nbytes)
        document = Document.read(text, operator, pause, size)
        # The parsed numbers are freed before the response is written: they take more memory.
        with nesting.freed(document.data):
            text_bytes = max(0, self.text_bytes(document) - size.nbytes)
            job.reserve(self.needed_bytes(document.call) + text_bytes)
            memory = job.allocate(document.call.input.byte_length)
            memory.data[:] = document.payload(pause)
        return self.respond_to_document(document, memory, job, pause)

    async def _receive(self, plan: Plan, source: ByteSource, job: Job) -> Bytes:
        """Reserve the memory, and receive the tensor into it."""
        nbytes, progress = plan.call.input.byte_length, None
        if plan.needed_bytes <= FIRST_BYTES:
            job.reserve(plan.needed_bytes)
            memory = job.allocate(nbytes)
        else:
            source = await admit(source, job, plan.needed_bytes)
            memory = job.allocate(nbytes)
            progress = self.overlap(plan, memory, job)
        got = await source.receive_into(memory.data, progress)
        if not source.is_at_end:
            await expect_end(source, nbytes)
        if got < nbytes:
            if got not in plan.call.lengths:
                raise wrong_size(got, plan.call.lengths)
            memory[got:] = 0
        return memory

    def _make_plan(self, descriptor: bytes | None) -> Plan:
        """The plan for a value of ``Operator-Descriptor``; refuses a missing or long one."""
        name, limit = native.OPERATOR_DESCRIPTOR, native.MAX_DESCRIPTOR_LENGTH
        if descriptor is None:
            raise MissingDescriptor(
                f"the header {name} with the operator as JSON is missing; "
                "GET /operators lists the operators"
            )
        if len(descriptor) > limit:
            raise HeadersTooLarge(f"the header {name} has more than {limit} bytes")
        described_by = registry.parse(descriptor)
        call = described_by.resolve()
        return Plan(
            call,
            (described_by.dialect, call.input.dtype.name),
            self.needed_bytes(call),
            rounding_cost(call),
            of_type(
                native.OCTET_STREAM,
                (_OUTPUT_DESCRIPTOR, native.output_descriptor(call.output)),
            ),
        )


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


def json_response(parts: Sequence[bytes], job: Job, received: float) -> Response:
    """A response of JSON, with timings."""
    return response(_JSON, parts, job, received)


def _repeated(head: RequestHead) -> DuplicateDescriptor:
    count = sum(field == DESCRIPTOR for field, _ in head.fields)
    name = native.OPERATOR_DESCRIPTOR
    return DuplicateDescriptor(f"the request has the header {name} {count} times; send it once")


def _parameters(head: RequestHead, *known: str) -> dict[str, str]:
    """The parameters of the query; unknown and repeated ones are refused, not ignored."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(head.query.decode("latin-1"), keep_blank_values=True):
        if name not in known:
            rule = not_accepted(name, known, wrong="unknown parameter")
            raise InvalidDescriptor.of([Fault(("query", name[:40]), rule)])
        if name in found:
            raise InvalidDescriptor.of([Fault(("query", name), "given more than once")])
        found[name] = value
    return found


async def _npy_header(source: ByteSource) -> npy.NpyHeader:
    """Read the header of a .npy file."""
    start = b""
    while isinstance(header := npy.read_header(start), int):
        piece = await read_up_to(source, header)
        if not piece:
            raise MalformedNpy("the file ends within its header")
        start += piece
    return header


def _operator_of(query: dict[str, str]) -> RoundOperator:
    """The operator in a query: ``?operator=directml:TOWARD_INFINITY`` or ``?rounding=``.

    Raises :class:`InvalidDescriptor`.
    """
    if "operator" in query and "rounding" in query:
        fault = Fault(("query", "rounding"), "cannot be combined with operator")
        raise InvalidDescriptor.of([fault])
    if "operator" in query:
        return operator_from_text(query["operator"], ("query", "operator"))
    name = query.get("rounding", Rounding.TIES_TO_EVEN.value)
    try:
        return as_operator(Rounding(name))
    except ValueError:
        fault = Fault(("query", "rounding"), not_accepted(name, Rounding))
        raise InvalidDescriptor.of([fault]) from None


def _dialect_of(query: dict[str, str]) -> str:
    """The dialect of the operator that :func:`_operator_of` has found in a query."""
    name, _, _ = query.get("operator", "").partition(":")
    return name if name in DIALECTS else "ieee754"


def _rounding_of(operator: RoundOperator, layout: Layout) -> Rounding:
    """The rounding of an operator; raises :class:`InvalidDescriptor` if it refuses the tensor."""
    if isinstance(operator, IEEE754Round):
        return Rounding(operator.rounding)  # ieee754 accepts the rank of every .npy file
    return operator.prepare(layout.dtype.name, layout.shape).call.rounding


@dataclass(slots=True)
class Document:
    """A JSON request: the call on the packed tensor, and its numbers as parsed JSON."""

    dialect: str
    #: On the packed tensor.
    call: RoundCall
    data: Any

    @classmethod
    def read(
        cls,
        text: bytes,
        operator: str | None = None,
        pause: Pause = no_pause,
        size: JSONSize | None = None,
    ) -> Document:
        """Parse and check a request; ``operator`` is the one that its query names, if any.

        A document without ``descriptor`` is in the short form: a descriptor's, and data.

        Raises :class:`MalformedJSON`, :class:`MissingDescriptor` or :class:`InvalidDescriptor`.
        """
        document = loads_exact(text, _LIMITS, size, pause)
        try:
            return cls._resolved(document, operator)
        except RequestRefused:
            with nesting.freed(document):
                raise

    @classmethod
    def _resolved(cls, document: Any, operator: str | None) -> Document:
        if not isinstance(document, dict):
            raise MalformedJSON("the JSON must be an object with descriptor and data")
        is_short = operator is not None or "descriptor" not in document
        members = _SHORT_MEMBERS if is_short else _MEMBERS
        if is_short and operator is None and "operator" not in document:
            raise MissingDescriptor(
                "the JSON has neither descriptor nor operator; write "
                '{"operator": "onnx", "dtype": "float32", "data": [0.5]}'
            )
        faults = [
            Fault((name[:40],), not_accepted(name, members, wrong="unknown field"))
            for name in islice((n for n in document if n not in members), _LISTED_FAULTS)
        ]
        if "data" not in document:
            faults.append(Fault(("data",), "is required"))
        if operator is not None and "operator" in document:
            faults.append(Fault(("operator",), "is in the query too"))
        if faults:
            raise InvalidDescriptor.of(faults)
        if is_short:
            given = {name: document[name] for name in document if name != "data"}
            if operator is not None:
                given["operator"] = operator
            given.setdefault("shape", _shape_of(document["data"]))
        else:
            given = document["descriptor"]
        registry.refuse_oversized(given)
        descriptor = strictjson.plain(given)
        described_by = registry.validate(descriptor)
        resolved = described_by.resolve()
        if faults := list(_layout_faults(descriptor, ("descriptor",))):
            raise InvalidDescriptor.of(faults)
        packed = Layout.of(resolved.input.dtype, resolved.input.shape)
        call = RoundCall(resolved.rounding, packed, packed, packed.byte_length)
        return cls(described_by.dialect, call, document["data"])

    def payload(self, pause: Pause = no_pause) -> memoryview:
        """The numbers as packed bytes, each rounded once to the dtype."""
        return jsontensor.read(self.data, self.call.input.dtype, self.call.input.shape, pause=pause)

    def response_bytes(self) -> int:
        """The most memory that :meth:`response` needs.

        Raises :class:`InvalidDescriptor` for a shape that nests more arrays than a document may
        have; the numbers of a request may be one flat array.
        """
        layout = self.call.output
        count = nesting.arrays(layout.shape)
        if count > nesting.MAX_CONTAINERS and layout.element_count:
            rule = (
                f"the response would have {count} arrays, at most {nesting.MAX_CONTAINERS} are "
                f"written as JSON; send the tensor as {native.OCTET_STREAM} or {native.NPY}"
            )
            raise InvalidDescriptor.of([Fault(("data",), rule)])
        return jsontensor.text_bytes(layout.dtype, layout.shape)

    def response(self, payload: memoryview, pause: Pause = no_pause) -> list[bytes]:
        """The JSON response for the rounded bytes, in parts."""
        layout = self.call.output
        output = strictjson.dumps({"dtype": layout.dtype.name, "shape": list(layout.shape)})
        data = jsontensor.write(payload, layout.dtype, layout.shape, pause=pause)
        return [b'{"output":' + output + b',"data":', *data, b"}"]


def _shape_of(data: Any) -> list[int]:
    """The shape of nested lists, by the first element of each; one number has no dimension."""
    shape = []
    while isinstance(data, list):
        shape.append(len(data))
        data = data[0] if data else None
    return shape


def _layout_faults(value: Any, loc: tuple[str | int, ...]) -> Iterator[Fault]:
    if isinstance(value, dict):
        for name, member in value.items():
            if name in _LAYOUT_FIELDS and member is not None:
                rule = "JSON tensors are packed; this field is for application/octet-stream"
                yield Fault((*loc, name), rule)
            else:
                yield from _layout_faults(member, (*loc, name))
