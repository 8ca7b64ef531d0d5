"""Inferences, by HTTP and gRPC: planned, received, executed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns

from tensor_round.contract.errors import NotOffered, PayloadSizeMismatch

from ..backends import Bytes
from ..content.sources import ByteSource, Parts, expect_end
from ..engine.engine import Engine
from ..engine.job import Job
from . import codec
from .executor import InferenceExecutor
from .models import Model
from .plan import NO_SHARED_MEMORY, InferencePlan, plan
from .statistics import Statistics


@dataclass(eq=False, slots=True)
class Inference:
    """Plans and infers on one engine; its callers count by ``counts`` what came of it."""

    engine: Engine
    executor: InferenceExecutor
    counts: Statistics
    max_tensor_bytes: int

    def plan(self, model: Model, request: codec.Request) -> InferencePlan:
        """Resolve a request, and check it against the rules of the model and of the service.

        Raises as :func:`.plan.plan` and :meth:`.InferencePlan.check_sizes`, and
        :class:`NotOffered` for shared memory that the service does not have.
        """
        if request.uses_shared_memory and not self.executor.has_shared_memory:
            raise NotOffered(NO_SHARED_MEMORY)
        found = plan(model, request)
        found.check_sizes(self.max_tensor_bytes)
        return found

    async def infer(
        self, plan: InferencePlan, source: ByteSource, job: Job, stated: int | None = None
    ) -> Parts:
        """Receive the tensor of a planned request, and execute the plan; returns the output.

        ``source`` has what follows the request's header. If the message states its length,
        ``stated`` is that length in bytes, for which the job has reserved memory. ``job.began``
        must be set. Raises :class:`PayloadSizeMismatch` for another length than the plan's, and
        what source, budget and engine raise.
        """
        job.labels, job.call = plan.labels, plan.call
        received = await self._receive(plan, source, job, stated)
        received_at = perf_counter_ns()
        nbytes = self.executor.payload_bytes(plan)
        execute = partial(self.executor.run, plan, received, job)
        cost = nbytes - plan.call.nbytes + plan.cost
        if plan.has_json_data:
            output = await self.engine.run_slowly(execute, cost, job, is_timed=True)
        else:
            output = await self.engine.run(execute, nbytes, cost, job)
        overlap = 0.0 if job.overlap is None else job.overlap.seconds
        job.receive_seconds = (received_at - job.began) / 1e9 - overlap
        job.execute_seconds += overlap
        return output

    async def _receive(
        self, plan: InferencePlan, source: ByteSource, job: Job, stated: int | None
    ) -> Bytes | None:
        """Reserve the memory of the plan, and receive the tensor if it follows the header."""
        needed = self.executor.buffer_bytes(plan) + plan.text_bytes
        if not isinstance(plan.source, codec.Binary):
            job.reserve(needed)
            await expect_end(source, 0)
            return None
        nbytes = plan.source.byte_size
        if stated is not None:
            if stated != nbytes:
                raise _wrong_size(stated, nbytes)
            needed -= nbytes
        if needed:
            job.reserve(needed)
        memory = job.allocate(nbytes)
        # A tensor for a shared memory region is rounded while it is copied there.
        has_region = plan.output.region is not None
        progress = None if has_region else self.engine.overlap(plan.call, memory, job)
        got = await source.receive_into(memory.data, progress)
        if not source.is_at_end:
            await expect_end(source, nbytes)
        if got != nbytes:
            raise _wrong_size(got, nbytes)
        return memory


def _wrong_size(got: int, nbytes: int) -> PayloadSizeMismatch:
    return PayloadSizeMismatch(
        f"the binary data must have {nbytes} bytes, as its shape and datatype say, got {got}"
    )
