"""What the service says of itself: operators, limits and the proof of exactness."""

from __future__ import annotations

import asyncio
from functools import partial

from .. import documents
from ..engine import digests
from ..engine.engine import ON_A_THREAD
from ..features import Feature, Site
from ..routes.table import Row


def feature(site: Site) -> Feature:
    """``/operators`` and ``/conformance``."""
    engine = site.engine
    described: documents.Operators = {
        **documents.catalog(site.deployment.limits),
        "service": site.deployment.terms,
        "execution": {"backend": engine.backend.name, "devices": [*engine.backend.devices]},
    }
    report: asyncio.Future[documents.Conformance] | None = None

    async def list_operators() -> documents.Operators:
        """Dialects, versions, modes, dtypes, effective limits, and how the service is deployed."""
        return described

    async def show_conformance() -> documents.Conformance:
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
            Row("/operators", list_operators, "Operators and limits", link="operators"),
            Row("/conformance", show_conformance, "Proof of exactness", link="conformance"),
        ]
    )
