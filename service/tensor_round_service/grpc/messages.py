"""Inference requests and responses of the Open Inference Protocol as Protocol Buffers.

They become the requests of :mod:`..oip.infer_json`, so that rules and refusals are those of HTTP.
The raw tensor is not read here: it stays where it is received. Nor are the numbers of typed
contents written that are on the wire as they are in memory: those of floating-point types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_OIP
from tensor_round.contract.errors import InvalidDescriptor
from tensor_round.contract.progress import Pause
from tensor_round.contract.quoting import shown

from ..net.bodies import Parts
from ..oip import infer_json
from .protobuf import CutOff, Malformed, Message, Schema, fields, read_varint, varint

#: What ``tools/grpc_descriptors.py`` has stored: the messages and services of Triton's protocol, of
#: health checks and of reflection.
DESCRIPTORS = resources.files(__package__).joinpath("descriptors.bin").read_bytes()
SCHEMA = Schema(DESCRIPTORS)

_REQUEST, _RESPONSE = ".inference.ModelInferRequest", ".inference.ModelInferResponse"
_CONTENTS = ".inference.InferTensorContents"
_OUTPUT = f"{_RESPONSE}.InferOutputTensor"
#: The raw tensors' fields, length-delimited, as they begin on the wire.
_RAW_INPUT = 7 << 3 | 2
_RAW_OUTPUT = varint(6 << 3 | 2)
#: Those of the outputs in a response, and of the contents in an output; the last field of each.
_OUTPUTS = _OUTPUT_CONTENTS = varint(5 << 3 | 2)
#: The other fields of a request, most of which are shorter than 128 bytes.
_SHORT_FIELDS = frozenset(number << 3 | 2 for number in range(1, 7))
#: Temporary memory of :func:`read_request` for each byte of typed contents. Each number has a byte
#: at least, so it is enough for :func:`packed_varints` after that.
BYTES_A_BYTE = 64
#: Numbers that are written between two pauses: about 1 ms of work.
_WRITTEN_NUMBERS = 16 << 10
#: For each datatype with typed contents: their field, and the type of the numbers.
_TYPED = {
    **{name: (2, name.lower()) for name in ("INT8", "INT16", "INT32")},
    "INT64": (3, "int64"),
    **{name: (4, name.lower()) for name in ("UINT8", "UINT16", "UINT32")},
    "UINT64": (5, "uint64"),
    "FP32": (6, "float32"),
    "FP64": (7, "float64"),
}
#: How the numbers of a field of integers stand on the wire.
_INTEGERS = {2: "int32", 3: "int64", 4: "uint32", 5: "uint64"}


@dataclass(frozen=True, slots=True)
class InferRequest:
    """A request, whose inputs are :class:`.oip.Binary` if their bytes are or follow in the message.

    ``tensors`` are those bytes, if they were in what was read. If some were typed contents
    (``is_typed``), so is the output.
    """

    model_name: str
    model_version: str
    request: infer_json.Request
    tensors: Parts
    is_typed: bool


def find_tensor(message: bytes | memoryview) -> tuple[int, int, int] | None:
    """The end of what precedes the first raw tensor, the tensor's begin, and its length.

    None if these bytes, the first of a message, end before. Raises :class:`InvalidDescriptor`.
    """
    data = memoryview(message)
    at, end = 0, len(data)
    try:
        while at < end:
            key = message[at]
            if key == _RAW_INPUT:
                length, begin = read_varint(data, at + 1, end)
                return at, begin, length
            if key in _SHORT_FIELDS and at + 1 < end and message[at + 1] < 0x80:
                at += 2 + message[at + 1]
            else:
                at = next(fields(data, at, end))[-1]
    except CutOff:
        return None
    except Malformed as error:
        raise _refusal(str(error)) from None
    return None


def raw_bytes(message: memoryview) -> int:
    """The bytes of all raw tensors of a whole message, as far as it has no more fields than any."""
    first = islice(fields(message, 0, len(message)), infer_json.MAX_HEADER_VALUES)
    try:
        return sum(end - begin for number, _, _, begin, end in first if number == _RAW_INPUT >> 3)
    except Malformed as error:
        raise _refusal(str(error)) from None


def read_request(message: bytes | memoryview, following: int | None = None) -> InferRequest:
    """The request in a message; ``following`` is the length of a raw tensor that follows it.

    It follows a message that ends before its first raw tensor; else the message must be whole.
    Fields may be in any order. Raises :class:`InvalidDescriptor` and as :func:`.oip.read_request`.
    """
    try:
        members = SCHEMA.read(_REQUEST, message, infer_json.MAX_HEADER_VALUES, (_CONTENTS,))
        raw: list[Any] = [*members.get("raw_input_contents", ())]
        if following is not None:
            raw.append(following)
        inputs = [dict(each) for each in members.get("inputs", ())]
        is_typed = any(each.get("contents") is not None for each in inputs)
        tensors = [_source(each, raw, position) for position, each in enumerate(inputs)]
        outputs = [
            {"name": each.get("name", ""), "parameters": _parameters(each, "binary_data")}
            for each in members.get("outputs", ())
        ]
        parameters = _parameters(members, "binary_data_output")
    except Malformed as error:
        raise _refusal(str(error)) from None
    if raw:
        raise _refusal("has more raw_input_contents than inputs for them")
    request = infer_json.request_of(
        {
            "id": members.get("id"),
            "parameters": parameters,
            "inputs": inputs,
            "outputs": outputs,
        },
        [None] * len(inputs),
        binary_output=True,
    )
    found = [each for each in tensors if each is not None]
    name, version = members.get("model_name", ""), members.get("model_version", "")
    return InferRequest(name, version, request, found, is_typed)


def _source(tensor: Message, raw: list[Any], position: int) -> bytes | memoryview | None:
    """Give an input the members that it has in JSON; return its bytes if they are here."""
    contents = tensor.pop("contents", None)
    parameters = tensor["parameters"] = _parameters(tensor)
    for name, empty in (("name", ""), ("datatype", ""), ("shape", [])):
        tensor.setdefault(name, empty)
    if contents:
        found: Any = _packed(contents, tensor["datatype"])
    elif "shared_memory_region" in parameters:
        return None
    elif raw:
        found = raw.pop(0)
    elif contents is not None:
        found = b""
    else:
        rule = "must have one of contents, raw_input_contents and shared_memory_region, got none"
        raise InvalidDescriptor.at(("inputs", position), rule)
    parameters["binary_data_size"] = found if isinstance(found, int) else len(found)
    return None if isinstance(found, int) else found


def _parameters(members: Message, ignored: str = "") -> dict[str, Any]:
    """The parameters as plain values, without the one that selects bytes or JSON over HTTP."""
    plain: dict[str, Any] = {}
    for name, choice in members.get("parameters", {}).items():
        if len(choice) != 1:
            raise Malformed(f"parameter {shown(name)} must have one value, got {len(choice)}")
        (plain[name],) = choice.values()
    plain.pop(ignored, None)
    return plain


def _packed(contents: memoryview, datatype: str) -> bytes:
    """The numbers of typed contents as little-endian bytes."""
    if datatype not in BY_OIP:  # the plan refuses it
        return b""
    if datatype not in _TYPED:
        raise Malformed(f"{shown(datatype)} has no typed contents: send raw_input_contents")
    wanted, dtype = _TYPED[datatype]
    runs: list[npt.NDArray[Any]] = []
    for number, kind, value, begin, end in fields(contents, 0, len(contents)):
        if number != wanted or len(runs) == infer_json.MAX_HEADER_VALUES:
            rule = f"must be in one list, field {wanted} of InferTensorContents"
            raise Malformed(f"the contents of {datatype} {rule}")
        runs.append(_run(contents[begin:end], kind, value, number, dtype))
    numbers = np.concatenate(runs)
    if wanted in _INTEGERS:
        typed = numbers.astype(dtype)
        if not np.array_equal(typed, numbers):
            raise Malformed(f"the contents have numbers beyond the range of {datatype}")
        numbers = typed
    return numbers.tobytes()


def _run(content: memoryview, kind: int, value: int, number: int, dtype: str) -> npt.NDArray[Any]:
    """The numbers of one field, packed or alone."""
    if number in _INTEGERS:
        if kind == 0:
            numbers = np.array([value], np.uint64)
        elif kind == 2:
            numbers = _varints(content)
        else:
            raise Malformed(f"integers have the wire type {kind}")
        unsigned = "uint32" if number in (2, 4) else "uint64"
        return numbers.astype(unsigned).view(_INTEGERS[number])
    floats = np.dtype(dtype).newbyteorder("<")
    if kind not in (2, {4: 5, 8: 1}[floats.itemsize]) or len(content) % floats.itemsize:
        raise Malformed("the contents are cut off, or no floating-point numbers")
    return np.frombuffer(content, floats)


def _varints(packed: memoryview) -> npt.NDArray[np.uint64]:
    """The numbers of a packed run."""
    octets = np.frombuffer(packed, np.uint8)
    if not octets.size:
        return np.zeros(0, np.uint64)
    ends = np.flatnonzero(octets < 0x80)
    if not ends.size or ends[-1] != octets.size - 1:
        raise Malformed("the contents end within a number")
    lengths = np.diff(ends, prepend=-1)
    longest = int(lengths.max())
    if longest > 10:
        raise Malformed("a number has more than ten bytes")
    numbers = np.zeros(ends.size, np.uint64)
    begins = ends - lengths + 1
    for place in range(longest):
        has = lengths > place
        digits = (octets[begins[has] + place] & 0x7F).astype(np.uint64)
        numbers[has] |= digits << np.uint64(7 * place)
    return numbers


def has_varints(datatype: str) -> bool:
    """Whether the typed contents of a datatype are written by :func:`packed_varints`."""
    return datatype in _TYPED and _TYPED[datatype][0] in _INTEGERS


def packed_varints(tensor: Parts, datatype: str, pause: Pause) -> list[bytes]:
    """The integers of a tensor, whose bytes are little-endian, as those of a packed field."""
    dtype = np.dtype(_TYPED[datatype][1]).newbyteorder("<")
    numbers = np.frombuffer(b"".join(tensor), dtype)
    wide = np.int64 if dtype.kind == "i" else np.uint64
    packed = []
    for begin in range(0, numbers.size, _WRITTEN_NUMBERS):
        run = numbers[begin : begin + _WRITTEN_NUMBERS].astype(wide).view(np.uint64)
        packed.append(_as_varints(run))
        pause()
    return packed


def _as_varints(numbers: npt.NDArray[np.uint64]) -> bytes:
    """Numbers in groups of seven bits, as :func:`varint` writes one."""
    lengths = np.ones(numbers.size, np.int64)
    for place in range(1, 10):
        lengths += numbers >> np.uint64(7 * place) > 0
    ends = np.cumsum(lengths)
    octets = np.zeros(int(ends[-1]), np.uint8)
    begins = ends - lengths
    for place in range(int(lengths.max())):
        has = lengths > place
        digits = (numbers[has] >> np.uint64(7 * place)) & np.uint64(0x7F)
        octets[begins[has] + place] = digits.astype(np.uint8) | 0x80
    octets[ends - 1] &= 0x7F
    return octets.tobytes()


def response_head(
    members: Mapping[str, Any],
    output: Mapping[str, Any],
    nbytes: int | None,
    *,
    is_typed: bool = False,
) -> bytes:
    """A response before its tensor of ``nbytes`` bytes; None if there is none.

    The tensor is raw, or its numbers are typed contents if ``is_typed`` and the datatype has such.
    ``members`` and ``output`` are as in JSON.
    """
    parameters = {name: choice(value) for name, value in output.get("parameters", {}).items()}
    output = {**output, "parameters": parameters}
    if nbytes is not None and is_typed and output["datatype"] in _TYPED:
        field = varint(_TYPED[output["datatype"]][0] << 3 | 2) + varint(nbytes)
        contents = _OUTPUT_CONTENTS + varint(len(field) + nbytes) + field
        written = SCHEMA.write(_OUTPUT, output) + contents
        begin = SCHEMA.write(_RESPONSE, members), _OUTPUTS, varint(len(written) + nbytes)
        return b"".join((*begin, written))
    head = SCHEMA.write(_RESPONSE, {**members, "outputs": [output]})
    return head if nbytes is None else b"".join((head, _RAW_OUTPUT, varint(nbytes)))


def choice(value: object, integer: str = "int64_param") -> Message:
    """A value as the protocol's choice of types."""
    match value:
        case bool():
            return {"bool_param": value}
        case int():
            return {integer: value}
        case float():
            return {"double_param": value}
    return {"string_param": value}


def _refusal(rule: str) -> InvalidDescriptor:
    return InvalidDescriptor.at(("ModelInferRequest",), rule)
