"""The messages of an inference by the package protobuf."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tensor_round_service.grpc.messages import DESCRIPTORS

METHOD = "/inference.GRPCInferenceService/ModelInfer"

_POOL = descriptor_pool.DescriptorPool()
for _file in descriptor_pb2.FileDescriptorSet.FromString(DESCRIPTORS).file:
    _POOL.Add(_file)


def message(name: str) -> Any:
    """The class of a message of the package ``inference``."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"inference.{name}"))


Request, Response = message("ModelInferRequest"), message("ModelInferResponse")
