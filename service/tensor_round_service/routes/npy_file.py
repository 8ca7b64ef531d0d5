"""A tensor in a .npy file."""

from __future__ import annotations

import time

from tensor_round.contract.call import Call, wrong_size
from tensor_round.contract.dtypes import DType
from tensor_round.contract.errors import MalformedNpy
from tensor_round.contract.layout import Layout
from tensor_round.contract.operators.dialects.ieee754 import IEEE754Convert, IEEE754Round
from tensor_round.contract.operators.operator import RoundOperator
from tensor_round.contract.wire import http_fields, npy

from ..engine.cost import call_cost
from ..engine.engine import Engine
from ..engine.job import Job
from ..engine.receive import receive
from ..net.bodies import ByteSource, read_up_to
from ..net.request import Request
from ..net.response import Response, of_type
from .operation import Plan, TensorOperation
from .query import dialect_of, operator_of, parameters
from .tensor_route import content_of

_NPY = of_type(http_fields.NPY)


class NpyHandler:
    """Handles requests whose body is a .npy file."""

    def __init__(self, operation: TensorOperation, engine: Engine) -> None:
        self._operation = operation
        self._engine = engine

    async def handle(self, request: Request, job: Job) -> Response:
        """Receive header and tensor, and work on the tensor."""
        query = parameters(request.head.query, *self._operation.npy_query)
        operator = operator_of(query)
        job.began = time.perf_counter()
        source, length = content_of(request, job, self._engine)
        header = await _read_header(source)
        dtype = npy.resolve_dtype(header, query.get("dtype"))
        call = _call_of(operator, header, dtype)
        needed = self._operation.needed_bytes(call)
        stored, received = header.layout(dtype), call
        halves = [layout.dtype.is_sub_byte for layout in (call.input, call.output)]
        needed += sum(halves) * stored.element_count
        if dtype.is_sub_byte:
            received = Call(call.function, stored, stored, stored.byte_length)
        whole = header.header_length + stored.byte_length
        if length not in (None, whole):
            raise wrong_size(length, (whole,))
        plan = Plan(
            call,
            dialect=dialect_of(query),
            needed_bytes=needed,
            cost=call_cost(call),
            fixed=_NPY,
            header=_header_of(header, call),
            is_swapped=header.byte_order == "big",
            stored=stored if any(halves) else None,
        )
        memory = await receive(
            received,
            source,
            job,
            self._engine,
            needed,
            overlaps=self._operation.overlaps and not plan.is_swapped and received is call,
        )
        return await self._operation.respond(plan, memory, job)


async def _read_header(source: ByteSource) -> npy.NpyHeader:
    """Read the header of a .npy file."""
    start = b""
    while isinstance(header := npy.read_header(start), int):
        piece = await read_up_to(source, header)
        if not piece:
            raise MalformedNpy("the file ends within its header")
        start += piece
    return header


def _call_of(operator: RoundOperator, header: npy.NpyHeader, dtype: DType) -> Call:
    """The call on a file; raises :class:`InvalidDescriptor` if the operator refuses the tensor."""
    # ieee754 accepts the rank of every .npy file.
    has_any_rank = isinstance(operator, IEEE754Round | IEEE754Convert)
    shape = () if has_any_rank else header.shape
    resolved = operator.prepare(dtype.name, shape).call
    target = resolved.output.dtype
    if dtype.is_sub_byte or target.is_sub_byte:
        # In the file's order, whichever that is: packed elements have no other.
        shape = header.shape[::-1] if header.fortran_order else header.shape
        return Call.packed_output(resolved.function, Layout.of(dtype, shape), target)
    layout, output = header.layout(dtype), header.layout(target)
    return Call(resolved.function, layout, output, layout.byte_length)


def _header_of(header: npy.NpyHeader, call: Call) -> bytes:
    """The header of the result: that of the request, unless the type is another."""
    if call.output.dtype is call.input.dtype:
        return header.raw
    return npy.header_of(call.output.dtype, header.shape, header)
