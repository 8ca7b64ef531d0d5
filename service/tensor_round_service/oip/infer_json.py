"""Inference requests and responses of the Open Inference Protocol (``/v2``): JSON, plain values.

The JSON object of a request is its inference header. A tensor's numbers are in the header
(``data``), follow it as bytes (the binary extension), or are in memory that both sides share (the
shared-memory extension). Models, and their rules on names, dtypes and shapes, are not defined
here. The other rules are those of the protocol and its extensions. Requests that Triton accepts
with a part of them ignored are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from tensor_round.contract.errors import (
    InvalidDescriptor,
    MalformedJSON,
    RequestRefused,
    TensorTooLarge,
)
from tensor_round.contract.progress import Pause, no_pause
from tensor_round.contract.quoting import shown, shown_key
from tensor_round.contract.wire import strictjson

from ..codec import nesting
from ..codec.json_size import JSONSize, loads_exact

#: The HTTP field with the length of the inference header, in bytes of the uncompressed body.
HEADER_LENGTH = "Inference-Header-Content-Length"
#: What a request without it may lack.
NEEDS_HEADER_LENGTH = f"bytes after the JSON need its length in {HEADER_LENGTH}"
#: The longest inference header without ``data``, in bytes.
MAX_BARE_HEADER_LENGTH = 64 << 10
#: The longest inference header, in bytes.
MAX_HEADER_LENGTH = MAX_BARE_HEADER_LENGTH + (16 << 20)
#: Object members, and values outside ``data``: more than fit into a header without ``data``.
MAX_HEADER_VALUES = MAX_BARE_HEADER_LENGTH // 2
#: The deepest nesting: request, inputs, input and parameters, and arrays of the highest rank.
MAX_HEADER_DEPTH = 4 + 64
_LIMITS = strictjson.Limits(MAX_HEADER_DEPTH, nesting.MAX_CONTAINERS, MAX_HEADER_VALUES)

#: The end of a response's header: of its last output, of all outputs, and of the document.
_END = b"}]}"

Parameters: TypeAlias = Mapping[str, str | int | float | bool]

Loc: TypeAlias = tuple[str | int, ...]
T = TypeVar("T")
_KINDS: dict[type, str] = {
    str: "a string",
    int: "an integer",
    bool: "true or false",
    list: "an array",
    dict: "an object",
}


@dataclass(frozen=True, slots=True)
class Inline:
    """The numbers are in the inference header, in the form of :func:`.jsontensor.read`."""

    data: Any


@dataclass(frozen=True, slots=True)
class Binary:
    """The numbers follow the inference header, as ``byte_size`` little-endian bytes."""

    byte_size: int


@dataclass(frozen=True, slots=True)
class Region:
    """``byte_size`` bytes of a registered region of shared memory, from ``offset`` on."""

    name: str
    byte_size: int
    offset: int


Source: TypeAlias = Inline | Binary | Region


@dataclass(frozen=True, slots=True)
class Input:
    """An input tensor of a request."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: Parameters
    source: Source


@dataclass(frozen=True, slots=True)
class Output:
    """A requested output: written into ``region``, sent as bytes if ``binary``, or else as JSON."""

    name: str
    parameters: Parameters
    binary: bool
    region: Region | None


@dataclass(frozen=True, slots=True)
class Request:
    """An inference request. Without ``outputs`` all are sent, as bytes if ``binary_output``.

    With ``strict_json`` NaNs and infinities in the response are strings instead of the bare tokens
    that most clients of the protocol read and write. KServe's does not; its requests over HTTP
    have ``model_name``.
    """

    id: str | None
    parameters: Parameters
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    binary_output: bool
    strict_json: bool = False
    #: Length in bytes of the header that it was read from.
    header_length: int = field(default=0, compare=False)

    @property
    def data(self) -> list[Any]:
        """The numbers of all inputs that have them in the header."""
        return [each.source.data for each in self.inputs if isinstance(each.source, Inline)]

    @property
    def uses_shared_memory(self) -> bool:
        """Whether any input or output is in a region."""
        return any(isinstance(tensor.source, Region) for tensor in self.inputs) or any(
            output.region is not None for output in self.outputs
        )


