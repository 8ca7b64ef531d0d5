"""Rounding an array where a GPU has it, by a service on the same host.

Only JSON crosses the socket: handles of the allocations, registered for the time of one
call by the Open Inference Protocol's CUDA shared memory, and the inference. No longer than
that, since an allocation must not be freed while another process has it mapped. On the
wire a call is always the model ``round``: its operator was checked here, and every dialect's
comes down to a dtype and a direction.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from ..call import RoundCall
from ..errors import RequestRefused, TensorRoundError, TensorTooLarge
from ..messages.request import Request, json_request
from .driver import Driver, DriverFailed, Export

#: Sends requests, made anew for each try, until there is an answer's document.
Fetch = Callable[[Callable[[], Request]], Awaitable[dict[str, Any]]]

#: Statuses of a service that has no CUDA shared memory, or cannot open this.
_CANNOT = frozenset({400, 404, 405, 501})
#: What the protocol has no name for travels as these bits.
_CARRIER = "UINT8"


class CannotShare(Exception):
    """The service cannot get at the memory; says why. Nothing was changed."""


class TooLarge(CannotShare):
    """The service takes no tensor as large as this one."""


async def round_shared(
    fetch: Fetch, driver: Driver, call: RoundCall, source: int, target: int
) -> None:
    """Round the packed tensor at one address of a device into the one at another.

    Raises :class:`CannotShare`, and what ``fetch`` raises.
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
                names[export.handle] = await _registered(fetch, export)
        document = _inference(call, exports, names)
        await fetch(partial(json_request, "/v2/models/round/infer", document))
    except RequestRefused as refusal:
        if refusal.status == TensorTooLarge.status:
            raise TooLarge(refusal.detail) from refusal
        raise
    finally:
        for name in names.values():
            # It ends with the service at the latest; the outcome of the call matters more.
            with suppress(TensorRoundError):
                path = f"/v2/cudasharedmemory/region/{name}/unregister"
                await fetch(partial(json_request, path, {}))


async def _registered(fetch: Fetch, export: Export) -> str:
    """The name under which the service has an allocation now."""
    name = ""

    def request() -> Request:
        nonlocal name
        # Another at each try: an earlier one may have come through, and its answer not.
        name = f"tensor-round-{secrets.token_hex(8)}"
        document = {
            "raw_handle": {"b64": base64.b64encode(export.handle).decode()},
            "device_id": export.device,
            "byte_size": export.nbytes,
        }
        return json_request(f"/v2/cudasharedmemory/region/{name}/register", document)

    try:
        await fetch(request)
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
