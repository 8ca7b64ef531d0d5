"""Calls that need the dialects, and so pydantic: executing descriptors, comparing directions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from ..arrays.tiles import Tile
from ..contract.differences.document import Differences, joined
from ..contract.errors import HeadersTooLarge, InvalidArgumentType
from ..contract.host_memory import Array, pack, runs
from ..contract.operators import registry
from ..contract.operators.dialects.ieee754 import IEEE754Round
from ..contract.operators.model import OperatorDescriptor
from ..contract.operators.operator import (
    PreparedDescriptor,
    RoundOperator,
    plain,
    prepare_descriptor,
)
from ..contract.operators.registry import operator_of
from ..contract.progress import counted
from ..contract.quoting import shown
from ..contract.wire import http_fields
from ..transport.exchange import CompareExchange, Deadline
from . import tensor_memory
from .session import LARGE_BYTES
from .tensor_memory import Exporter, Output, WholeTensor

if TYPE_CHECKING:
    from .session import CallOptions, Session

#: A descriptor: a model of any dialect, a mapping, or its JSON text.
AnyDescriptor = OperatorDescriptor | Mapping[str, Any] | str | bytes

#: Parsed descriptors that are cached; each has at most 16 KiB.
_CACHE_SIZE = 256


async def execute(
    session: Session, descriptor: AnyDescriptor, data: Exporter, out: Exporter, options: CallOptions
) -> Output:
    """Execute a descriptor of a session; see :meth:`Client.execute`.

    A tensor over ``tile_bytes`` is cut into tiles if its input and output have the same layout
    without gaps. Every other tensor is sent whole, and so are several tensors, as bytes.
    """
    stated, prepared = read_descriptor(descriptor)
    call = prepared.call
    source = tensor_memory.read_input(data, call)
    target = None if out is None else tensor_memory.read_output(out, call)
    in_place = target is not None and tensor_memory.is_in_place(source, target)
    most = max(call.input.element_bytes, call.output.element_bytes)
    if call.is_flat and call.parameters is None and most > session.tile_bytes:
        is_fresh = target is None
        target = target or tensor_memory.allocate(call.output)
        operator, elements = operator_of(stated), target.elements
        packed = operator.prepare(call.input.dtype.name, call.input.shape)
        await session.round_tiles(
            operator, packed, source.elements, elements, options, is_fresh=is_fresh
        )
        if target.memory is not None:
            nbytes = call.output.element_bytes
            if call.output.dtype.is_sub_byte:
                target.memory[:nbytes] = pack(elements)
            target.memory[nbytes:] = 0
        return Output(target)
    make_payload = partial(tensor_memory.payload, source, call)
    is_large = call.input.byte_length >= LARGE_BYTES
    payload = await session.concurrency.compute(make_payload) if is_large else make_payload()
    whole = WholeTensor(prepared, payload, target, in_place)
    with counted(options.progress, whole.nbytes) as add:
        await session.round_tile(whole, options.deadline)
        add(whole.nbytes)
    return Output(whole.allocated())


def read_descriptor(descriptor: AnyDescriptor) -> tuple[OperatorDescriptor, PreparedDescriptor]:
    """A caller's descriptor as a model, and as a prepared descriptor.

    Raises :class:`InvalidDescriptor` with every fault, :class:`MalformedJSON`, and
    :class:`InvalidArgumentType` for a value that is not a descriptor.
    """
    if isinstance(descriptor, str):
        # An unpaired surrogate becomes malformed UTF-8, which is refused later.
        text = descriptor.encode("utf-8", "surrogatepass")
    elif isinstance(descriptor, bytes):
        text = descriptor
    elif isinstance(descriptor, OperatorDescriptor):
        text = descriptor.to_json()
    elif isinstance(descriptor, Mapping):
        text = registry.validate(plain(descriptor)).to_json()
    elif isinstance(descriptor, RoundOperator):
        raise InvalidArgumentType("an operator has no tensor yet: give operator.descriptor(...)")
    else:
        raise InvalidArgumentType(
            f"a descriptor is a model, a mapping or JSON text, got {shown(descriptor)}"
        )
    if len(text) > http_fields.MAX_DESCRIPTOR_LENGTH:
        raise HeadersTooLarge(
            f"the descriptor has more than {http_fields.MAX_DESCRIPTOR_LENGTH} bytes"
        )
    return _read_text(text)


@lru_cache(maxsize=_CACHE_SIZE)
def _read_text(text: bytes) -> tuple[OperatorDescriptor, PreparedDescriptor]:
    stated = registry.parse(text)
    return stated, prepare_descriptor(stated)


_OPERATOR = IEEE754Round()


async def compare(session: Session, array: Array, dtype: str, options: CallOptions) -> Differences:
    """Compare the directions; a small array is sent whole, in its own shape."""
    shape = array.shape
    _OPERATOR.prepare(dtype, shape)
    limit = max(1, session.tile_bytes // array.itemsize)
    deadline, progress = options
    with counted(progress, array.nbytes, "comparing") as add:
        if array.size <= limit:
            whole = await _compare_run(session, array, dtype, shape, deadline)
            add(array.nbytes)
            return whole
        found: list[tuple[int, Differences]] = []

        async def work(part: tuple[int, Array]) -> None:
            start, run = part
            differences = await _compare_run(session, run, dtype, (run.size,), deadline)
            found.append((start, differences))
            add(run.nbytes)

        await session.for_each(work, _parts(array, limit), deadline)
    return joined(found, dtype, shape)


async def _compare_run(
    session: Session, elements: Array, dtype: str, shape: tuple[int, ...], deadline: Deadline
) -> Differences:
    tile = Tile(_OPERATOR.prepare(dtype, shape), elements, elements, False)
    exchange = CompareExchange(tile.prepared, tile.payload(), session.digest)
    document = await session.send(exchange, deadline, computes=session.digest)
    return Differences.from_data(document)


def _parts(array: Array, limit: int) -> Iterator[tuple[int, Array]]:
    """Runs of elements, each with the number of elements before it."""
    start = 0
    for run in runs(array, limit):
        yield start, run
        start += run.size
