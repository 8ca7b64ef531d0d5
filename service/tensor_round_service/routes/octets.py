"""A tensor's bytes, described by the header ``Operator-Descriptor``."""

from __future__ import annotations

import time
from functools import lru_cache

from tensor_round.contract.errors import DuplicateDescriptor, HeadersTooLarge, MissingDescriptor
from tensor_round.contract.operators import registry
from tensor_round.contract.wire import http_fields

from ..engine.cost import call_cost
from ..engine.engine import Engine
from ..engine.job import Job
from ..engine.receive import receive
from ..net.bodies import ByteSource
from ..net.head import Head
from ..net.request import Request
from ..net.response import Response, field_name, of_type
from .operation import Plan, TensorOperation
from .query import parameters
from .tensor_route import CODED, DESCRIPTOR, content_of

_OUTPUT_DESCRIPTOR = field_name(http_fields.OUTPUT_DESCRIPTOR)

#: Number of cached plans, and the longest descriptor of one: StableHLO's types have scales, which
#: make plans of up to 60 KiB.
_CACHED_PLANS = 1024
_CACHED_LENGTH = 2048


class OctetHandler:
    """Handles requests whose body is the tensor."""

    def __init__(self, operation: TensorOperation, engine: Engine) -> None:
        self._operation = operation
        self._engine = engine
        # Refusals are not cached.
        self._plan = lru_cache(_CACHED_PLANS)(self._make_plan)

    async def handle(self, request: Request, job: Job) -> Response:
        """Receive the tensor, and work on it."""
        head = request.head
        if head.query:
            parameters(head.query)
        if DESCRIPTOR in head.repeated:
            raise _repeated(head)
        descriptor = head.values.get(DESCRIPTOR)
        is_short = descriptor is None or len(descriptor) <= _CACHED_LENGTH
        plan = (self._plan if is_short else self._make_plan)(descriptor)
        source: ByteSource = request
        length, call = head.length, plan.call
        if not CODED.isdisjoint(head.values):
            source, length = content_of(request, job, self._engine)
        if length is not None and length not in call.lengths:
            raise call.wrong_size(length)
        job.began = time.perf_counter()
        memory = await receive(
            call,
            source,
            job,
            self._engine,
            plan.needed_bytes,
            overlaps=self._operation.overlaps,
        )
        return await self._operation.respond(plan, memory, job)

    def _make_plan(self, descriptor: bytes | None) -> Plan:
        """The plan for a value of ``Operator-Descriptor``; refuses a missing or long one."""
        name, limit = http_fields.OPERATOR_DESCRIPTOR, http_fields.MAX_DESCRIPTOR_LENGTH
        if descriptor is None:
            raise MissingDescriptor(
                f"the header {name} with the operator as JSON is missing; "
                "GET /operators lists the operators"
            )
        if len(descriptor) > limit:
            raise HeadersTooLarge(f"the header {name} has more than {limit} bytes")
        described_by = registry.parse(descriptor)
        call = described_by.resolve()
        return Plan(
            call,
            described_by.dialect,
            self._operation.needed_bytes(call),
            call_cost(call),
            of_type(
                http_fields.OCTET_STREAM,
                (_OUTPUT_DESCRIPTOR, http_fields.output_descriptor(call.output)),
            ),
        )


def _repeated(head: Head) -> DuplicateDescriptor:
    count = sum(field == DESCRIPTOR for field, _ in head.fields)
    name = http_fields.OPERATOR_DESCRIPTOR
    return DuplicateDescriptor(f"the request has the header {name} {count} times; send it once")
