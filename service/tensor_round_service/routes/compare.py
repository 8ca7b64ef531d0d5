"""``POST /compare``: the differences between roundings on one tensor, as JSON."""

from __future__ import annotations

from functools import partial

from tensor_round.contract.call import RoundCall
from tensor_round.contract.layout import Layout, check_size
from tensor_round.contract.progress import Pause
from tensor_round.contract.wire import strictjson

from ..backends import Bytes
from ..engine.differences import check_dense, compared
from ..engine.engine import INLINE_BYTES, Engine
from ..engine.job import Job
from ..http1.response import Response
from ..openapi.tensors import compare_operation
from .table import Row
from .tensors import Document, Plan, TensorHandlers, json_response

#: Memory that comparing needs besides the tensor: a multiple of its bytes, up to a maximum.
WORK_FACTOR, MAX_WORK_BYTES = 32, 8 << 20
#: A size whose work is done on a thread: even small tensors take long to compare.
_ON_A_THREAD = INLINE_BYTES + 1


def compare_row(engine: Engine, max_tensor_bytes: int) -> Row:
    """The route of ``/compare``."""
    route = _Compare(engine, max_tensor_bytes).route()
    return Row("/compare", route, method="POST", link="compare", operation=compare_operation)


class _Compare(TensorHandlers):
    """Of a descriptor of any dialect, only the layout of the input is used."""

    npy_query = ("dtype",)

    def needed_bytes(self, call: RoundCall) -> int:
        """The memory of a comparison; raises :class:`TensorTooLarge`, or refuses the layout."""
        layout = call.input
        check_size(layout, self._limit, "input")
        check_dense(layout)
        return layout.byte_length + min(WORK_FACTOR * layout.element_bytes, MAX_WORK_BYTES)

    async def respond(self, plan: Plan, memory: Bytes, job: Job, received: float) -> Response:
        """Compare the roundings on a tensor."""
        work = partial(_text, memory, plan.call.input, job, swapped=plan.is_swapped)
        text = await self._engine.run_slowly(work, _ON_A_THREAD, job, is_timed=True)
        return json_response([text], job, received)

    def json_cost(self, length: int) -> int:
        """The cost is that of comparing, whatever the length."""
        return _ON_A_THREAD

    def respond_to_document(
        self, document: Document, memory: Bytes, job: Job, pause: Pause
    ) -> list[bytes]:
        """Compare the roundings on the tensor of a document."""
        return [_text(memory, document.call.input, job, pause)]


def _text(memory: Bytes, layout: Layout, job: Job, pause: Pause, *, swapped: bool = False) -> bytes:
    text = strictjson.dumps(compared(memory, layout, swapped=swapped, pause=pause))
    job.executed_by = "numpy"
    return text