def read_header_length(value: str) -> int:
    """Parse :data:`HEADER_LENGTH`; 0 means that the whole body is one raw tensor."""
    if not (value.isascii() and value.isdigit() and len(value) < 20):
        raise InvalidDescriptor.at(
            (HEADER_LENGTH,), f"must be a number of bytes, got {shown(value)}"
        )
    return int(value)


def read_request(header: bytes, pause: Pause = no_pause, size: JSONSize | None = None) -> Request:
    """The request in an inference header; ``pause`` is called while it is parsed.

    ``size`` is that of the header's JSON, if it is known.

    Unknown members are ignored, as the protocol demands; null is an absent optional member.
    Raises :class:`MalformedJSON`, :class:`InvalidDescriptor` for wrong or missing members, and
    :class:`TensorTooLarge` for a header over its limit.
    """
    check_header_length(len(header))
    if not header:
        raise MalformedJSON("the body is empty: an inference request is a JSON object")
    document = loads_exact(header, _LIMITS, size, pause)
    data: list[Any] = []
    try:
        return _request(document, data, len(header))
    except RequestRefused:
        with nesting.freed([document, data]):
            raise


def _request(document: Any, data: list[Any], length: int) -> Request:
    """The request of a document of this length, of whose inputs the numbers come to ``data``."""
    if not isinstance(document, dict):
        raise InvalidDescriptor.at((), "an inference request must be a JSON object")
    listed = _member(document, "inputs", list, ())
    # The numbers stay text until their tensor's dtype is known.
    data += [entry.pop("data", None) if isinstance(entry, dict) else None for entry in listed]
    if length > MAX_BARE_HEADER_LENGTH and all(numbers is None for numbers in data):
        raise _too_long(MAX_BARE_HEADER_LENGTH)
    values, characters = strictjson.extent(document, MAX_HEADER_VALUES)
    if values > MAX_HEADER_VALUES:
        raise MalformedJSON(f"the JSON has more than {MAX_HEADER_VALUES} values beside the data")
    if characters > MAX_BARE_HEADER_LENGTH:
        most = f"{MAX_BARE_HEADER_LENGTH} characters"
        raise MalformedJSON(f"the JSON has a text of more than {most} beside the data")
    return request_of(strictjson.plain(document), data, header_length=length)


def request_of(
    members: Mapping[str, Any],
    data: Sequence[Any],
    *,
    binary_output: bool = False,
    header_length: int = 0,
) -> Request:
    """The request with these members; ``data`` are those of its inputs, None without numbers.

    Without a parameter for it, outputs are as ``binary_output`` says. Raises as
    :func:`read_request`.
    """
    parameters = _parameters(members, ())
    given = _parameter(parameters, "binary_data_output", bool, ())
    binary_output = binary_output if given is None else given
    strict = _parameter(parameters, "strict_json", bool, ())
    for name in ("priority", "timeout"):  # hints for a scheduler: checked, then ignored
        _size(parameters, name, ())
    return Request(
        id=_optional(members, "id", str, ()),
        parameters=parameters,
        inputs=tuple(
            _input(entry, numbers, ("inputs", position))
            for position, (entry, numbers) in enumerate(zip(members["inputs"], data, strict=True))
        ),
        outputs=tuple(
            _output(entry, binary_output, ("outputs", position))
            for position, entry in enumerate(_optional(members, "outputs", list, ()) or ())
        ),
        binary_output=binary_output,
        strict_json="model_name" in members if strict is None else strict,
        header_length=header_length,
    )


def check_header_length(length: int) -> None:
    """Raise :class:`TensorTooLarge` for an inference header over its limit."""
    if length > MAX_HEADER_LENGTH:
        raise _too_long(MAX_HEADER_LENGTH)


def _input(entry: Any, data: Any, loc: Loc) -> Input:
    members = _typed(entry, dict, loc)
    shape = _member(members, "shape", list, loc)
    for position, size in enumerate(shape):
        _typed(size, int, (*loc, "shape", position))
    parameters = _parameters(members, loc)
    return Input(
        name=_member(members, "name", str, loc),
        datatype=_member(members, "datatype", str, loc),
        shape=tuple(shape),
        parameters=parameters,
        source=_source(data, parameters, loc),
    )


