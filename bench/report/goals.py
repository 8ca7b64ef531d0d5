"""What the service is held to, and what a run says of it: one figure over another of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..measuring.casts import ASTYPE, COPY
from ..measuring.grpc import SERVICE, TRITON_GRPC
from ..measuring.kernels import COMPILED, TORCH, TORCH_ALONE, WITH_NUMPY
from ..measuring.latency import FREE, ONE_CORE, OWN_CORES, placements
from ..measuring.versions import VERSIONS
from ..peers import targets, variants
from ..peers.targets import KIB, MIB, Target
from .tables import size_of

ROUND = targets.ROUND


class Goal(NamedTuple):
    """The figure of one row of a section over that of another; ``limit`` is such as ``<= 1.1``."""

    what: str
    section: str
    own: Mapping[str, Any]
    other: Mapping[str, Any]
    limit: str
    #: The member that is the figure: of the row, and of the other row.
    columns: tuple[str, str] = ("best", "best")

    def result(self, results: Mapping[str, Any]) -> dict[str, Any]:
        """What the run has for it; None where nothing was measured."""
        own, other = (
            next(
                (
                    row.get(column)
                    for row in results.get(self.section, [])
                    if wanted.items() <= row.items()
                ),
                None,
            )
            for wanted, column in zip((self.own, self.other), self.columns, strict=True)
        )
        relation, _, bound = self.limit.partition(" ")
        measured = own / other if own and other else None
        met = None
        if measured is not None:
            met = measured <= float(bound) if relation == "<=" else measured >= float(bound)
        about = {"what": self.what, "target": f"{self.limit} x", "measured": measured}
        return {**about, "unit": "x", "met": met}


def judged(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Every goal, with what the run has for it."""
    goals = (
        of_latency(),
        of_deployed(),
        of_load(),
        of_versions(),
        of_grpc(),
        of_memory(),
        of_kernels(results),
        of_casts(results),
        of_quantization(results),
    )
    return [goal.result(results) for each in goals for goal in each]


#: Size and placement; how many times the floor's time, how many times faster than Triton, and how
#: many times /round's time /v2 may take. From 1 MiB on Triton's lead is the floor's.
POINTS = (
    (KIB, ONE_CORE, 2.1, 2.8, 1.25),
    (KIB, OWN_CORES, 1.8, 1.7, 1.25),
    (64 * KIB, ONE_CORE, 2.1, None, 1.15),
    (MIB, ONE_CORE, 1.3, None, 1.15),
    (MIB, OWN_CORES, 1.1, None, 1.15),
    (64 * MIB, FREE, 1.0, None, 1.15),
)
#: Others at one size and placement: the row, the other, the limit.
BESIDE = (
    (ROUND, targets.LOOP, 64 * KIB, ONE_CORE, "<= 1.5"),
    (targets.SDK, ROUND, KIB, ONE_CORE, "<= 2.5"),
    (targets.SDK, ROUND, 64 * MIB, FREE, "<= 1.25"),
    (ROUND, targets.SHARED, 64 * MIB, FREE, ">= 3.5"),
)
#: The server's core time, over that of a callable that neither checks nor rounds.
CORE_TIME = {KIB: "<= 1.0", 64 * KIB: "<= 1.1"}


def of_latency() -> Iterator[Goal]:
    def goal(
        own: Target, other: Target, nbytes: int, placement: str, limit: str, column: str = "best"
    ) -> Goal:
        about = {"bytes": nbytes, "placement": placement}
        what = f"{own.name} over {other.name}, {size_of(about)}, {placement}"
        if column != "best":
            what += ", the server's core time"
        row, beside = ({"target": target.name, **about} for target in (own, other))
        return Goal(what, "latency", row, beside, limit, (column, column))

    for nbytes, placement, floor, triton, infer in POINTS:
        yield goal(ROUND, targets.FLOOR, nbytes, placement, f"<= {floor}")
        if triton:
            yield goal(targets.TRITON_INFER, ROUND, nbytes, placement, f">= {triton}")
        yield goal(targets.INFER, ROUND, nbytes, placement, f"<= {infer}")
    for beside in BESIDE:
        yield goal(*beside)
    for nbytes, limit in CORE_TIME.items():
        yield goal(ROUND, targets.ASGI, nbytes, ONE_CORE, limit, "server_cpu")


#: The round trip of requests of each kind, over that of heads alike.
ALIKE = {
    variants.TRACED: "<= 1.15",
    variants.KEY: "<= 1.15",
    variants.BEARER: "<= 1.15",
    variants.OTHER_ID: "<= 1.15",
    variants.CHUNKED: "<= 1.5",
    variants.TLS: "<= 2",
}


def of_deployed() -> Iterator[Goal]:
    def goal(what: str, requests: str, target: Target, limit: str, connections: int = 1) -> Goal:
        own = {"target": ROUND.name, "requests": requests, "connections": connections}
        alike = {**own, "target": target.name, "requests": variants.ALIKE}
        return Goal(f"1 KiB, {what}", "deployed", own, alike, limit, ("median", "median"))

    yield goal("heads alike, over uvloop alone", variants.ALIKE, targets.LOOP, "<= 2")
    for requests, limit in ALIKE.items():
        yield goal(f"{requests}, over heads alike", requests, ROUND, limit)
    for requests in (variants.KEY, variants.BEARER):
        what = f"64 connections, {requests}, requests a second over heads alike"
        yield goal(what, requests, ROUND, ">= 0.85", 64)


