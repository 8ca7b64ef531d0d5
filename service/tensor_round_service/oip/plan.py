"""The plan of an inference: the request resolved and checked, before its tensors are received."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from operator import attrgetter
from typing import Any, TypeVar

from tensor_round.contract.call import Call, ending
from tensor_round.contract.dtypes import DType
from tensor_round.contract.errors import (
    Fault,
    InvalidDescriptor,
    PayloadSizeMismatch,
    TensorTooLarge,
)
from tensor_round.contract.layout import Layout
from tensor_round.contract.quoting import not_accepted, shown

from ..codec import jsontensor
from ..engine.cost import call_cost
from ..net.bodies import Parts
from . import infer_json
from .models import ADVERTISED, CARRIER, PARAMETERS, Model, element_type, operator_for

NO_SHARED_MEMORY = (
    "shared memory is off: the service was started without --shared-memory-prefix "
    "(TENSOR_ROUND_SHARED_MEMORY_PREFIX)"
)
SYSTEM_MEMORY_OFF = f"system {NO_SHARED_MEMORY}"

#: Plans of headers up to this size are cached. Headers with many numbers are longer.
CACHED_HEADER_BYTES = 1024

#: Maximum count of numbers in a JSON response, as in a JSON request.
MAX_JSON_NUMBERS = 8 << 20


@dataclass(frozen=True, slots=True)
class PlannedInput:
    """An input: its place in the request, the source of its numbers, and their place in a payload.

    Several lie there one behind the other, in the order of the specification. ``carrier`` is the
    type in the messages, its own or the one that carries its bits, and ``shape`` that of those.
    """

    name: str
    position: int
    source: infer_json.Source
    carrier: DType
    shape: tuple[int, ...]
    part: slice


@dataclass(frozen=True)
class InferencePlan:
    """The call on packed tensors, the inputs for it, and the form of the response."""

    model: Model
    request_id: str | None
    call: Call
    #: In the order of a payload.
    inputs: tuple[PlannedInput, ...]
    output: infer_json.Output
    #: Whether NaNs and infinities in the response's JSON are strings.
    strict_json: bool
    #: Length in bytes of the request's JSON header, 0 without one.
    header_length: int

    @cached_property
    def dialect(self) -> str:
        """Name of the dialect, for metrics."""
        return self.model.operator.dialect

    @cached_property
    def cost(self) -> int:
        """See :func:`.cost.call_cost`."""
        return call_cost(self.call)

    @cached_property
    def following(self) -> dict[str, slice]:
        """The inputs that follow the request's header, in their order there: parts of a payload."""
        inputs = [each for each in self.inputs if isinstance(each.source, infer_json.Binary)]
        return {each.name: each.part for each in sorted(inputs, key=attrgetter("position"))}

    @cached_property
    def parts(self) -> list[slice]:
        """Those of the payload that follow the header; none if it does so as a whole."""
        is_whole = [*self.following] == [each.name for each in self.inputs]
        return [] if is_whole else [*self.following.values()]

    @cached_property
    def operand(self) -> infer_json.Source | None:
        """The source of a single input; None if there are several, which are gathered first."""
        return self.inputs[0].source if len(self.inputs) == 1 else None

    @cached_property
    def is_inline(self) -> bool:
        """Whether all inputs have their numbers in the header."""
        return all(isinstance(each.source, infer_json.Inline) for each in self.inputs)

    @cached_property
    def following_bytes(self) -> int:
        """The bytes that follow the request's header."""
        return sum(part.stop - part.start for part in self.following.values())

    def wrong_size(self, got: int) -> PayloadSizeMismatch:
        """The refusal of another number of bytes behind the header; it names where they end."""
        lengths = {name: part.stop - part.start for name, part in self.following.items()}
        return PayloadSizeMismatch(
            f"the binary data must have {self.following_bytes} bytes, as shape and datatype "
            f"say, got {got}{ending(got, lengths)}"
        )

    @cached_property
    def regions(self) -> list[infer_json.Region]:
        """The registered shared memory that the inference reads or writes."""
        places = [*(each.source for each in self.inputs), self.output.region]
        return [place for place in places if isinstance(place, infer_json.Region)]

    @cached_property
    def reads_json_data(self) -> bool:
        """Whether the request has numbers as JSON."""
        return any(isinstance(each.source, infer_json.Inline) for each in self.inputs)

    @property
    def output_carrier(self) -> DType:
        """The type of the output in the messages."""
        return _carrier(self.call.output.dtype)

    @cached_property
    def numbers(self) -> int:
        """The numbers of the output as JSON: its elements, or the bytes that carry them."""
        return self.call.output.byte_length // self.output_carrier.itemsize

    @cached_property
    def returns_json_data(self) -> bool:
        """Whether the response has the output's numbers as JSON."""
        return not (self.output.binary or self.output.region)

    @cached_property
    def text_bytes(self) -> int:
        """Memory for the output's numbers as JSON, with all temporary copies, in bytes."""
        if not self.returns_json_data:
            return 0
        return jsontensor.text_bytes(self.output_carrier, (self.numbers,))

    def check_sizes(self, limit_bytes: int) -> None:
        """Raise :class:`TensorTooLarge` for a tensor above the limit, or above that of JSON."""
        self.call.check_sizes(limit_bytes)
        count = self.numbers
        if self.returns_json_data and count > MAX_JSON_NUMBERS:
            raise TensorTooLarge(
                f"the output has {count} numbers, JSON responses have at most "
                f"{MAX_JSON_NUMBERS}; request binary data",
                limit_bytes=MAX_JSON_NUMBERS * self.output_carrier.itemsize,
                got_bytes=self.call.output.byte_length,
            )

    @cached_property
    def response_members(self) -> dict[str, str]:
        """The members of a response beside its output."""
        members = {"model_name": self.model.name, "model_version": self.model.version}
        return members if self.request_id is None else {"id": self.request_id, **members}

    @cached_property
    def response_output(self) -> dict[str, Any]:
        """The output in a response: its parameters are its dtype if carried, its region if any."""
        layout, region = self.call.output, self.output.region
        parameters: dict[str, str | int] = {}
        if self.output_carrier is not layout.dtype:
            parameters["dtype"] = layout.dtype.name
        if region is not None:
            parameters["shared_memory_region"] = region.name
            parameters["shared_memory_byte_size"] = layout.byte_length
            if region.offset:
                parameters["shared_memory_offset"] = region.offset
        return {
            "name": self.output.name,
            "datatype": str(self.output_carrier.oip),
            "shape": [*carried_shape(layout)],
            **({"parameters": parameters} if parameters else {}),
        }

    @cached_property
    def header_without_data(self) -> bytes:
        """The JSON header of a response without the output's numbers."""
        output = self.response_output
        if self.output.region is None:
            length = {"binary_data_size": self.call.output.byte_length}
            output = {**output, "parameters": {**output.get("parameters", {}), **length}}
        return b"".join(infer_json.write_response(self.response_members, output))

    def header_with_data(self, data: Parts) -> Parts:
        """The JSON header of a response with the output's numbers, given as JSON, in parts."""
        return infer_json.write_response(self.response_members, self.response_output, data)


