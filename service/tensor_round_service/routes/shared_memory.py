"""The shared memory extensions under ``/v2``: register, list and unregister regions."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from tensor_round.contract.errors import Fault, InvalidDescriptor, NotOffered
from tensor_round.contract.quoting import shown

from .. import documents
from ..inference.cuda_memory import HANDLE_BYTES, CudaSharedMemory
from ..inference.plan import NO_SHARED_MEMORY
from ..inference.posix_memory import PosixSharedMemory
from ..inference.regions import RegisteredMemory, Registration
from .control_body import control_body


def shared_memory_router(
    shared_memory: PosixSharedMemory | None, cuda_memory: CudaSharedMemory | str
) -> APIRouter:
    """The routes of both extensions; those of a missing extension respond 501 with the reason."""
    router = APIRouter(prefix="/v2", tags=["open inference protocol"])
    if shared_memory is None:
        _refuse_all(router, "system", NO_SHARED_MEMORY)
    else:
        _add_system(router, shared_memory)
    if isinstance(cuda_memory, str):
        _refuse_all(router, "cuda", cuda_memory)
    else:
        _add_cuda(router, cuda_memory)
    return router


def _add_system(router: APIRouter, memory: PosixSharedMemory) -> None:
    def described(region: Registration) -> documents.SystemRegion:
        return {
            "name": region.name,
            "key": region.key,
            "offset": region.offset,
            "byte_size": region.byte_size,
        }

    @router.post("/systemsharedmemory/region/{name}/register", summary="Register a region")
    async def register_system_region(name: str, request: Request) -> documents.Nothing:
        """`key` names a POSIX shared memory object, `offset` and `byte_size` a part of it."""
        members = await control_body(request)
        key = members.get("key")
        if not isinstance(key, str):
            raise InvalidDescriptor.of([Fault(("key",), f"must be a string, got {shown(key)}")])
        offset = _integer(members, "offset", 0)
        byte_size = _integer(members, "byte_size", 1)
        await run_in_threadpool(memory.register, name, key, offset, byte_size)
        return {}

    _add_common(router, "system", memory, described, documents.SystemRegion)


def _add_cuda(router: APIRouter, memory: CudaSharedMemory) -> None:
    def described(region: Registration) -> documents.CudaRegion:
        return {"name": region.name, "device_id": region.object[0], "byte_size": region.byte_size}

    @router.post("/cudasharedmemory/region/{name}/register", summary="Register a CUDA region")
    async def register_cuda_region(name: str, request: Request) -> documents.Nothing:
        """`raw_handle.b64` is a cudaIpcMemHandle_t; `byte_size` counts from its first byte."""
        members = await control_body(request)
        handle = _handle(members.get("raw_handle"))
        device = _integer(members, "device_id", 0)
        byte_size = _integer(members, "byte_size", 1)
        await run_in_threadpool(memory.register, name, handle, device, byte_size)
        return {}

    _add_common(router, "cuda", memory, described, documents.CudaRegion)


def _add_common(
    router: APIRouter,
    kind: str,
    memory: RegisteredMemory,
    describe: Callable[[Registration], Mapping[str, Any]],
    model: type,
) -> None:
    """Add the routes that both extensions have, for the kind ``system`` or ``cuda``."""
    path, title = f"/{kind}sharedmemory", kind.upper() if kind == "cuda" else kind

    async def regions() -> list[Mapping[str, Any]]:
        """The regions registered through any worker."""
        return [describe(region) for region in await run_in_threadpool(memory.registered)]

    async def region(name: str) -> list[Mapping[str, Any]]:
        """The region, in a list of one."""
        return [describe(region) for region in await run_in_threadpool(memory.registered, name)]

    async def unregister_all() -> documents.Nothing:
        """The memory itself is not freed; current requests can still use it."""
        await run_in_threadpool(memory.unregister)
        return {}

    async def unregister(name: str) -> documents.Nothing:
        """The memory itself is not freed; current requests can still use it."""
        await run_in_threadpool(memory.unregister, name)
        return {}

    router.add_api_route(
        f"{path}/status",
        regions,
        name=f"{kind}_regions",
        summary=f"All {title} regions",
        response_model=list[model],  # type: ignore[valid-type]  # a type at run time
    )
    router.add_api_route(
        f"{path}/region/{{name}}/status",
        region,
        name=f"{kind}_region",
        summary=f"One {title} region",
        response_model=list[model],  # type: ignore[valid-type]  # a type at run time
    )
    router.add_api_route(
        f"{path}/unregister",
        unregister_all,
        methods=["POST"],
        name=f"unregister_{kind}_regions",
        summary=f"Unregister all {title} regions",
    )
    router.add_api_route(
        f"{path}/region/{{name}}/unregister",
        unregister,
        methods=["POST"],
        name=f"unregister_{kind}_region",
        summary=f"Unregister a {title} region",
    )


def _handle(value: Any) -> bytes:
    text = value.get("b64") if isinstance(value, dict) else None
    try:
        handle = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except binascii.Error:
        handle = b""
    if len(handle) != HANDLE_BYTES:
        rule = f"must be the Base64 text of a handle's {HANDLE_BYTES} bytes"
        raise InvalidDescriptor.of([Fault(("raw_handle", "b64"), rule)])
    return handle


def _integer(members: Mapping[str, Any], name: str, minimum: int) -> int:
    value = members.get(name, 0)
    if type(value) is not int or value < minimum:
        rule = f"must be an integer of at least {minimum}, got {shown(value)}"
        raise InvalidDescriptor.of([Fault((name,), rule)])
    return value


def _refuse_all(router: APIRouter, kind: str, reason: str) -> None:
    async def refuse() -> None:
        """Not offered by this service."""
        raise NotOffered(reason)

    for method, path in (
        ("GET", "status"),
        ("GET", "region/{name}/status"),
        ("POST", "region/{name}/register"),
        ("POST", "unregister"),
        ("POST", "region/{name}/unregister"),
    ):
        router.add_api_route(
            f"/{kind}sharedmemory/{path}", refuse, methods=[method], include_in_schema=False
        )
