"""``POST /compare``: the differences between roundings on one tensor, as JSON."""

from __future__ import annotations

from functools import partial

import numpy as np

from tensor_round.contract.call import Call
from tensor_round.contract.differences.document import Differences
from tensor_round.contract.host_memory import Array, elements, strided_view
from tensor_round.contract.layout import check_size
from tensor_round.contract.progress import Pause
from tensor_round.contract.wire import http_fields, strictjson

from ..backends import Bytes
from ..engine.differences import check_comparable, compared
from ..engine.engine import ON_A_THREAD, Engine
from ..engine.job import Job
from ..features import Feature, FeatureContext
from ..net.response import Response
from ..openapi.document import Description
from ..openapi.round_operation import HEADERS, PARAMETERS, REQUEST, tensor_operation
from ..openapi.schemas import Schema, components, ref
from ..routes.json_document import TensorDocument
from ..routes.operation import Plan, TensorOperation, json_response
from ..routes.representations import Representations
from ..routes.table import RouteEntry
from ..routes.tensor_route import TensorRoute

#: Memory that comparing needs besides the tensor: a multiple of its bytes, up to a maximum.
WORK_FACTOR, MAX_WORK_BYTES = 32, 8 << 20


def feature(context: FeatureContext) -> Feature:
    """The route of ``/compare``."""
    operation = _Comparing(context.engine, context.settings.max_tensor_bytes)
    route = TensorRoute(Representations(operation, context.engine).handle, context.engine)
    row = RouteEntry("/compare", route, method="POST", link="compare", operation=_operation)
    return Feature(
        rows=[row],
        description=Description(schemas=lambda: components(Differences, mode="serialization")),
    )


class _Comparing(TensorOperation):
    """Of a descriptor of any dialect, only the layout of the input is used."""

    npy_query = ("dtype",)
    json_query = ()
    least_cost = ON_A_THREAD
    overlaps = False

    def __init__(self, engine: Engine, max_tensor_bytes: int) -> None:
        self._engine = engine
        self._limit = max_tensor_bytes

    def needed_bytes(self, call: Call) -> int:
        """The memory of a comparison; raises :class:`TensorTooLarge`, or refuses the layout."""
        layout = call.input
        check_size(layout, self._limit, "input")
        check_comparable(call)
        return layout.byte_length + min(WORK_FACTOR * layout.element_bytes, MAX_WORK_BYTES)

    async def respond(self, plan: Plan, memory: Bytes, job: Job) -> Response:
        """Compare the roundings on a tensor."""
        work = partial(_text, plan, memory, job)
        parts = await self._engine.run_slowly(work, ON_A_THREAD, job, is_timed=True)
        return json_response(parts, job)

    def text_bytes(self, document: TensorDocument) -> int:
        """Nothing: the differences are few."""
        return 0

    def respond_to_document(
        self, document: TensorDocument, memory: Bytes, job: Job, pause: Pause
    ) -> list[bytes]:
        """Compare the roundings on the tensor of a document."""
        return _compared(elements(memory, document.call.input), job, pause)


def _text(plan: Plan, memory: Bytes, job: Job, pause: Pause) -> list[bytes]:
    layout = plan.call.input
    if plan.stored is not None:  # elements of 4 bits, each in a byte
        memory &= 0x0F
        array = strided_view(memory, plan.stored).view(layout.dtype.numpy)
    else:
        array = elements(memory, layout)
    if plan.is_swapped:
        array = array.view(array.dtype.newbyteorder(">"))
    return _compared(array, job, pause)


def _compared(array: Array, job: Job, pause: Pause) -> list[bytes]:
    text = strictjson.dumps(compared(array, pause))
    job.executed_by = "numpy"
    return [text]


def _operation() -> Schema:
    """The OpenAPI operation."""
    example = compared(np.array(REQUEST["data"], np.float32))
    return tensor_operation(
        "compare",
        "Compare roundings on a tensor",
        "For each pair of roundings: the number of elements whose results differ, by class, "
        "and the first three of each class. The request has the representations of `/round`. "
        "Of a descriptor, only the layout of the input is used, which must be dense. The "
        "response is always JSON.",
        [p for p in PARAMETERS if p["name"] not in ("operator", "rounding")],
        ref("RoundRequest"),
        {
            "description": "The differences.",
            "headers": HEADERS,
            "content": {http_fields.JSON: {"schema": ref("Differences"), "example": example}},
        },
    )
