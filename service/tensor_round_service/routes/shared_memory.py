"""The ``/v2`` face's shared memory: regions registered, listed and forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from tensor_round.echo import shown
from tensor_round.errors import Fault, InvalidDescriptor, NotOffered

from ..inference import NO_SHARED_MEMORY
from ..shared_memory import SharedMemory
from .control_body import control_body


def shared_memory_router(shared_memory: SharedMemory | None) -> APIRouter:
    """The routes; None answers every one of them with 501."""
    router = APIRouter(prefix="/v2", tags=["open inference protocol"])
    if shared_memory is None:
        _refuse_all(router, "systemsharedmemory", NO_SHARED_MEMORY)
    else:
        _add_system(router, shared_memory)
    # The place of regions on a device, which its backend would map.
    _refuse_all(router, "cudasharedmemory", "this backend has no CUDA shared memory")
    return router


def _add_system(router: APIRouter, shared_memory: SharedMemory) -> None:
    @router.get("/systemsharedmemory/status", summary="All regions")
    @router.get("/systemsharedmemory/region/{name}/status", summary="One region")
    async def status(name: str | None = None) -> list[dict[str, Any]]:
        """The regions that are registered, through whichever worker."""
        return [
            {
                "name": region.name,
                "key": region.key,
                "offset": region.offset,
                "byte_size": region.byte_size,
            }
            for region in await run_in_threadpool(shared_memory.registered, name)
        ]

    @router.post("/systemsharedmemory/region/{name}/register", summary="Register a region")
    async def register(name: str, request: Request) -> dict[str, Any]:
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
    @router.post("/systemsharedmemory/region/{name}/unregister", summary="Forget a region")
    async def unregister(name: str | None = None) -> dict[str, Any]:
        """The object itself stays; requests under way keep their view of it."""
        await run_in_threadpool(shared_memory.unregister, name)
        return {}


def _integer(members: Mapping[str, Any], name: str, least: int) -> int:
    value = members.get(name, 0)
    if type(value) is not int or value < least:
        rule = f"must be an integer of at least {least}, got {shown(value)}"
        raise InvalidDescriptor.of([Fault((name,), rule)])
    return value


def _refuse_all(router: APIRouter, family: str, why: str) -> None:
    async def refuse(name: str | None = None) -> None:
        """Not offered here."""
        raise NotOffered(why)

    for method, path in (
        ("GET", "status"),
        ("GET", "region/{name}/status"),
        ("POST", "region/{name}/register"),
        ("POST", "unregister"),
        ("POST", "region/{name}/unregister"),
    ):
        router.add_api_route(f"/{family}/{path}", refuse, methods=[method], summary="Not offered")
