"""Inferences, by HTTP and gRPC: planned, received, executed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from time import perf_counter

from tensor_round.contract.errors import NotOffered

from ..backends import Bytes
from ..engine.engine import Engine
from ..engine.job import Job
from ..engine.receive import receive
from ..net.bodies import ByteSource, Parts, expect_end
from . import infer_json
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

    def plan(self, model: Model, request: infer_json.Request) -> InferencePlan:
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
        """Receive the tensors of a planned request, and execute the plan; returns the output.

        ``source`` has what follows the request's header. If the message states its length,
        ``stated`` is that length in bytes, for which the job has reserved memory. ``job.began``
        must be set. Raises :class:`PayloadSizeMismatch` for another length than the plan's, and
        what source, budget and engine raise.
        """
        job.dialect, job.call = plan.dialect, plan.call
        received = await self._receive(plan, source, job, stated)
        nbytes = self.executor.payload_bytes(plan)
        execute = partial(self.executor.run, plan, received, job)
        cost = nbytes - plan.call.nbytes + plan.cost
        if plan.reads_json_data or plan.returns_json_data:
            return await self.engine.run_slowly(execute, cost, job, is_timed=True)
        return await self.engine.run(execute, nbytes, cost, job)

    async def _receive(
        self, plan: InferencePlan, source: ByteSource, job: Job, stated: int | None
    ) -> Bytes | None:
        """Receive the tensors that follow the header; without any reserve the plan's memory."""
        needed = self.executor.buffer_bytes(plan) + plan.text_bytes
        if not plan.following:
            job.reserve(needed)
            await expect_end(source, 0)
            job.receive_seconds = perf_counter() - job.began
            return None
        if stated is not None:
            if stated != plan.following_bytes:
                raise plan.wrong_size(stated)
            needed -= stated
        return await receive(
            plan.call,
            source,
            job,
            self.engine,
            needed,
            parts=plan.parts,
            # A tensor for a shared memory region is rounded while it is copied there.
            overlaps=plan.output.region is None,
            refusal=plan.wrong_size,
        )
