"""The plan of an inference: the request resolved and checked, before its tensor is received."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import DType
from tensor_round.contract.errors import (
    Fault,
    InvalidDescriptor,
    PayloadSizeMismatch,
    TensorTooLarge,
)
from tensor_round.contract.layout import Layout, check_size
from tensor_round.contract.quoting import shown

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


@dataclass(frozen=True)
class InferencePlan:
    """The call on the packed tensor, the source of its bytes, and the form of the response."""

    model: Model
    request_id: str | None
    call: Call
    source: infer_json.Source
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

    @property
    def carrier(self) -> DType:
        """The type of the input in the messages: its own, or the type that carries its bits."""
        return _carrier(self.call.input.dtype)

    @property
    def output_carrier(self) -> DType:
        """The type of the output in the messages."""
        return _carrier(self.call.output.dtype)

    @cached_property
    def numbers(self) -> int:
        """The numbers of the output as JSON: its elements, or the bytes that carry them."""
        return self.call.output.byte_length // self.output_carrier.itemsize

    @cached_property
    def uses_regions(self) -> bool:
        """Whether the inference reads or writes registered shared memory."""
        return isinstance(self.source, infer_json.Region) or self.output.region is not None

    @cached_property
    def has_json_data(self) -> bool:
        """Whether the request or the response has numbers as JSON."""
        return isinstance(self.source, infer_json.Inline) or self.returns_json_data

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
        check_size(self.call.input, limit_bytes, "input")
        check_size(self.call.output, limit_bytes, "output")
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
        model.input, str(ADVERTISED.oip), (count,), {}, infer_json.Binary(nbytes)
    )
    return infer_json.Request(None, {}, (tensor,), (), binary_output=True)


def plan(model: Model, request: infer_json.Request) -> InferencePlan:
    """Resolve a request to a model, and check it against all rules of the model.

    Raises :class:`InvalidDescriptor`, and :class:`PayloadSizeMismatch` for a stated size that
    does not match the shape.
    """
    _refuse_misplaced_parameters(model, request)
    # A model has one input, so the input of a request may have any name.
    tensor = _the_only("inputs", request.inputs, model.name, model.input)
    call = _call(model, request, tensor)
    nbytes = call.input.byte_length
    if not isinstance(tensor.source, infer_json.Inline) and tensor.source.byte_size != nbytes:
        raise PayloadSizeMismatch(
            f"input {model.input} has {nbytes} bytes by its shape and datatype, "
            f"the request gives {shown(tensor.source.byte_size)}"
        )
    output = _output(model, request, call.output.byte_length)
    return InferencePlan(
        model,
        request.id,
        call,
        tensor.source,
        output,
        request.strict_json,
        request.header_length,
    )


def _call(model: Model, request: infer_json.Request, tensor: infer_json.Input) -> Call:
    operator = operator_for(model, request.parameters)
    with _placed("inputs", 0, "datatype"):
        dtype = element_type(model, tensor.datatype, _carried(request, tensor))
    shape = tensor.shape
    if dtype.is_sub_byte:  # its carrier's elements are bytes
        shape = (*shape[:-1], 2 * shape[-1]) if shape else (2,)
    with _placed("inputs", 0):
        resolved = operator.prepare(dtype.name, shape).call
    # A packed layout: DirectML's own would be padded to a multiple of 4 bytes.
    packed = Layout.of(dtype, resolved.input.shape)
    return Call.packed_output(resolved.function, packed, resolved.output.dtype)


def _carried(request: infer_json.Request, tensor: infer_json.Input) -> object:
    """The parameter ``dtype`` of the input, or of the request: some clients can set only that."""
    of_request = request.parameters.get("dtype")
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
    for name in sorted(PARAMETERS & set(request.parameters) - {*model.parameters}):
        raise InvalidDescriptor.at(("parameters", name), f"model {model.name} {has}")
    tensors: list[infer_json.Input | infer_json.Output] = [*request.inputs, *request.outputs]
    for tensor in tensors:
        for name in sorted(PARAMETERS & set(tensor.parameters)):
            rule = f"{name} belongs to the parameters of the request"
            raise InvalidDescriptor.at((shown(tensor.name), "parameters", name), rule)


@contextmanager
def _placed(*loc: str | int) -> Iterator[None]:
    """Locate the dialect's faults in the inference request, without repetitions."""
    try:
        yield
    except InvalidDescriptor as refusal:
        faults = dict.fromkeys(Fault(loc, fault.msg) for fault in refusal.faults)
        raise InvalidDescriptor.of([*faults]) from None
