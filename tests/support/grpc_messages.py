"""The stored descriptors as the protobuf package reads them: its classes of their messages."""

from __future__ import annotations

from collections.abc import MutableMapping, MutableSequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from tensor_round_service.grpc.messages import DESCRIPTORS

FILES = descriptor_pb2.FileDescriptorSet.FromString(DESCRIPTORS)
_POOL = descriptor_pool.DescriptorPool()
for _file in FILES.file:
    _POOL.Add(_file)


def theirs(name: str) -> Any:
    """The class of a message, by its full name, which begins with a dot."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name[1:]))


def plain(told: message.Message) -> dict[str, Any]:
    """The members of a message as plain values, also those that have their default.

    Not those of a choice that are not chosen, nor messages that are missing.
    """
    return {
        each.name: _named(each, getattr(told, each.name))
        for each in told.DESCRIPTOR.fields
        if not each.has_presence or told.HasField(each.name)
    }


def _named(field: Any, value: Any) -> Any:
    """A member's value; of an enumeration its name."""
    match value:
        case MutableMapping():
            values = field.message_type.fields_by_name["value"]
            return {key: _named(values, item) for key, item in value.items()}
        case MutableSequence():
            return [_named(field, item) for item in value]
        case message.Message():
            return plain(value)
    return field.enum_type.values_by_number[value].name if field.enum_type else value
