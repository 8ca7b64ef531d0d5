"""A tensor as numbers in JSON, with its descriptor or in the short form."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tensor_round.contract.call import Call
from tensor_round.contract.errors import Fault, InvalidDescriptor, MissingDescriptor, RequestRefused
from tensor_round.contract.operators import registry
from tensor_round.contract.operators.model import unknown
from tensor_round.contract.progress import Pause, no_pause
from tensor_round.contract.wire import http_fields, strictjson

from ..codec import jsontensor, nesting
from ..codec.json_size import JSONSize, loads_exact, measure_json
from ..engine.engine import JSON_COST, Engine
from ..engine.job import Job
from ..net.bodies import read_all
from ..net.request import Request
from ..net.response import Response
from .operation import TensorOperation, json_response
from .query import parameters, saturate_of
from .tensor_route import content_of

_LIMITS = strictjson.Limits(
    http_fields.MAX_JSON_DEPTH, nesting.MAX_CONTAINERS, http_fields.MAX_JSON_MEMBERS
)
#: The members with numbers, in the order of a payload's tensors.
_NUMBERS = ("data", *registry.SHORT_PARAMETERS)
_MEMBERS = ("descriptor", *_NUMBERS)
#: The members of the short form; shapes may be those of the numbers.
_SHORT_MEMBERS = (*registry.SHORT_MEMBERS, "data")
#: Fields of all dialects that describe memory layouts, which numbers in JSON do not have.
_LAYOUT_FIELDS = frozenset({"strides", "byte_length", "Strides", "TotalTensorSizeInBytes"})


class JSONHandler:
    """Handles requests whose body is a JSON document; a thread works on long ones."""

    def __init__(self, operation: TensorOperation, engine: Engine) -> None:
        self._operation = operation
        self._engine = engine

    async def handle(self, request: Request, job: Job) -> Response:
        """Receive the document, and work on its tensor."""
        query = parameters(request.head.query, *self._operation.json_query)
        began = time.perf_counter()
        source, length = content_of(request, job, self._engine)
        content = await read_all(source, http_fields.MAX_JSON_LENGTH, job.reserve, length or 0)
        job.receive_seconds = time.perf_counter() - began
        work = partial(self._work, content, query, job)
        cost = max(len(content) * JSON_COST, self._operation.least_cost)
        parts = await self._engine.run_slowly(work, cost, job, is_timed=True)
        return json_response(parts, job)

    def _work(
        self, content: bytearray, query: Mapping[str, str], job: Job, pause: Pause
    ) -> list[bytes]:
        text = bytes(content)
        content.clear()
        size = measure_json(text, pause)
        job.reserve(size.nbytes)
        document = TensorDocument.read(text, query, pause, size)
        # The parsed numbers are freed before the response is written: they take more memory.
        with nesting.freed(document.numbers):
            text_bytes = max(0, self._operation.text_bytes(document) - size.nbytes)
            job.reserve(self._operation.needed_bytes(document.call) + text_bytes)
            memory = job.allocate(document.call.payload_bytes)
            end = 0
            for numbers in document.payload(pause):
                start, end = end, end + len(numbers)
                memory.data[start:end] = numbers
        return self._operation.respond_to_document(document, memory, job, pause)


@dataclass(slots=True)
class TensorDocument:
    """A JSON request: the call on packed tensors, and their numbers as parsed JSON."""

    dialect: str
    #: On packed tensors.
    call: Call
    #: Of each tensor in a payload, by the members that have them.
    numbers: dict[str, Any]

    @classmethod
    def read(
        cls,
        text: bytes,
        query: Mapping[str, str] = {},
        pause: Pause = no_pause,
        size: JSONSize | None = None,
    ) -> TensorDocument:
        """Parse and check a request; ``query`` may name the operator, and the target of a cast.

        A document without ``descriptor`` is in the short form: a descriptor's, and data.

        Raises :class:`MalformedJSON`, :class:`MissingDescriptor` or :class:`InvalidDescriptor`.
        """
        document = loads_exact(text, _LIMITS, size, pause)
        try:
            return cls._resolved(document, query)
        except RequestRefused:
            with nesting.freed(document):
                raise

    @classmethod
    def _resolved(cls, document: Any, query: Mapping[str, str]) -> TensorDocument:
        if not isinstance(document, dict):
            raise InvalidDescriptor.at((), "the JSON must be an object with descriptor and data")
        is_short = bool(query) or "descriptor" not in document
        members = _SHORT_MEMBERS if is_short else _MEMBERS
        if is_short and "operator" not in query and "operator" not in document:
            raise MissingDescriptor(
                "the JSON has neither descriptor nor operator; write "
                '{"operator": "onnx", "dtype": "float32", "data": [0.5]}'
            )
        faults = unknown(document, members, "field")
        if "data" not in document:
            faults.append(Fault(("data",), "is required"))
        faults += [Fault((name,), "is in the query too") for name in query if name in document]
        if faults:
            raise InvalidDescriptor.of(faults)
        if is_short:
            given = {name: document[name] for name in document if name not in _NUMBERS}
            given.update(query)
            if (saturate := saturate_of(query)) is not None:
                given["saturate"] = saturate
            given.setdefault("shape", _shape_of(document["data"]))
            for name in registry.SHORT_PARAMETERS:
                if document.get(name) is not None:
                    given[name] = {"shape": _shape_of(document[name])}
        else:
            given = document["descriptor"]
        registry.refuse_oversized(given)
        descriptor = strictjson.plain(given)
        described_by = registry.validate(descriptor)
        resolved = described_by.resolve()
        # DirectML has a scale for several elements by strides of 0.
        repeated = [*resolved.tensors][1:]
        if faults := list(_layout_faults(descriptor, ("descriptor",), repeated)):
            raise InvalidDescriptor.of(faults)
        call = resolved.without_gaps
        named = [name for name in _NUMBERS if name == "data" or document.get(name) is not None]
        wanted = _NUMBERS[: len(call.tensors)]
        faults = [Fault((name,), "is required") for name in wanted if name not in named]
        rule = "the descriptor has no such tensor"
        faults += [Fault((name,), rule) for name in named if name not in wanted]
        if faults:
            raise InvalidDescriptor.of(faults)
        return cls(described_by.dialect, call, {name: document[name] for name in named})

    def payload(self, pause: Pause = no_pause) -> Iterator[memoryview]:
        """The numbers of each tensor as packed bytes, each rounded once to its dtype."""
        layouts = self.call.tensors.values()
        for (name, numbers), layout in zip(self.numbers.items(), layouts, strict=True):
            shape, count = layout.shape, layout.element_count
            if name != "data" and len(_shape_of(numbers)) < 2:
                # Its layout has a dimension for each of the operand's.
                shape = () if count == 1 and type(numbers) is not list else (count,)
            yield jsontensor.read(numbers, layout.dtype, shape, loc=(name,), pause=pause)

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
                f"written as JSON; send the tensor as {http_fields.OCTET_STREAM} or "
                f"{http_fields.NPY}"
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


def _layout_faults(
    value: Any, loc: tuple[str | int, ...], but_for: Sequence[str]
) -> Iterator[Fault]:
    if isinstance(value, dict):
        for name, member in value.items():
            if name in but_for:
                continue
            if name in _LAYOUT_FIELDS and member is not None:
                rule = "JSON tensors are packed; this field is for application/octet-stream"
                yield Fault((*loc, name), rule)
            else:
                yield from _layout_faults(member, (*loc, name), but_for)
