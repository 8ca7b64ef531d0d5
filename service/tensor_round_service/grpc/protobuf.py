"""Protocol Buffers on the wire (proto3), by the schema of a descriptor set. No library at run time.

A message is a dict of the fields that are set: strings, numbers, lists, dicts for maps, and
memoryviews of bytes. Messages that are named opaque stay memoryviews, too.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

from ..net.http2.fields import sevens

Message: TypeAlias = dict[str, Any]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
#: Bytes of the wire types that have as many always.
_WIDTHS = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT_BYTES = 10
#: The label of a repeated field (``FieldDescriptorProto.Label``).
_REPEATED = 3
#: Messages are no deeper.
_MAX_DEPTH = 32


class Malformed(ValueError):
    """The bytes are not a message of this type."""


class CutOff(Malformed):
    """The bytes end within a field."""


class Type(IntEnum):
    """The types of fields that the schema has (``FieldDescriptorProto.Type``)."""

    DOUBLE = 1
    FLOAT = 2
    INT64 = 3
    UINT64 = 4
    INT32 = 5
    BOOL = 8
    STRING = 9
    MESSAGE = 11
    BYTES = 12
    UINT32 = 13
    ENUM = 14


#: The types whose values are not varints, and how they are on the wire.
_DELIMITED = frozenset({Type.STRING, Type.BYTES, Type.MESSAGE})
_FIXED = {
    Type.DOUBLE: (_FIXED64, struct.Struct("<d")),
    Type.FLOAT: (_FIXED32, struct.Struct("<f")),
}


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its number and type; for messages their name in the schema."""

    name: str
    number: int
    type: Type
    message: str
    is_repeated: bool
    #: Whether it is written also if it has its default: a message, or one of a choice.
    is_explicit: bool


def read_varint(data: bytes | memoryview, at: int, end: int) -> tuple[int, int]:
    """The number at ``at``, less than 2**64, and its end."""
    value = shift = 0
    for position in range(at, min(end, at + _MAX_VARINT_BYTES)):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position + 1
        shift += 7
    if end - at < _MAX_VARINT_BYTES:
        raise CutOff("a message ends within a number")
    raise Malformed("a number has more than ten bytes")


