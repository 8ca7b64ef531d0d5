"""The ``/v2`` face's shared memory: regions registered, listed and forgotten."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from tensor_round.errors import Fault, InvalidDescriptor, NotOffered
from tensor_round.quoting import shown

from .. import documents
from ..inference.plan import NO_SHARED_MEMORY
from ..inference.shared.cuda import HANDLE_BYTES, CudaSharedMemory
from ..inference.shared.posix import SharedMemory
from .control_body import control_body


def shared_memory_router(
    shared_memory: SharedMemory | None, cuda_memory: CudaSharedMemory | str
) -> APIRouter:
    """The routes; None, or why there is none of a device's, answers each of them with 501."""
    router = APIRouter(prefix="/v2", tags=["open inference protocol"])
    if shared_memory is None:
        _refuse_all(router, "systemsharedmemory", NO_SHARED_MEMORY)
    else:
        _add_system(router, shared_memory)
    if isinstance(cuda_memory, str):
        _refuse_all(router, "cudasharedmemory", cuda_memory)
    else:
        _add_cuda(router, cuda_memory)
    return router


def _add_system(router: APIRouter, shared_memory: SharedMemory) -> None:
    async def described(name: str | None) -> list[documents.SystemRegion]:
        return [
            {
                "name": region.name,
                "key": region.key,
                "offset": region.offset,
                "byte_size": region.byte_size,
            }
            for region in await run_in_threadpool(shared_memory.registered, name)
        ]

    @router.get("/systemsharedmemory/status", summary="All regions")
    async def system_regions() -> list[documents.SystemRegion]:
        """The regions that are registered, through whichever worker."""
        return await described(None)

    @router.get("/systemsharedmemory/region/{name}/status", summary="One region")
    async def system_region(name: str) -> list[documents.SystemRegion]:
        """The region, in a list of one."""
        return await described(name)

    @router.post("/systemsharedmemory/region/{name}/register", summary="Register a region")
    async def register_system_region(name: str, request: Request) -> documents.Nothing:
        """`key` names a POSIX shared memory object, `offset` and `byte_size` a part of it."""
        members = await control_body(request)
        key = members.get("key")
        if not isinstance(key, str):
            raise InvalidDescriptor.of([Fault(("key",), f"must be a string, got {shown(key)}")])
        offset = _integer(members, "offset", 0)
        byte_size = _integer(members, "byte_size", 1)
        await run_in_threadpool(shared_memory.register, name, key, offset, byte_size)
        return {}

    @router.post("/systemsharedmemory/unregister", summary="Forget all regions")
    async def unregister_system_regions() -> documents.Nothing:
        """The objects themselves stay; requests under way keep their view of them."""
        await run_in_threadpool(shared_memory.unregister, None)
        return {}

    @router.post("/systemsharedmemory/region/{name}/unregister", summary="Forget a region")
    async def unregister_system_region(name: str) -> documents.Nothing:
        """The object itself stays; requests under way keep their view of it."""
        await run_in_threadpool(shared_memory.unregister, name)
        return {}


def _add_cuda(router: APIRouter, memory: CudaSharedMemory) -> None:
    async def described(name: str | None) -> list[documents.CudaRegion]:
        return [
            {
                "name": region.name,
                "device_id": region.object[0],
                "byte_size": region.byte_size,
            }
            for region in await run_in_threadpool(memory.registered, name)
        ]

    @router.get("/cudasharedmemory/status", summary="All regions on devices")
    async def cuda_regions() -> list[documents.CudaRegion]:
        """The regions that are registered, through whichever worker."""
        return await described(None)

    @router.get("/cudasharedmemory/region/{name}/status", summary="One region on a device")
    async def cuda_region(name: str) -> list[documents.CudaRegion]:
        """The region, in a list of one."""
        return await described(name)

    @router.post("/cudasharedmemory/region/{name}/register", summary="Register a device's memory")
    async def register_cuda_region(name: str, request: Request) -> documents.Nothing:
        """`raw_handle` holds `b64`, a cudaIpcMemHandle_t; `byte_size` counts from its first."""
        members = await control_body(request)
        handle = _handle(members.get("raw_handle"))
        device = _integer(members, "device_id", 0)
        byte_size = _integer(members, "byte_size", 1)
        await run_in_threadpool(memory.register, name, handle, device, byte_size)
        return {}

    @router.post("/cudasharedmemory/unregister", summary="Forget all regions on devices")
    async def unregister_cuda_regions() -> documents.Nothing:
        """The memory itself stays; requests under way keep their view of it."""
        await run_in_threadpool(memory.unregister, None)
        return {}

    @router.post("/cudasharedmemory/region/{name}/unregister", summary="Forget a device's region")
    async def unregister_cuda_region(name: str) -> documents.Nothing:
        """The memory itself stays; requests under way keep their view of it."""
        await run_in_threadpool(memory.unregister, name)
        return {}


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


def _integer(members: Mapping[str, Any], name: str, least: int) -> int:
    value = members.get(name, 0)
    if type(value) is not int or value < least:
        rule = f"must be an integer of at least {least}, got {shown(value)}"
        raise InvalidDescriptor.of([Fault((name,), rule)])
    return value


def _refuse_all(router: APIRouter, family: str, why: str) -> None:
    async def refuse() -> None:
        """Not offered here."""
        raise NotOffered(why)

    for method, path in (
        ("GET", "status"),
        ("GET", "region/{name}/status"),
        ("POST", "region/{name}/register"),
        ("POST", "unregister"),
        ("POST", "region/{name}/unregister"),
    ):
        router.add_api_route(f"/{family}/{path}", refuse, methods=[method], include_in_schema=False)
