"""An inference request to a model: what there is to do, before any number is received."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from tensor_round.call import RoundCall
from tensor_round.dtypes import BY_NAME, DType
from tensor_round.errors import (
    Fault,
    InvalidDescriptor,
    NotOffered,
    PayloadSizeMismatch,
    TensorTooLarge,
)
from tensor_round.layout import Layout, check_size
from tensor_round.quoting import shown
from tensor_round.wire import jsontensor, oip, oip_request, oip_response

from .models import CARRIER, MODE_PARAMETERS, Model, element_type, operator_for

#: What metadata states for every tensor; any other type that the dialect allows is taken too.
ADVERTISED = BY_NAME["float32"]

NO_SHARED_MEMORY = (
    "shared memory is off: the service was started without --shared-memory-prefix "
    "(TENSOR_ROUND_SHARED_MEMORY_PREFIX)"
)
SYSTEM_MEMORY_OFF = f"system {NO_SHARED_MEMORY}"

#: A number of an output in JSON is text in a part, in the joined parts, as bytes and in the
#: response; in the block that is worked on it is a string of Python's too.
_COPIES = 4
_STRING_BYTES = 80
#: As many numbers go out in JSON as can come in; larger tensors are for binary data.
MAX_JSON_NUMBERS = 8 << 20


@dataclass(frozen=True)
class Plan:
    """The call on the packed tensor, where its bytes come from, and how they are answered."""

    model: Model
    request_id: str | None
    call: RoundCall
    source: oip.Source
    output: oip.Output
    #: Whether NaNs and infinities in the answer's JSON are strings.
    strict_json: bool = False

    @property
    def carrier(self) -> DType:
        """The type that the tensor has on the wire: its own, or the one that carries its bits."""
        dtype = self.call.input.dtype
        return CARRIER if dtype.oip is None else dtype

    @cached_property
    def uses_regions(self) -> bool:
        """Whether it reads or writes memory that a client has registered."""
        return isinstance(self.source, oip.Region) or self.output.region is not None

    @property
    def answers_in_text(self) -> bool:
        """Whether the output's numbers go into the answer's head."""
        return not (self.output.binary or self.output.region)

    @cached_property
    def text_bytes(self) -> int:
        """The memory of numbers that go out in JSON, with what else there is of them meanwhile."""
        if not self.answers_in_text:
            return 0
        count = self.call.output.element_count
        longest = jsontensor.longest_number(self.carrier) + 1
        return count * longest * _COPIES + min(count, jsontensor.BLOCK) * _STRING_BYTES

    def check_sizes(self, limit_bytes: int) -> None:
        """Refuse a tensor over the limit, or over JSON's, with :class:`TensorTooLarge`."""
        check_size(self.call.input, limit_bytes, "input")
        count = self.call.output.element_count
        if self.answers_in_text and count > MAX_JSON_NUMBERS:
            raise TensorTooLarge(
                f"the output has {count} elements, at most {MAX_JSON_NUMBERS} go out in JSON; "
                "ask for binary data",
                limit_bytes=MAX_JSON_NUMBERS * self.carrier.itemsize,
                got_bytes=self.call.output.byte_length,
            )

    @cached_property
    def bare_head(self) -> bytes:
        """The head of an answer whose numbers are not in it."""
        nbytes = self.call.output.byte_length
        region = self.output.region
        if region is None:
            return self._head({"binary_data_size": nbytes}, None)
        parameters: dict[str, str | int] = {
            "shared_memory_region": region.name,
            "shared_memory_byte_size": nbytes,
        }
        if region.offset:
            parameters["shared_memory_offset"] = region.offset
        return self._head(parameters, None)

    def full_head(self, data: bytes) -> bytes:
        """The head of an answer that has the numbers in it, as this JSON."""
        return self._head({}, data)

    def _head(self, parameters: dict[str, str | int], data: bytes | None) -> bytes:
        if self.carrier is not self.call.output.dtype:
            parameters = {"dtype": self.call.output.dtype.name, **parameters}
        output = oip_response.ResponseOutput(
            name=self.output.name,
            datatype=str(self.carrier.oip),
            shape=self.call.output.shape,
            parameters=parameters,
            data=data,
        )
        return oip_response.write_response(
            self.model.name, self.model.version, self.request_id, [output]
        )


def plan_head(model: Model, head: bytes, shared_memory: bool) -> Plan:
    """The plan for a request's JSON head.

    Raises what :func:`.oip_request.read_request` and :func:`plan` raise, and :class:`NotOffered`
    for shared memory where there is none.
    """
    request = oip_request.read_request(head)
    if request.uses_shared_memory and not shared_memory:
        raise NotOffered(NO_SHARED_MEMORY)
    return plan(model, request)


