"""What the service says of itself: operators, limits and the proof of exactness."""

from __future__ import annotations

import asyncio
from functools import partial

from .. import service_types
from ..engine import digests
from ..engine.engine import ON_A_THREAD
from ..features import Feature, FeatureContext
from ..routes.table import RouteEntry


def feature(context: FeatureContext) -> Feature:
    """``/operators`` and ``/conformance``."""
    engine = context.engine
    described: service_types.Operators = {
        **service_types.catalog(context.deployment.limits),
        "service": context.deployment.terms,
        "execution": {"backend": engine.backend.name, "devices": [*engine.backend.devices]},
    }
    report: asyncio.Future[service_types.Conformance] | None = None

    async def list_operators() -> service_types.Operators:
        """Dialects, versions, modes, dtypes, effective limits, and how the service is deployed."""
        return described

    async def show_conformance() -> service_types.Conformance:
        """SHA-256 of the results for all bit patterns of every 8- and 16-bit type.

        The backend computes them once; they are compared with the published digests.
        """
        nonlocal report
        if report is None or (report.done() and report.exception()):
            work = partial(digests.report, engine.backend)
            report = asyncio.ensure_future(engine.run(work, ON_A_THREAD))
        # Shielded: a client that disconnects must not cancel the report of other clients.
        return await asyncio.shield(report)

    return Feature(
        rows=[
            RouteEntry("/operators", list_operators, "Operators and limits", link="operators"),
            RouteEntry("/conformance", show_conformance, "Proof of exactness", link="conformance"),
        ]
    )