def _source(data: Any, parameters: Parameters, loc: Loc) -> Source:
    byte_size = _size(parameters, "binary_data_size", loc)
    sources: list[Source | None] = [
        None if data is None else Inline(data),
        None if byte_size is None else Binary(byte_size),
        _region(parameters, loc),
    ]
    given = [source for source in sources if source is not None]
    if len(given) != 1:
        rule = "must have exactly one of data, binary_data_size and shared_memory_region"
        raise InvalidDescriptor.at(loc, f"{rule}, got {len(given)}")
    return given[0]


def _output(entry: Any, binary_output: bool, loc: Loc) -> Output:
    members = _typed(entry, dict, loc)
    parameters = _parameters(members, loc)
    binary = _parameter(parameters, "binary_data", bool, loc)
    return Output(
        name=_member(members, "name", str, loc),
        parameters=parameters,
        binary=binary_output if binary is None else binary,
        region=_region(parameters, loc),
    )


def _region(parameters: Parameters, loc: Loc) -> Region | None:
    name = _parameter(parameters, "shared_memory_region", str, loc)
    byte_size = _size(parameters, "shared_memory_byte_size", loc)
    offset = _size(parameters, "shared_memory_offset", loc)
    if name is None and byte_size is None and offset is None:
        return None
    if name is None or byte_size is None:
        rule = "shared memory needs shared_memory_region and shared_memory_byte_size"
        raise InvalidDescriptor.at((*loc, "parameters"), rule)
    return Region(name, byte_size, offset or 0)


def _typed(value: Any, kind: type[T], loc: Loc) -> T:
    if type(value) is not kind:  # isinstance(True, int) holds
        got = "a number" if isinstance(value, bytes) else shown(value)
        raise InvalidDescriptor.at(loc, f"must be {_KINDS[kind]}, got {got}")
    return value


def _optional(members: Mapping[str, Any], name: str, kind: type[T], loc: Loc) -> T | None:
    value = members.get(name)
    return None if value is None else _typed(value, kind, (*loc, name))


def _member(members: Mapping[str, Any], name: str, kind: type[T], loc: Loc) -> T:
    if name not in members:
        raise InvalidDescriptor.at((*loc, name), "is required")
    return _typed(members[name], kind, (*loc, name))


def _parameters(members: Mapping[str, Any], loc: Loc) -> Parameters:
    parameters = _optional(members, "parameters", dict, loc) or {}
    for name, value in parameters.items():
        if not isinstance(value, str | int | float):
            at = (*loc, "parameters", shown_key(name))
            raise InvalidDescriptor.at(
                at, f"must be a string, a number or a boolean, got {shown(value)}"
            )
    return parameters


def _parameter(parameters: Parameters, name: str, kind: type[T], loc: Loc) -> T | None:
    return _optional(parameters, name, kind, (*loc, "parameters"))


def _size(parameters: Parameters, name: str, loc: Loc) -> int | None:
    size = _parameter(parameters, name, int, loc)
    if size is not None and size < 0:
        raise InvalidDescriptor.at(
            (*loc, "parameters", name), f"must be at least 0, got {shown(size)}"
        )
    return size


def _too_long(limit: int) -> TensorTooLarge:
    return TensorTooLarge(
        f"the JSON of an inference request has more than {limit} bytes; send larger tensors as "
        f"binary data; {NEEDS_HEADER_LENGTH}",
        limit_bytes=limit,
    )


def write_response(
    members: Mapping[str, Any],
    output: Mapping[str, Any],
    data: Sequence[bytes | memoryview] | None = None,
) -> list[bytes | memoryview]:
    """The inference header of a response with one output, in parts.

    ``data`` are its numbers as JSON, if they are not bytes behind the header.
    """
    text = strictjson.dumps({**members, "outputs": [output]})
    return [text] if data is None else [text[: -len(_END)], b',"data":', *data, _END]


def write_error(detail: str) -> bytes:
    """The body of an error response, with ``detail`` on one line."""
    return strictjson.dumps({"error": " ".join(detail.split())})
