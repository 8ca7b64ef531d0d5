"""``POST /round``: one operator, one tensor, in one of three representations.

The tensor is received from the socket into one buffer, rounded there, and sent from it.
"""

from __future__ import annotations

from functools import partial

from tensor_round.contract.call import Call
from tensor_round.contract.host_memory import pack, unpack
from tensor_round.contract.progress import Pause
from tensor_round.contract.wire import npy

from ..backends import Bytes
from ..engine.engine import Engine
from ..engine.job import Job
from ..net.response import Response
from ..openapi.round_operation import round_operation
from .json_document import TensorDocument
from .operation import Plan, TensorOperation, response
from .representations import Representations
from .table import RouteEntry
from .tensor_route import TensorRoute


def round_row(engine: Engine, max_tensor_bytes: int) -> RouteEntry:
    """The route of ``/round``."""
    operation = _Rounding(engine, max_tensor_bytes)
    route = TensorRoute(Representations(operation, engine).handle, engine)
    return RouteEntry("/round", route, method="POST", link="round", operation=round_operation)


class _Rounding(TensorOperation):
    npy_query = ("operator", "rounding", "dtype", "to", "saturate")
    json_query = ("operator", "to", "saturate")
    least_cost = 0
    overlaps = True

    def __init__(self, engine: Engine, max_tensor_bytes: int) -> None:
        self._engine = engine
        self._limit = max_tensor_bytes

    def needed_bytes(self, call: Call) -> int:
        """The memory of a call; raises :class:`TensorTooLarge`."""
        call.check_sizes(self._limit)
        return call.nbytes

    async def respond(self, plan: Plan, memory: Bytes, job: Job) -> Response:
        """Round a tensor; the response has the representation of the request."""
        call = plan.call
        job.dialect, job.call = plan.dialect, call
        work = partial(self._engine.round, call, memory, job)
        if plan.is_swapped or plan.stored is not None:
            work = partial(_round_stored, self._engine, plan, memory, job)
        target = await self._engine.run(work, call.nbytes, plan.cost, job)
        parts: list[bytes | memoryview] = [plan.header] if plan.header else []
        return response(plan.fixed, [*parts, target.data], job)

    def text_bytes(self, document: TensorDocument) -> int:
        """The memory for the numbers of the result as JSON."""
        return document.response_bytes()

    def respond_to_document(
        self, document: TensorDocument, memory: Bytes, job: Job, pause: Pause
    ) -> list[bytes]:
        """Round the tensor of a document."""
        job.dialect, job.call = document.dialect, document.call
        return document.response(self._engine.round(document.call, memory, job).data, pause)


def _round_stored(engine: Engine, plan: Plan, source: Bytes, job: Job) -> Bytes:
    """Round elements as .npy files have them: big-endian, or of 4 bits, with a byte each."""
    call = plan.call
    given, result = call.input.dtype, call.output.dtype
    if plan.is_swapped:
        source.view(given.bits).byteswap(inplace=True)
    target = engine.round(call, pack(source) if given.is_sub_byte else source, job)
    if plan.is_swapped and (result is given or npy.has_byte_order(result)):
        target.view(result.bits).byteswap(inplace=True)
    if result.is_sub_byte:
        packed, target = target, job.allocate(call.output.element_count)
        unpack(packed, target)
    return target
