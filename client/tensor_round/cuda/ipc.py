"""Rounding an array in GPU memory through CUDA IPC, by a service on the same host.

Only JSON is sent: the handles of the allocations, which are registered by the Open Inference
Protocol's CUDA shared-memory extension, and the inference. Registrations end with the call, since
an allocation must not be freed while another process has it mapped. The model is always ``round``:
the operator was validated here, and every dialect's resolves to a dtype and a direction.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from ..contract.call import RoundCall
from ..contract.errors import RequestRefused, TensorRoundError, TensorTooLarge
from ..transport.concurrency import Deadline
from ..transport.exchange import Request, json_request
from .driver import Driver, DriverFailed, Export

#: Sends a request with retries; the response's JSON object. Each try makes the request anew.
SendForDocument = Callable[[Callable[[], Request], Deadline], Coroutine[Any, Any, dict[str, Any]]]

#: Statuses of a service without CUDA shared memory, or without access to this memory.
_CANNOT = frozenset({400, 404, 405, 501})
#: The protocol's datatype for dtypes that it has no name for.
_CARRIER = "UINT8"


class CannotShare(Exception):
    """The service cannot access the memory; the message gives its reason. Nothing was changed."""


class TooLarge(CannotShare):
    """The tensor is over the service's limit."""


async def round_shared(
    send: SendForDocument,
    driver: Driver,
    call: RoundCall,
    source: int,
    target: int,
    deadline: Deadline,
) -> None:
    """Round the packed tensor at one device address into the one at another.

    Raises :class:`CannotShare`, and the errors of ``send``.
    """
    try:
        driver.wait(source)
        exports = [driver.export(address) for address in (source, target)]
    except DriverFailed as error:
        raise CannotShare(str(error)) from error
    names: dict[bytes, str] = {}
    try:
        for export in exports:
            if export.handle not in names:
                names[export.handle] = await _register(send, export, deadline)
        document = _inference(call, exports, names)
        await send(partial(json_request, "/v2/models/round/infer", document), deadline)
    except RequestRefused as refusal:
        if refusal.status == TensorTooLarge.status:
            raise TooLarge(refusal.detail) from refusal
        raise
    finally:
        for name in names.values():
            # A failure is ignored: the call's result counts, and a restart unregisters too.
            with suppress(TensorRoundError):
                path = f"/v2/cudasharedmemory/region/{name}/unregister"
                await send(partial(json_request, path, {}), deadline)


async def _register(send: SendForDocument, export: Export, deadline: Deadline) -> str:
    """Register an allocation with the service; return the name of the registration."""
    name = ""

    def request() -> Request:
        nonlocal name
        # A new name for each try: an earlier one may be registered, with its response lost.
        name = f"tensor-round-{secrets.token_hex(8)}"
        document = {
            "raw_handle": {"b64": base64.b64encode(export.handle).decode()},
            "device_id": export.device,
            "byte_size": export.nbytes,
        }
        return json_request(f"/v2/cudasharedmemory/region/{name}/register", document)

    try:
        await send(request, deadline)
    except RequestRefused as refusal:
        if refusal.status in _CANNOT:
            raise CannotShare(refusal.detail) from refusal
        raise
    return name


def _inference(call: RoundCall, exports: list[Export], names: dict[bytes, str]) -> dict[str, Any]:
    layout = call.input
    parts = [
        {
            "shared_memory_region": names[export.handle],
            "shared_memory_byte_size": layout.element_bytes,
            "shared_memory_offset": export.offset,
        }
        for export in exports
    ]
    carried = {} if layout.dtype.oip else {"dtype": layout.dtype.name}
    tensor = {
        "name": "X",
        "datatype": layout.dtype.oip or _CARRIER,
        "shape": [layout.element_count],
        "parameters": {**carried, **parts[0]},
    }
    return {
        "parameters": {"rounding": call.rounding},
        "inputs": [tensor],
        "outputs": [{"name": "Y", "parameters": parts[1]}],
    }