#: Requests a second over those of others: connections, bytes, the other, how many times.
RATES = (
    (64, KIB, targets.ASGI, ">= 1.0"),
    (64, KIB, targets.TRITON_INFER, ">= 1.5"),
    (8, 64 * KIB, targets.ASGI, ">= 0.9"),
    (8, 64 * KIB, targets.TRITON_INFER, ">= 2.0"),
    (64, 64 * KIB, targets.ASGI, ">= 0.9"),
    (64, 64 * KIB, targets.TRITON_INFER, ">= 2.0"),
)


def of_load() -> Iterator[Goal]:
    for connections, nbytes, other, limit in RATES:
        about = {"connections": connections, "bytes": nbytes}
        what = f"requests a second, {connections} x {size_of(about)}, over {other.name}"
        own, beside = ({"target": target.name, **about} for target in (ROUND, other))
        yield Goal(what, "load", own, beside, limit)


#: Requests a second by HTTP/2 over those by HTTP/1.1: bytes, requests at once, how many times. The
#: goals of one connection are times of a request: 1.35 and 1.15.
VERSIONS_RATES = ((KIB, 1, ">= 0.74"), (MIB, 1, ">= 0.87"), (KIB, 64, ">= 0.8"))


def of_versions() -> Iterator[Goal]:
    first, second = VERSIONS
    for nbytes, at_once, limit in VERSIONS_RATES:
        about = {"bytes": nbytes, "at_once": at_once}
        what = f"requests a second by {second}, {at_once} x {size_of(about)}, over {first}"
        own, beside = ({"version": version, **about} for version in (second, first))
        yield Goal(what, "versions", own, beside, limit, ("median", "median"))


#: A call over Triton's; much of tritonclient's time is its own.
CALLS = {KIB: 0.75, 64 * KIB: 0.95, MIB: 0.95, 16 * MIB: 0.95, 64 * MIB: 0.95}


def of_grpc() -> Iterator[Goal]:
    def goal(nbytes: int, placement: str, limit: str, streams: int = 1, of: str = "") -> Goal:
        about = {"bytes": nbytes, "placement": placement, "streams": streams}
        what = f"gRPC, {streams} x {size_of(about)}, {placement}, over Triton{of and ', core time'}"
        own, beside = ({"target": name, **about} for name in (SERVICE, TRITON_GRPC))
        return Goal(what, "grpc", own, beside, limit, (of or "median", of or "median"))

    for nbytes, most in CALLS.items():
        for placement in placements(nbytes):
            yield goal(nbytes, placement, f"<= {most}")
        yield goal(nbytes, placements(nbytes)[0], "<= 0.45", of="server_cpu")
    yield goal(MIB, FREE, "<= 1.0", streams=16)


def of_memory() -> Iterator[Goal]:
    for section, target, limit in (
        ("memory", ROUND.name, "<= 1.15"),
        ("grpc_memory", SERVICE, "<= 1.1"),
    ):
        row = {"target": target}
        what = f"{target}, memory of a large request, over the payload"
        yield Goal(what, section, row, row, limit, ("growth", "bytes"))


def of_kernels(results: Mapping[str, Any]) -> Iterator[Goal]:
    """The backend's better way of those that took part, beside torch and ONNX Runtime."""
    is_compiled = any(COMPILED in row for row in results["kernels"])
    own = COMPILED if is_compiled else WITH_NUMPY
    for dtype in ("float32", "float64"):
        for size, other in (
            ("1 MiB", TORCH_ALONE),
            ("8 MiB", TORCH_ALONE),
            ("64 MiB", TORCH),
            ("64 MiB", "ONNX Runtime"),
        ):
            row = {"dtype": dtype, "size": size, "rounding": "ties_to_even"}
            what = f"{dtype}, {own} kernel, {size}, beside {other}"
            yield Goal(what, "kernels", row, row, ">= 0.9", (own, other))


def of_quantization(results: Mapping[str, Any]) -> Iterator[Goal]:
    """Both ways of the backend, beside ONNX Runtime."""
    row = {"a scale for": "the tensor"}
    for own, times in ((COMPILED, 1.0), (WITH_NUMPY, 0.5)):
        what = f"float32 to int8, {own}, beside ONNX Runtime"
        yield Goal(what, "quantization", row, row, f">= {times}", (own, "ONNX Runtime"))


def of_casts(results: Mapping[str, Any]) -> Iterator[Goal]:
    """Both ways of the backend, beside ml_dtypes', NumPy's and torch's casts, and a copy."""
    for target, times in (
        ("float8_e4m3fn", 4.0),
        ("float8_e5m2", 4.0),
        ("bfloat16", 1.5),
        ("float16", 1.5),
    ):
        row = {"from": "float32", "to": target}
        for own, other, limit in (
            (WITH_NUMPY, ASTYPE, times),
            (COMPILED, TORCH_ALONE, 0.9),
            (COMPILED, COPY, 0.77),
        ):
            what = f"float32 to {target}, {own}, beside {other}"
            yield Goal(what, "casts", row, row, f">= {limit}", (own, other))
