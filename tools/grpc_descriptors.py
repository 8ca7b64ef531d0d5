"""Writes the descriptors of the gRPC services, as the service stores and serves them.

To run it: ``pip install --no-deps --target build/grpc grpcio-health-checking grpcio-reflection``,
then ``python tools/grpc_descriptors.py .venv/lib/python3.11/site-packages build/grpc``. They are
those in the modules that protoc has made for tritonclient, grpcio-health-checking and
grpcio-reflection, whose folders are the arguments; the modules are read, not imported. Of the
reflection service, version v1 is v1alpha under another name.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

OUT = Path(__file__).parent.parent / "service/tensor_round_service/grpc/descriptors.bin"
MODULES = (
    "tritonclient/grpc/model_config_pb2.py",
    "tritonclient/grpc/service_pb2.py",
    "grpc_health/v1/health_pb2.py",
    "grpc_reflection/v1alpha/reflection_pb2.py",
)


def descriptor(module: Path) -> FileDescriptorProto:
    """The file that a generated module registers."""
    for node in ast.walk(ast.parse(module.read_text())):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="AddSerializedFile"),
                args=[ast.Constant(value=bytes(serialized))],
            ):
                return FileDescriptorProto.FromString(serialized)
    raise SystemExit(f"{module} registers no file")


def renamed(file: FileDescriptorProto, old: str, new: str) -> FileDescriptorProto:
    """The file in another package."""
    copy = FileDescriptorProto.FromString(file.SerializeToString())
    copy.name = file.name.replace(old, new)
    copy.package = file.package.replace(old, new)
    for message in copy.message_type:
        for field in message.field:
            if field.type_name:
                field.type_name = field.type_name.replace(f".{old}.", f".{new}.")
    for service in copy.service:
        for method in service.method:
            method.input_type = method.input_type.replace(f".{old}.", f".{new}.")
            method.output_type = method.output_type.replace(f".{old}.", f".{new}.")
    return copy


def descriptors(folders: list[Path]) -> FileDescriptorSet:
    """All files, those that others import first."""
    files = []
    for name in MODULES:
        (module,) = [folder / name for folder in folders if (folder / name).is_file()]
        files.append(descriptor(module))
    files.append(renamed(files[-1], "v1alpha", "v1"))
    return FileDescriptorSet(file=files)


if __name__ == "__main__":
    made = descriptors([Path(each) for each in sys.argv[1:]])
    OUT.write_bytes(made.SerializeToString(deterministic=True))