def _carrier(dtype: DType) -> DType:
    return CARRIER if dtype.oip is None else dtype


def carried_shape(layout: Layout) -> tuple[int, ...]:
    """The shape of a tensor in the messages: of elements, or of bytes that have two each.

    The last dimension has half the size, if that is even; else all bytes are in one.
    """
    *others, last = layout.shape or (1,)
    if not layout.dtype.is_sub_byte:
        return layout.shape
    return (layout.byte_length,) if last % 2 else (*others, last // 2)


def raw_request(model: Model, nbytes: int) -> infer_json.Request:
    """A request without a header: the body is the input, of the advertised type."""
    count, rest = divmod(nbytes, ADVERTISED.itemsize)
    if rest or not count:
        raise PayloadSizeMismatch(
            f"the length of a raw {ADVERTISED.oip} body must be a positive multiple of "
            f"{ADVERTISED.itemsize} bytes, got {nbytes}"
        )
    tensor = infer_json.Input(
        model.inputs[0], str(ADVERTISED.oip), (count,), {}, infer_json.Binary(nbytes)
    )
    return infer_json.Request(None, {}, (tensor,), (), binary_output=True)


def plan(model: Model, request: infer_json.Request) -> InferencePlan:
    """Resolve a request to a model, and check it against all rules of the model.

    Raises :class:`InvalidDescriptor`, and :class:`PayloadSizeMismatch` for a stated size that
    does not match the shape.
    """
    _refuse_misplaced_parameters(model, request)
    given = _given(model, request)
    call = _call(model, request, given)
    inputs, end = [], 0
    for (name, (position, tensor)), layout in zip(
        given.items(), call.tensors.values(), strict=True
    ):
        nbytes, carrier = layout.byte_length, _carrier(layout.dtype)
        if carrier.nbytes(prod(tensor.shape)) != nbytes:
            # DirectML's strides repeat a scale where the zero point has several.
            rule = f"must have the sizes {[*layout.shape]} beside the other inputs"
            raise InvalidDescriptor.at(("inputs", position, "shape"), rule)
        if not isinstance(tensor.source, infer_json.Inline) and tensor.source.byte_size != nbytes:
            raise PayloadSizeMismatch(
                f"input {name} has {nbytes} bytes by its shape and datatype, "
                f"the request gives {shown(tensor.source.byte_size)}"
            )
        start, end = end, end + nbytes
        part = slice(start, end)
        inputs.append(PlannedInput(name, position, tensor.source, carrier, tensor.shape, part))
    output = _output(model, request, call.output.byte_length)
    return InferencePlan(
        model,
        request.id,
        call,
        tuple(inputs),
        output,
        request.strict_json,
        request.header_length,
    )


#: The inputs of a request by their names, in the order of a payload, with their positions.
_Given = Mapping[str, tuple[int, infer_json.Input]]


def _given(model: Model, request: infer_json.Request) -> _Given:
    """The inputs of a model; raises :class:`InvalidDescriptor` for missing and unknown ones."""
    names = model.inputs
    if len(names) == 1:  # it may have any name
        return {names[0]: (0, _the_only("inputs", request.inputs, model.name, names[0]))}
    found: dict[str, tuple[int, infer_json.Input]] = {}
    for position, tensor in enumerate(request.inputs):
        loc = ("inputs", position, "name")
        if tensor.name not in names:
            rule = f"model {model.name} has {', '.join(names)}"
            raise InvalidDescriptor.at(loc, not_accepted(tensor.name, names, rule))
        if tensor.name in found:
            raise InvalidDescriptor.at(loc, f"{tensor.name} is given twice")
        found[tensor.name] = position, tensor
    for name in names:
        if name not in found and not model.is_optional(name):
            raise InvalidDescriptor.at(("inputs",), f"model {model.name} needs {name}")
    return {name: found[name] for name in names if name in found}


def _call(model: Model, request: infer_json.Request, given: _Given) -> Call:
    operator = operator_for(model, request.parameters)
    types = [_type_of(model, request, name, *found) for name, found in given.items()]
    tensors: list[tuple[str, tuple[int, ...]]] = []
    for dtype, (_, tensor) in zip(types, given.values(), strict=True):
        shape = tensor.shape
        if dtype.is_sub_byte:  # its carrier's elements are bytes
            shape = (*shape[:-1], 2 * shape[-1]) if shape else (2,)
            if len(tensors) == 2 and dtype.nbytes(prod(tensors[1][1])) == prod(tensor.shape):
                shape = tensors[1][1]  # a zero point has that of its scale
        tensors.append((dtype.name, shape))
    with _placed(partial(_place, model, given)):
        return operator.prepare(*tensors[0], *tensors[1:]).call.without_gaps


def _type_of(
    model: Model, request: infer_json.Request, name: str, position: int, tensor: infer_json.Input
) -> DType:
    with _placed(lambda _: ("inputs", position, "datatype")):
        carried = _carried(request, tensor, is_only=len(model.inputs) == 1)
        return element_type(model, name, tensor.datatype, carried)


def _place(model: Model, given: _Given, loc: Sequence[str | int]) -> tuple[str | int, ...]:
    """The place in a request of a fault in a descriptor, which has the further inputs' names."""
    for name in model.inputs[1:]:
        if name in loc:
            return ("inputs", given[name][0]) if name in given else ("inputs", name)
    if len(model.inputs) > 1 and loc and loc[-1] in model.parameters:
        return ("parameters", loc[-1])
    return ("inputs", given[model.inputs[0]][0])


def _carried(request: infer_json.Request, tensor: infer_json.Input, *, is_only: bool) -> object:
    """The parameter ``dtype`` of the input, or of the request: some clients can set only that.

    That of the request is for the input, or of several for those that are UINT8.
    """
    of_request = request.parameters.get("dtype")
    if not is_only and tensor.datatype != CARRIER.oip:
        of_request = None
    of_input = tensor.parameters.get("dtype", of_request)
    if of_request not in (None, of_input):
        raise InvalidDescriptor.at(
            (), "the parameter dtype differs between the request and the input"
        )
    return of_input


def _output(model: Model, request: infer_json.Request, nbytes: int) -> infer_json.Output:
    if not request.outputs:
        return infer_json.Output(model.output, {}, request.binary_output, None)
    output = _the_only("outputs", request.outputs, model.name, model.output)
    if output.name != model.output:
        raise InvalidDescriptor.at(
            ("outputs", 0, "name"),
            f"the output of model {model.name} is {model.output}, got {shown(output.name)}",
        )
    if "classification" in output.parameters:
        raise InvalidDescriptor.at(
            ("outputs", 0, "parameters", "classification"), "is not supported"
        )
    if output.region is not None and output.region.byte_size < nbytes:
        raise PayloadSizeMismatch(
            f"output {model.output} has {nbytes} bytes, its shared_memory_byte_size is "
            f"{output.region.byte_size}"
        )
    return output


T = TypeVar("T", infer_json.Input, infer_json.Output)


def _the_only(member: str, tensors: Sequence[T], model: str, name: str) -> T:
    if len(tensors) != 1:
        got = ", ".join(shown(tensor.name) for tensor in tensors[:3]) or "none"
        raise InvalidDescriptor.at((member,), f"model {model} has exactly one, {name}, got {got}")
    return tensors[0]


def _refuse_misplaced_parameters(model: Model, request: infer_json.Request) -> None:
    """Refuse one of another model, or in the wrong place: if ignored, the result is wrong."""
    has = f"has {', '.join(model.parameters)}" if model.parameters else "has no modes"
    known = PARAMETERS[model.operator.kind]
    for name in sorted(known & set(request.parameters) - {*model.parameters}):
        raise InvalidDescriptor.at(("parameters", name), f"model {model.name} {has}")
    tensors: list[infer_json.Input | infer_json.Output] = [*request.inputs, *request.outputs]
    for tensor in tensors:
        for name in sorted(known & set(tensor.parameters)):
            rule = f"{name} belongs to the parameters of the request"
            raise InvalidDescriptor.at((shown(tensor.name), "parameters", name), rule)


@contextmanager
def _placed(place: Callable[[Sequence[str | int]], tuple[str | int, ...]]) -> Iterator[None]:
    """Locate the dialect's faults in the inference request, without repetitions."""
    try:
        yield
    except InvalidDescriptor as refusal:
        faults = dict.fromkeys(Fault(place(fault.loc), fault.msg) for fault in refusal.faults)
        raise InvalidDescriptor.of([*faults]) from None
