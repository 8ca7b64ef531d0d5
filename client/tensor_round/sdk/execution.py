"""Executing a descriptor as it is: any dialect's, with every layout that it can state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol

from .. import operators
from ..arrays.host import Array
from ..arrays.sinks import Landing
from ..errors import HeadersTooLarge, InvalidArgumentType
from ..messages.reader import Intake
from ..messages.request import Request, round_request, tensor_intake
from ..operators import Descriptor
from ..operators.model import OperatorDescriptor
from ..operators.objects import Plan, RoundOperator, operator_of, plan_of
from ..progress import ProgressCallback, counted
from ..quoting import shown
from ..transport.concurrency import Concurrency
from ..transport.deadline import Deadline
from ..wire import native
from . import tensors
from .output import Output
from .tensors import Exporter, Tensor

#: A descriptor: any dialect's model, a document, or its JSON text.
AnyDescriptor = Descriptor | Mapping[str, Any] | str | bytes

#: Descriptors remembered; each has at most 16 KiB.
_REMEMBERED = 256
#: From this size on, laying out takes longer than its way to a thread and back.
_LARGE_BYTES = 256 << 10


class Fetch(Protocol):
    """Sends requests, made anew for each try, until one response is whole."""

    def __call__(
        self,
        make: Callable[[], Request],
        reception: Callable[[int, Mapping[str, str]], Intake[None]],
        deadline: Deadline,
        *,
        computes: bool = False,
    ) -> Awaitable[None]:
        """Send it."""


class Fill(Protocol):
    """Has every tile of an array rounded into another, which may be the same memory."""

    def __call__(
        self,
        operator: RoundOperator,
        plan: Plan,
        source: Array,
        target: Array,
        progress: bool | ProgressCallback,
        deadline: Deadline,
        *,
        is_fresh: bool = False,
    ) -> Awaitable[None]:
        """Round it."""


class Executions:
    """What a session does with descriptors.

    A tensor over ``tile_bytes`` whose elements cover their bytes alike in input and output
    travels in tiles; all others go whole.
    """

    def __init__(
        self, fetch: Fetch, fill: Fill, concurrency: Concurrency, tile_bytes: int, *, digest: bool
    ) -> None:
        self._fetch = fetch
        self._fill = fill
        self._concurrency = concurrency
        self._tile_bytes = tile_bytes
        self._digest = digest

    async def execute(
        self,
        descriptor: AnyDescriptor,
        data: Exporter,
        out: Exporter,
        progress: bool | ProgressCallback,
        deadline: Deadline,
    ) -> Output:
        """Execute a descriptor; see :meth:`Client.execute`."""
        stated, plan = read_descriptor(descriptor)
        call = plan.call
        source = tensors.read_input(data, call)
        target = None if out is None else tensors.read_output(out, call)
        in_place = target is not None and tensors.is_in_place(source, target)
        is_flat = call.input.is_dense and call.input.lies_like(call.output.strides)
        if is_flat and call.input.element_bytes > self._tile_bytes:
            is_fresh = target is None
            target = target or tensors.fresh(call.output)
            await self._in_tiles(stated, source, target, progress, deadline, is_fresh=is_fresh)
        else:
            target = await self._whole(plan, source, target, in_place, progress, deadline)
        return Output(target)

    async def _in_tiles(
        self,
        stated: Descriptor,
        source: Tensor,
        target: Tensor,
        progress: bool | ProgressCallback,
        deadline: Deadline,
        *,
        is_fresh: bool,
    ) -> None:
        operator, layout = operator_of(stated), target.layout
        plan = operator.plan(layout.dtype.name, layout.shape)
        await self._fill(
            operator,
            plan,
            source.elements,
            target.elements,
            progress,
            deadline,
            is_fresh=is_fresh,
        )
        if target.memory is not None:
            target.memory[layout.element_bytes :] = 0

    async def _whole(
        self,
        plan: Plan,
        source: Tensor,
        target: Tensor | None,
        in_place: bool,
        progress: bool | ProgressCallback,
        deadline: Deadline,
    ) -> Tensor:
        def laid_out() -> memoryview:
            return tensors.payload(source, plan.call)

        is_large = plan.call.input.byte_length >= _LARGE_BYTES
        payload = await self._concurrency.compute(laid_out) if is_large else laid_out()
        digest, place = self._digest, target

        def landing() -> Landing:
            # Memory is allocated once the service has accepted the tensor.
            nonlocal place
            if place is None:
                place = tensors.fresh(plan.call.output)
            return tensors.landing(place, in_place=in_place, verified=digest)

        def reception(status: int, fields: Mapping[str, str]) -> Intake[None]:
            return tensor_intake(status, fields, plan, landing, digest=digest)

        def request() -> Request:
            return round_request(plan, payload, digest=digest)

        with counted(progress, len(payload)) as add:
            await self._fetch(request, reception, deadline, computes=digest and is_large)
            add(len(payload))
        assert place is not None
        return place


def read_descriptor(descriptor: AnyDescriptor) -> tuple[Descriptor, Plan]:
    """A caller's descriptor, and the plan for it.

    Raises :class:`InvalidDescriptor` with every fault, :class:`MalformedJSON` for a text
    that is no JSON, and :class:`InvalidArgumentType` for what is no descriptor at all.
    """
    if isinstance(descriptor, str):
        # An unpaired surrogate is no UTF-8, and is refused as such.
        text = descriptor.encode("utf-8", "surrogatepass")
    elif isinstance(descriptor, bytes):
        text = descriptor
    elif isinstance(descriptor, OperatorDescriptor):
        text = descriptor.to_json()
    elif isinstance(descriptor, Mapping):
        text = operators.validate(dict(descriptor)).to_json()
    elif isinstance(descriptor, RoundOperator):
        raise InvalidArgumentType("an operator is of no tensor yet: give operator.descriptor(...)")
    else:
        raise InvalidArgumentType(
            f"a descriptor is a model, a mapping or JSON text, got {shown(descriptor)}"
        )
    if len(text) > native.MAX_DESCRIPTOR_LENGTH:
        raise HeadersTooLarge(f"the descriptor has more than {native.MAX_DESCRIPTOR_LENGTH} bytes")
    return _read_text(text)


@lru_cache(maxsize=_REMEMBERED)
def _read_text(text: bytes) -> tuple[Descriptor, Plan]:
    stated = operators.parse(text)
    return stated, plan_of(stated)
