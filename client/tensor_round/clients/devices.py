"""Rounding arrays in a GPU's memory: in place through CUDA IPC, or else through host memory.

A service on the same host gets only JSON: the handles of the allocations, which are registered by
the Open Inference Protocol's CUDA shared-memory extension, and the inference. Registrations end
with the call, since an allocation must not be freed while another process has it mapped. The model
is ``round`` or ``cast``: the operator was validated here, and nearly every dialect's resolves to
the function of one of them. Operands of any other function are copied.
"""

from __future__ import annotations

import base64
import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..arrays import device
from ..arrays.device import ArrayLibrary, DriverFailed, Export, library_of
from ..contract.call import Call
from ..contract.errors import InvalidArgument, RequestRefused, TensorRoundError, TensorTooLarge
from ..contract.functions import Convert, RoundToIntegral
from ..contract.host_memory import refuse_loss_of_gradient
from ..contract.operators.operator import PreparedDescriptor
from ..transport.exchange import (
    Deadline,
    DocumentExchange,
    Request,
    ResponseReader,
    document_reader,
)

if TYPE_CHECKING:
    from ..arrays.parameters import Parameters
    from .session import Applied, CallOptions, Session

#: Statuses of a service without CUDA shared memory, or without access to this memory.
_CANNOT = frozenset({400, 404, 405, 501})
#: Seconds for which each region is unregistered at most, also after the call's deadline.
_UNREGISTER_SECONDS = 1.0
#: The protocol's datatype for dtypes that it has no name for.
_CARRIER = "UINT8"


class CannotShare(Exception):
    """The service cannot access the memory; the message gives its reason. Nothing was changed."""


class TooLarge(CannotShare):
    """The tensor is over the service's limit."""


class _Inference(NamedTuple):
    """A model of the service and its parameters, which compute a call's function."""

    model: str
    parameters: dict[str, Any]

    @classmethod
    def of(cls, call: Call) -> _Inference | None:
        """The inference that computes a call; None if it takes a model of one dialect."""
        match call.function:
            case RoundToIntegral(rounding):
                return cls("round", {"rounding": rounding})
            case Convert(rounding, saturates):
                to = call.output.dtype.name
                return cls("cast", {"rounding": rounding, "to": to, "saturate": saturates})
        return None

    def document(
        self, call: Call, exports: list[Export], names: dict[bytes, str]
    ) -> dict[str, Any]:
        """Its request, with both tensors in regions of these names."""
        source, target = (
            {
                "shared_memory_region": names[export.handle],
                "shared_memory_byte_size": layout.element_bytes,
                "shared_memory_offset": export.offset,
            }
            for export, layout in zip(exports, (call.input, call.output), strict=True)
        )
        layout = call.input
        carried = {} if layout.dtype.oip else {"dtype": layout.dtype.name}
        tensor = {
            "name": "X",
            "datatype": layout.dtype.oip or _CARRIER,
            "shape": [layout.element_count],
            "parameters": {**carried, **source},
        }
        return {
            "parameters": self.parameters,
            "inputs": [tensor],
            "outputs": [{"name": "Y", "parameters": target}],
        }


async def _infer(
    session: Session, inference: _Inference, call: Call, exports: list[Export], deadline: Deadline
) -> None:
    """Round the packed tensor of the first export into the second.

    Raises :class:`CannotShare`, and the errors of :meth:`Session.send`.
    """
    names: dict[bytes, str] = {}
    tried: list[str] = []
    try:
        for export in exports:
            if export.handle not in names:
                names[export.handle] = await _register(session, export, deadline, tried)
        document = inference.document(call, exports, names)
        path = f"/v2/models/{inference.model}/infer"
        await session.send(DocumentExchange(path, document), deadline)
    except RequestRefused as refusal:
        if refusal.status == TensorTooLarge.status:
            raise TooLarge(refusal.detail) from refusal
        raise
    finally:
        for name in tried:
            # A failure is ignored: the call's result counts, and a restart unregisters too.
            with suppress(TensorRoundError):
                unregister = DocumentExchange(f"/v2/cudasharedmemory/region/{name}/unregister", {})
                await session.send(unregister, Deadline(_UNREGISTER_SECONDS))


class _Registration(NamedTuple):
    """Registers an allocation by a name of its own, which is added to ``tried``."""

    export: Export
    tried: list[str]

    def request(self) -> Request:
        """A request with a new name: an earlier one may be registered, with its response lost."""
        self.tried.append(name := f"tensor-round-{secrets.token_hex(8)}")
        document = {
            "raw_handle": {"b64": base64.b64encode(self.export.handle).decode()},
            "device_id": self.export.device,
            "byte_size": self.export.nbytes,
        }
        return DocumentExchange(f"/v2/cudasharedmemory/region/{name}/register", document).request()

    def reader(self, status: int, fields: Mapping[str, str]) -> ResponseReader[dict[str, Any]]:
        """The reader of the service's answer."""
        return document_reader(status, fields)


