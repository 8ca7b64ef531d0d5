"""The JSON representation of ``POST /round``: descriptor and numbers in one document. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tensor_round.contract import operators
from tensor_round.contract.call import RoundCall
from tensor_round.contract.errors import Fault, InvalidDescriptor, MalformedJSON, MissingDescriptor
from tensor_round.contract.layout import Layout
from tensor_round.contract.wire import native, strictjson

from ..codec import jsontensor, nesting

_MEMBERS = ("descriptor", "data")
#: The members of the short form; the shape may be that of the data.
_SHORT_MEMBERS = ("operator", "dtype", "shape", "data")
#: Maximum number of unknown fields in a refusal.
_LISTED_FAULTS = 32
#: Fields of all dialects that describe memory layouts, which numbers in JSON do not have.
_LAYOUT_FIELDS = frozenset({"strides", "byte_length", "Strides", "TotalTensorSizeInBytes"})


@dataclass(slots=True)
class Document:
    """A JSON request: the call on the packed tensor, and its numbers as parsed JSON."""

    dialect: str
    #: On the packed tensor.
    call: RoundCall
    _data: Any

    @classmethod
    def read(cls, text: bytes, operator: str | None = None) -> Document:
        """Parse and check a request; ``operator`` is the one that its query names, if any.

        A document without ``descriptor`` is in the short form: a descriptor's, and data.

        Raises :class:`MalformedJSON`, :class:`MissingDescriptor` or :class:`InvalidDescriptor`.
        """
        document = strictjson.loads(
            text,
            max_depth=native.MAX_JSON_DEPTH,
            max_containers=nesting.MAX_CONTAINERS,
            max_members=native.MAX_JSON_MEMBERS,
            numbers="exact",
            nan_tokens=True,
        )
        if not isinstance(document, dict):
            raise MalformedJSON("the JSON must be an object with descriptor and data")
        is_short = operator is not None or "descriptor" not in document
        members = _SHORT_MEMBERS if is_short else _MEMBERS
        if is_short and operator is None and "operator" not in document:
            raise MissingDescriptor(
                "the member descriptor is missing: it states operator, dtype and shape; "
                "in the short form, the members operator and dtype do"
            )
        faults = [
            Fault((name[:40],), f"unknown field; the document has {', '.join(members)}")
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
        operators.refuse_oversized(given)
        descriptor = strictjson.plain(given)
        described_by = operators.validate(descriptor)
        resolved = described_by.resolve()
        if faults := list(_layout_faults(descriptor, ("descriptor",))):
            raise InvalidDescriptor.of(faults)
        packed = Layout.of(resolved.input.dtype, resolved.input.shape)
        call = RoundCall(resolved.rounding, packed, packed, packed.byte_length)
        return cls(described_by.dialect, call, document["data"])

    def payload(self) -> memoryview:
        """The numbers as packed bytes, each rounded once to the dtype. Can be called once.

        The parsed numbers are freed, because they take more memory than the response.
        """
        data, self._data = self._data, None
        return jsontensor.read(data, self.call.input.dtype, self.call.input.shape)

    def response(self, payload: memoryview) -> bytes:
        """The JSON response for the rounded bytes."""
        layout = self.call.output
        output = strictjson.dumps({"dtype": layout.dtype.name, "shape": list(layout.shape)})
        data = jsontensor.write(payload, layout.dtype, layout.shape)
        return b'{"output":' + output + b',"data":' + data + b"}"


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