def plan_raw(model: Model, nbytes: int) -> Plan:
    """The plan for a body without a head: the bytes of the one input, as it is advertised."""
    count, rest = divmod(nbytes, ADVERTISED.itemsize)
    if rest or not count:
        raise PayloadSizeMismatch(
            f"a body that is one raw {ADVERTISED.oip} tensor must have a multiple of "
            f"{ADVERTISED.itemsize} bytes, and some, got {nbytes}"
        )
    tensor = oip.Input(model.input, str(ADVERTISED.oip), (count,), {}, oip.Binary(nbytes))
    return plan(model, oip.Request(None, {}, (tensor,), (), binary_output=True))


def plan(model: Model, request: oip.Request) -> Plan:
    """What a request asks of a model, every rule of the model's checked.

    Raises :class:`InvalidDescriptor`, or :class:`PayloadSizeMismatch` where the sizes that
    the request states are not those of its shape.
    """
    _refuse_misplaced_modes(model, request)
    # There is one input, so one tensor is meant for it, however its sender calls it.
    tensor = _the_only("inputs", request.inputs, model.name, model.input)
    call = _call(model, request, tensor)
    nbytes = call.input.byte_length
    if not isinstance(tensor.source, oip.Inline) and tensor.source.byte_size != nbytes:
        raise PayloadSizeMismatch(
            f"input {model.input} has {nbytes} bytes by its shape and datatype, "
            f"{shown(tensor.source.byte_size)} by its parameters"
        )
    output = _output(model, request, nbytes)
    return Plan(model, request.id, call, tensor.source, output, request.strict_json)


def _call(model: Model, request: oip.Request, tensor: oip.Input) -> RoundCall:
    mode_parameter = str(model.mode_parameter)
    try:
        operator = operator_for(model, request.parameters.get(mode_parameter))
    except InvalidDescriptor as refusal:
        raise _placed(refusal, "parameters", mode_parameter) from None
    try:
        dtype = element_type(model, tensor.datatype, _carried(request, tensor))
    except InvalidDescriptor as refusal:
        raise _placed(refusal, "inputs", 0, "datatype") from None
    try:
        resolved = operator.prepare(dtype.name, tensor.shape).call
    except InvalidDescriptor as refusal:
        raise _placed(refusal, "inputs", 0) from None
    # DirectML counts a tensor's bytes in fours; the protocol counts its elements.
    packed = Layout.of(dtype, resolved.input.shape)
    return RoundCall(resolved.rounding, packed, packed, packed.byte_length)


def _carried(request: oip.Request, tensor: oip.Input) -> object:
    """The parameter ``dtype`` of the input; some clients can set parameters of requests only."""
    of_request = request.parameters.get("dtype")
    of_input = tensor.parameters.get("dtype", of_request)
    if of_request not in (None, of_input):
        raise _refusal((), "the parameter dtype of the request is not the input's")
    return of_input


def _output(model: Model, request: oip.Request, nbytes: int) -> oip.Output:
    if not request.outputs:
        return oip.Output(model.output, {}, request.binary_output, None)
    output = _the_only("outputs", request.outputs, model.name, model.output)
    if output.name != model.output:
        raise _refusal(
            ("outputs", 0, "name"),
            f"the output of model {model.name} is {model.output}, got {shown(output.name)}",
        )
    if "classification" in output.parameters:
        raise _refusal(("outputs", 0, "parameters", "classification"), "tensors have no classes")
    if output.region is not None and output.region.byte_size < nbytes:
        raise PayloadSizeMismatch(
            f"output {model.output} has {nbytes} bytes, its shared_memory_byte_size is "
            f"{output.region.byte_size}"
        )
    return output


T = TypeVar("T", oip.Input, oip.Output)


def _the_only(member: str, tensors: Sequence[T], model: str, name: str) -> T:
    if len(tensors) != 1:
        got = ", ".join(shown(tensor.name) for tensor in tensors[:3]) or "none"
        raise _refusal((member,), f"model {model} has exactly one, {name}, got {got}")
    return tensors[0]


def _refuse_misplaced_modes(model: Model, request: oip.Request) -> None:
    """Refuse a mode that would be passed over: that would be a wrong answer, not a tolerant one."""
    has = f"has {model.mode_parameter}" if model.mode_parameter else "has no modes"
    for name in sorted(MODE_PARAMETERS & set(request.parameters) - {model.mode_parameter}):
        raise _refusal(("parameters", name), f"model {model.name} {has}")
    tensors: list[oip.Input | oip.Output] = [*request.inputs, *request.outputs]
    for tensor in tensors:
        for name in sorted(MODE_PARAMETERS & set(tensor.parameters)):
            rule = f"{name} belongs to the parameters of the request"
            raise _refusal((shown(tensor.name), "parameters", name), rule)


def _placed(refusal: InvalidDescriptor, *loc: str | int) -> InvalidDescriptor:
    """The dialect's faults, where the request has what they are about, each once."""
    return InvalidDescriptor.of(list(dict.fromkeys(Fault(loc, f.msg) for f in refusal.faults)))


def _refusal(loc: tuple[str | int, ...], rule: str) -> InvalidDescriptor:
    return InvalidDescriptor.of([Fault(loc, rule)])