async def _register(session: Session, export: Export, deadline: Deadline, tried: list[str]) -> str:
    """Register an allocation with the service; return the name, the last of those tried."""
    try:
        await session.send(_Registration(export, tried), deadline)
    except RequestRefused as refusal:
        if refusal.status in _CANNOT:
            raise CannotShare(refusal.detail) from refusal
        raise
    return tried[-1]


logger = logging.getLogger(__name__)


class DeviceRounder:
    """Rounds the GPU arrays of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        #: False once the service has failed to open this process's GPU memory.
        self._can_share = True

    async def round(
        self,
        library: ArrayLibrary,
        x: Any,
        operator: Applied,
        out: Any,
        options: CallOptions,
        make_parameters: Callable[[str], Parameters] | None,
    ) -> Any:
        """Round an array of that library; see :meth:`Session.round`."""
        refuse_loss_of_gradient(x)
        dtype = library.dtype(x)
        parameters = make_parameters and make_parameters(dtype)
        types = () if parameters is None else parameters.types
        prepared = operator.prepare(dtype, tuple(x.shape), *types)
        made = prepared.call.output.dtype
        to = made.name
        if made.is_sub_byte or prepared.call.input.dtype.is_sub_byte:
            raise InvalidArgument(f"{library.module} has no elements of 4 bits: copy x to the CPU")
        if out is not None:
            _check_out(library, x, out, to)
        source = x if library.is_packed(x) else library.packed_copy(x)
        if out is not None and _can_be_target(library, source, out, to):
            target = out
        else:
            target = library.empty_like(x, to)
        if library.nbytes(source):
            addresses = library.address(source), library.address(target)
            if not await self._round_shared(prepared.call, *addresses, options.deadline):
                await self._round_copied(operator, prepared, *addresses, options, parameters)
        if out is None:
            return target
        if target is not out:
            library.assign(out, target)
        return out

    async def _round_shared(self, call: Call, source: int, target: int, deadline: Deadline) -> bool:
        """Round in GPU memory; False if the service cannot."""
        inference = _Inference.of(call)
        if not self._can_share or inference is None:
            return False
        try:
            gpu = device.open_driver()
            gpu.wait(source)
            exports = [gpu.export(address) for address in (source, target)]
            await _infer(self._session, inference, call, exports, deadline)
        except (CannotShare, DriverFailed) as reason:
            logger.warning("GPU arrays are copied to the service and back: %s", reason)
            self._can_share = isinstance(reason, TooLarge)
            return False
        return True

    async def _round_copied(
        self,
        operator: Applied,
        prepared: PreparedDescriptor,
        source: int,
        target: int,
        options: CallOptions,
        parameters: Parameters | None,
    ) -> None:
        """Round a copy in host memory."""
        given, made = prepared.call.input, prepared.call.output
        operands = np.empty(given.shape, given.dtype.numpy)
        results = operands if made == given else np.empty(made.shape, made.dtype.numpy)
        try:
            gpu = device.open_driver()
            gpu.wait(source)
            gpu.read(source, operands.reshape(-1).view(np.uint8))
            await self._session.round_tiles(
                operator, prepared, operands, results, options, parameters
            )
            gpu.write(results.reshape(-1).view(np.uint8), target)
        except DriverFailed as error:
            raise InvalidArgument(f"the array cannot be read or written: {error}") from error


def _check_out(library: ArrayLibrary, x: Any, out: Any, to: str) -> None:
    refuse_loss_of_gradient(out, "out")
    if library_of(out) is not library:
        raise InvalidArgument(f"out must be an array of {library.module} on a GPU, as x is")
    if tuple(out.shape) != tuple(x.shape):
        raise InvalidArgument(f"out has shape {tuple(out.shape)}, x has {tuple(x.shape)}")
    if library.dtype(out) != to:
        raise InvalidArgument(f"out has dtype {library.dtype(out)}, the result has {to}")


def _can_be_target(library: ArrayLibrary, source: Any, out: Any, to: str) -> bool:
    """Whether ``out`` is packed, and does not overlap ``source``, or is that of the same type."""
    if not library.is_packed(out):
        return False
    distance = library.address(out) - library.address(source)
    if distance == 0:
        return library.dtype(source) == to
    return distance >= library.nbytes(source) or -distance >= library.nbytes(out)