def fields(data: memoryview, at: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """The fields of a message: number, wire type, varint or 0, begin and end of the content."""
    while at < end:
        key, at = read_varint(data, at, end)
        number, kind = key >> 3, key & 7
        if not 0 < number < 1 << 29:
            raise Malformed("a field has an unlawful number")
        value, begin = 0, at
        if kind == _BYTES:
            length, begin = read_varint(data, at, end)
            at = begin + length
            if at > end:
                raise CutOff("a message ends within a field")
        else:
            value, at = _number(kind, data, at, end)
        yield number, kind, value, begin, at


def _number(kind: int, data: memoryview, at: int, end: int) -> tuple[int, int]:
    """The varint at ``at``, or 0 for content of a fixed width; where it ends."""
    if kind == _VARINT:
        return read_varint(data, at, end)
    if kind not in _WIDTHS:
        raise Malformed(f"a field has the wire type {kind}")
    if at + _WIDTHS[kind] > end:
        raise CutOff("a message ends within a number")
    return 0, at + _WIDTHS[kind]


def varint(value: int) -> bytes:
    """A number on the wire; negative ones as those of 64 bits."""
    return sevens(value & 0xFFFF_FFFF_FFFF_FFFF)


def delimited(number: int, content: bytes | memoryview) -> bytes:
    """A field of bytes on the wire."""
    return b"".join((varint(number << 3 | _BYTES), varint(len(content)), content))


class Schema:
    """Reads and writes the messages of a serialized ``FileDescriptorSet``."""

    def __init__(self, descriptors: bytes) -> None:
        #: The fields of each message, by its full name, which begins with a dot.
        self.messages: dict[str, dict[int, Field]] = {}
        #: The names of those that are entries of maps.
        self.maps: set[str] = set()
        for descriptor in parts(descriptors, 1):
            package = texts(descriptor, 2)
            prefix = f".{package[0]}" if package else ""
            for message in parts(descriptor, 4):
                self._add(prefix, message)

    def _add(self, prefix: str, message: memoryview) -> None:
        """Add a ``DescriptorProto`` and those within it."""
        name = f"{prefix}.{texts(message, 1)[0]}"
        self.messages[name] = {each.number: each for each in map(_field, parts(message, 2))}
        if any(_numbers(options, 7) for options in parts(message, 7)):
            self.maps.add(name)
        for nested in parts(message, 3):
            self._add(name, nested)

    def read(
        self,
        name: str,
        content: bytes | memoryview,
        max_values: int,
        opaque: Collection[str] = (),
    ) -> Message:
        """The message ``name`` in these bytes; unknown fields are ignored.

        Raises :class:`Malformed`, also for more than ``max_values`` fields.
        """
        return _Reader(self, max_values, opaque).message(name, memoryview(content), _MAX_DEPTH)

    def write(self, name: str, message: Mapping[str, Any]) -> bytes:
        """The bytes of a message. Fields that have their default are omitted."""
        written: list[bytes] = []
        for field in self.messages[name].values():
            value = message.get(field.name)
            if value is None or not (value or field.is_explicit):
                continue
            if field.message in self.maps:
                entries = ({"key": key, "value": item} for key, item in value.items())
                written += [delimited(field.number, self.write(field.message, e)) for e in entries]
            elif not field.is_repeated:
                written.append(self._one(field, value))
            elif field.type in _DELIMITED:
                written += [self._one(field, item) for item in value]
            else:
                packed = b"".join([_scalar(field.type, item) for item in value])
                written.append(delimited(field.number, packed))
        return b"".join(written)

    def _one(self, field: Field, value: Any) -> bytes:
        if field.type is Type.MESSAGE:
            value = self.write(field.message, value)
        elif field.type is Type.STRING:
            value = value.encode()
        if field.type in _DELIMITED:
            return delimited(field.number, value)
        return varint(field.number << 3 | _wire_type(field.type)) + _scalar(field.type, value)


class _Reader:
    """Reads one message, and counts its values."""

    def __init__(self, schema: Schema, max_values: int, opaque: Collection[str]) -> None:
        self._schema = schema
        self._left = max_values
        self._opaque = opaque

    def message(self, name: str, data: memoryview, depth: int) -> Message:
        if not depth:
            raise Malformed("a message is too deep")
        known = self._schema.messages[name]
        message: Message = {}
        for number, kind, value, begin, end in fields(data, 0, len(data)):
            self._count(1)
            field = known.get(number)
            if field is None:
                continue
            content = data[begin:end]
            if field.is_repeated and kind == _BYTES and field.type not in _DELIMITED:
                message.setdefault(field.name, []).extend(self._packed(field, content))
                continue
            if kind != _wire_type(field.type):
                raise Malformed(f"{field.name} has the wire type {kind}")
            if kind == _BYTES:
                item = self._delimited(field, content, depth)
            else:
                item = _value(field.type, value, content)
            if field.message in self._schema.maps:
                key, item = self._entry(field.message, item)
                message.setdefault(field.name, {})[key] = item
            elif field.is_repeated:
                message.setdefault(field.name, []).append(item)
            elif field.type is Type.MESSAGE and field.name in message:
                raise Malformed(f"{field.name} is there twice")
            else:
                message[field.name] = item
        return message

    def _count(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            raise Malformed("a message has too many values")

    def _delimited(self, field: Field, content: memoryview, depth: int) -> Any:
        if field.type is Type.BYTES or field.message in self._opaque:
            return content
        if field.type is Type.MESSAGE:
            return self.message(field.message, content, depth - 1)
        try:
            return str(content, "utf-8")
        except UnicodeDecodeError:
            raise Malformed(f"{field.name} is not UTF-8") from None

    def _entry(self, name: str, item: Message) -> tuple[Any, Any]:
        """Key and value of a map's entry; what is missing has its default."""
        key, value = (self._schema.messages[name][number] for number in (1, 2))
        return item.get("key", _default(key)), item.get("value", _default(value))

    def _packed(self, field: Field, content: memoryview) -> Iterator[Any]:
        at, end, kind = 0, len(content), _wire_type(field.type)
        while at < end:
            self._count(1)
            begin = at
            value, at = _number(kind, content, begin, end)
            yield _value(field.type, value, content[begin:at])


def _default(field: Field) -> Any:
    return {Type.STRING: "", Type.BYTES: b"", Type.MESSAGE: {}}.get(field.type, 0)


def _wire_type(of: Type) -> int:
    if of in _DELIMITED:
        return _BYTES
    return _FIXED[of][0] if of in _FIXED else _VARINT


def _value(of: Type, value: int, content: memoryview) -> Any:
    match of:
        case Type.BOOL:
            return bool(value)
        case Type.DOUBLE | Type.FLOAT:
            return _FIXED[of][1].unpack(content)[0]
        case Type.INT64:
            return value - (value >> 63 << 64)
        case Type.INT32 | Type.ENUM:
            value &= 0xFFFF_FFFF
            return value - (value >> 31 << 32)
        case Type.UINT32:
            return value & 0xFFFF_FFFF
    return value


def _scalar(of: Type, value: Any) -> bytes:
    return _FIXED[of][1].pack(value) if of in _FIXED else varint(value)


# What descriptors are read by.


def parts(content: bytes | memoryview, wanted: int) -> list[memoryview]:
    """The fields of bytes with this number."""
    data = memoryview(content)
    found = fields(data, 0, len(data))
    return [
        data[begin:end] for number, kind, _, begin, end in found if (number, kind) == (wanted, 2)
    ]


def texts(content: memoryview, wanted: int) -> list[str]:
    """Likewise, as text."""
    return [str(each, "utf-8") for each in parts(content, wanted)]


def _numbers(content: memoryview, wanted: int) -> list[int]:
    found = fields(content, 0, len(content))
    return [value for number, kind, value, _, _ in found if (number, kind) == (wanted, _VARINT)]


def _field(descriptor: memoryview) -> Field:
    """The field of a ``FieldDescriptorProto``."""
    (name,), (number,) = texts(descriptor, 1), _numbers(descriptor, 3)
    (label,), (of,) = _numbers(descriptor, 4), _numbers(descriptor, 5)
    message = texts(descriptor, 6)
    return Field(
        name,
        number,
        Type(of),
        message[0] if message else "",
        is_repeated=label == _REPEATED,
        is_explicit=of == Type.MESSAGE or bool(_numbers(descriptor, 9)),
    )
