"""What the service says of itself: operators, limits and the proof of exactness."""

from __future__ import annotations

import asyncio
from functools import partial

from fastapi import Request

from tensor_round.contract.cast_digests import CAST_DIGESTS, TypePair
from tensor_round.contract.dtypes import BY_NAME

from .. import service_types
from ..engine import digests
from ..engine.engine import ON_A_THREAD
from ..features import Feature, FeatureContext
from ..openapi.errors import problem_responses
from ..openapi.schemas import STRING, Schema, parameter
from ..routes.query import parameters
from ..routes.table import RouteEntry


def _conformance_operation() -> Schema:
    """The parameters of ``/conformance``, and their refusal."""
    sources = dict.fromkeys(source for source, _ in CAST_DIGESTS)
    accepted = {
        "operator": (digests.OPERATORS, "Any but `round` adds its digests to those of roundings."),
        "dtype": (sources, "With another operator: from this type alone."),
        "to": (BY_NAME, "With another operator: to this type alone."),
    }
    return {
        "parameters": [
            parameter(name, "query", {**STRING, "enum": [*names]}, text)
            for name, (names, text) in accepted.items()
        ],
        "responses": problem_responses(["invalid_descriptor"]),
    }


def feature(context: FeatureContext) -> Feature:
    """``/operators`` and ``/conformance``."""
    engine = context.engine
    described: service_types.Operators = {
        **service_types.catalog(context.deployment.limits),
        "service": context.deployment.terms,
        "execution": {"backend": engine.backend.name, "devices": [*engine.backend.devices]},
    }
    #: Digests of roundings, and of an operator and a pair of types; they are computed once.
    reports: dict[tuple[str, TypePair] | None, asyncio.Future[digests.Tables]] = {}

    async def list_operators() -> service_types.Operators:
        """Dialects, versions, modes, dtypes, effective limits, and how the service is deployed."""
        return described

    async def computed(of: tuple[str, TypePair] | None) -> digests.Tables:
        report = reports.get(of)
        if report is None or (report.done() and report.exception()):
            judge, asked = (digests.roundings, ()) if of is None else (digests.converted, of)
            work = partial(judge, engine.backend, *asked)
            report = reports[of] = asyncio.ensure_future(engine.run(work, ON_A_THREAD))
        # Shielded: a client that disconnects must not cancel the report of other clients.
        return await asyncio.shield(report)

    async def show_conformance(request: Request) -> service_types.Conformance:
        """SHA-256 of the results for all bit patterns of every type of at most 16 bits.

        The backend computes them once; they are compared with the published digests. Those of
        casts, which take seconds, have all directions, without and with saturation; those of
        quantization several scales, without and with a zero point.
        """
        query = parameters(request.scope["query_string"], *digests.PARAMETERS)
        operator, pairs = digests.pairs_of(query)
        rounded = await computed(None)
        # One after the other: between two of them other work gets the thread.
        found = [await computed((operator, pair)) for pair in pairs]
        return digests.report(rounded, operator, found)

    return Feature(
        rows=[
            RouteEntry("/operators", list_operators, "Operators and limits", link="operators"),
            RouteEntry(
                "/conformance",
                show_conformance,
                "Proof of exactness",
                link="conformance",
                options={"openapi_extra": _conformance_operation()},
            ),
        ]
    )
