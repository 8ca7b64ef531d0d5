"""The stored descriptors as the protobuf package reads them: its classes of their messages."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tensor_round_service.grpc.messages import DESCRIPTORS

FILES = descriptor_pb2.FileDescriptorSet.FromString(DESCRIPTORS)
_POOL = descriptor_pool.DescriptorPool()
for _file in FILES.file:
    _POOL.Add(_file)


def theirs(name: str) -> Any:
    """The class of a message, by its full name, which begins with a dot."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name[1:]))
