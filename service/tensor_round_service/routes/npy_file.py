"""A tensor in a .npy file."""

from __future__ import annotations

import time

from tensor_round.contract.call import Call, wrong_size
from tensor_round.contract.dtypes import DType
from tensor_round.contract.errors import MalformedNpy
from tensor_round.contract.operators.dialects.ieee754 import IEEE754Convert, IEEE754Round
from tensor_round.contract.operators.operator import RoundOperator
from tensor_round.contract.wire import http_fields, npy

from ..engine.engine import Engine, rounding_cost
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
        query = parameters(request.head, *self._operation.npy_query)
        operator = operator_of(query)
        job.began = time.perf_counter()
        source, length = content_of(request, job, self._engine)
        header = await _read_header(source)
        dtype = npy.resolve_dtype(header, query.get("dtype"))
        call = _call_of(operator, header, dtype)
        needed = self._operation.needed_bytes(call)
        whole = header.header_length + call.input.byte_length
        if length not in (None, whole):
            raise wrong_size(length, (whole,))
        plan = Plan(
            call,
            dialect=dialect_of(query),
            needed_bytes=needed,
            cost=rounding_cost(call),
            fixed=_NPY,
            header=_header_of(header, call),
            is_swapped=header.byte_order == "big",
        )
        memory = await receive(
            call,
            source,
            job,
            self._engine,
            needed,
            lengths=call.lengths,
            overlaps=self._operation.overlaps and not plan.is_swapped,
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
    layout = header.layout(dtype)
    # ieee754 accepts the rank of every .npy file.
    has_any_rank = isinstance(operator, IEEE754Round | IEEE754Convert)
    shape = (layout.element_count,) if has_any_rank else layout.shape
    resolved = operator.prepare(dtype.name, shape).call
    output = header.layout(resolved.output.dtype)
    return Call(resolved.function, layout, output, layout.byte_length)


def _header_of(header: npy.NpyHeader, call: Call) -> bytes:
    """The header of the result: that of the request, unless the type is another."""
    if call.output.dtype is call.input.dtype:
        return header.raw
    return npy.header_of(call.output.dtype, header.shape, header)
