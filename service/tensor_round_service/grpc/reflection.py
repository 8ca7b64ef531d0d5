"""``grpc.reflection``: the services and messages, for clients that have no definitions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tensor_round.contract.errors import NotFound, NotOffered, RequestRefused
from tensor_round.contract.quoting import shown

from ..engine.job import Job
from ..engine.memory import Memory
from .call import Call, Method, prefixed
from .control import read
from .messages import DESCRIPTORS, SCHEMA
from .protobuf import Message, parts, texts
from .status import OK, status_of

#: The packages that have the same service.
PACKAGES = ("grpc.reflection.v1", "grpc.reflection.v1alpha")
_METHOD = "ServerReflection/ServerReflectionInfo"


class _Descriptors:
    """The files of a serialized ``FileDescriptorSet``, by what they define."""

    def __init__(self, descriptors: bytes) -> None:
        #: A file and those that it imports, by its name and by the names of its symbols.
        self.by_name: dict[str, list[bytes]] = {}
        self.by_symbol: dict[str, list[bytes]] = {}
        self.services: list[str] = []
        for file in parts(memoryview(descriptors), 1):
            found = [bytes(file)]
            for imported in texts(file, 3):
                found += [each for each in self.by_name.get(imported, ()) if each not in found]
            self.by_name[texts(file, 1)[0]] = found
            prefix = "".join(f"{package}." for package in texts(file, 2))
            services = [f"{prefix}{texts(each, 1)[0]}" for each in parts(file, 6)]
            self.services += services
            methods = (
                f"{name}.{texts(method, 1)[0]}"
                for name, service in zip(services, parts(file, 6), strict=True)
                for method in parts(service, 2)
            )
            enums = (f"{prefix}{texts(each, 1)[0]}" for each in parts(file, 5))
            messages = (each for message in parts(file, 4) for each in _symbols(prefix, message))
            for symbol in (*services, *methods, *enums, *messages):
                self.by_symbol[symbol] = found


def reflection_methods(memory: Memory) -> dict[str, Method]:
    """The methods by path."""
    known = _Descriptors(DESCRIPTORS)
    return {f"/{name}.{_METHOD}": partial(_reflect, known, name, memory) for name in PACKAGES}


async def _reflect(
    known: _Descriptors, package: str, memory: Memory, call: Call, _job: Job
) -> bool:
    """Answer each question by one message."""
    while (found := await call.begins()) is not None:
        job = Job(memory, call.stream)
        try:
            content = await call.small(job, *found)
            request = read(f".{package}.ServerReflectionRequest", content)
        finally:
            job.end(reusable=True)
        try:
            answer = _answer(known, request)
        except RequestRefused as refusal:
            error = {"error_code": int(status_of(refusal)), "error_message": refusal.detail}
            answer = {"error_response": error}
        response = {"valid_host": request.get("host"), "original_request": request, **answer}
        message = SCHEMA.write(f".{package}.ServerReflectionResponse", response)
        if not await call.respond([prefixed(message)]):
            return False
    return await call.respond([], OK)


def _answer(known: _Descriptors, request: Message) -> Message:
    if "list_services" in request:
        services = [{"name": name} for name in known.services]
        return {"list_services_response": {"service": services}}
    for question, files in (
        ("file_by_filename", known.by_name),
        ("file_containing_symbol", known.by_symbol),
    ):
        if question in request:
            found = files.get(request[question])
            if found is None:
                raise NotFound(f"nothing here is named {shown(request[question])}")
            return {"file_descriptor_response": {"file_descriptor_proto": found}}
    raise NotOffered("the messages of this service have no extensions")


def _symbols(prefix: str, message: memoryview) -> Iterator[str]:
    """The names of a message, and of those within it."""
    name = f"{prefix}{texts(message, 1)[0]}"
    yield name
    for nested in parts(message, 3):
        yield from _symbols(f"{name}.", nested)
    for enum in parts(message, 4):
        yield f"{name}.{texts(enum, 1)[0]}"
