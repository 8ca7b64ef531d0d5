"""What the service is held to, and what a run says of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..measuring.grpc import RAW, TRITONCLIENT
from ..measuring.kernels import COMPILED, TORCH, TORCH_ALONE, WITH_NUMPY
from ..measuring.latency import FREE, ONE_CORE, OWN_CORES, placements
from ..peers import targets, variants
from ..peers.targets import KIB, MIB, Target
from .tables import size_of


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure, and what it shall be; ``at_most`` or ``at_least`` that."""

    what: str
    measured: float | None
    at_most: float | None = None
    at_least: float | None = None
    unit: str = "x"

    @property
    def met(self) -> bool | None:
        """None where nothing was measured."""
        if self.measured is None:
            return None
        if self.at_most is not None:
            return self.measured <= self.at_most
        assert self.at_least is not None
        return self.measured >= self.at_least

    def result(self) -> dict[str, Any]:
        limit = f"<= {self.at_most:g}" if self.at_least is None else f">= {self.at_least:g}"
        return {
            "what": self.what,
            "target": f"{limit} {self.unit}",
            "measured": self.measured,
            "unit": self.unit,
            "met": self.met,
        }


class Figures:
    """The figures of a run by what they are of; None for what was not measured."""

    def __init__(self, results: dict[str, Any]) -> None:
        self._cores: int = results["machine"]["cores"]
        self._latency = {
            (row["target"], row["bytes"], row["placement"]): row for row in results["latency"]
        }
        self._load = {
            (row["target"], row["bytes"], row["connections"]): row for row in results["load"]
        }
        self._deployed = {
            (row["target"], row["requests"], row["connections"]): row["median"]
            for row in results["deployed"]
        }
        self._kernels = {
            (row["dtype"], row["size"]): row
            for row in results["kernels"]
            if row["rounding"] == "ties_to_even"
        }
        self._grpc = {
            (row["client"], row["target"], row["bytes"], row["streams"], row["placement"]): row
            for row in results["grpc"]
        }
        self._memory = {
            row["target"]: row["growth"] / row["bytes"]
            for row in (*results["memory"], *results["grpc_memory"])
        }

    def seconds(
        self, target: Target, nbytes: int, placement: str, column: str = "best"
    ) -> float | None:
        """A round trip; with the column ``server_cpu`` the server's time on a core."""
        seconds: float | None = self._latency.get((target.name, nbytes, placement), {}).get(column)
        return seconds

    def rate(self, target: Target, nbytes: int, connections: int) -> float | None:
        """Requests a second."""
        rate: float | None = self._load.get((target.name, nbytes, connections), {}).get("best")
        return rate

    def gain_of_two_workers(self, nbytes: int, connections: int) -> float | None:
        """How many times the rate of one they can reach, beside the load generator.

        From the core time of a request in the server and in the generator, which has one thread.
        """
        row = self._load.get((targets.ROUND.name, nbytes, connections))
        if row is None:
            return None
        server, generator = row["server_cpu"], row["generator_cpu"]
        return float(min(2, self._cores * server / (server + generator), server / generator))

    def deployed(
        self, requests: str, connections: int = 1, target: Target = targets.ROUND
    ) -> float | None:
        """Seconds with one connection, requests a second with more; medians."""
        return self._deployed.get((target.name, requests, connections))

    def beside_triton(
        self,
        client: str,
        nbytes: int,
        placement: str,
        streams: int = 1,
        column: str = "median",
    ) -> float | None:
        """A call over gRPC over Triton's; with ``server_cpu`` the same of times on a core."""
        own, other = (
            self._grpc.get((client, target.name, nbytes, streams, placement), {}).get(column)
            for target in targets.OVER_GRPC
        )
        return ratio(own, other)

    def kernel(self, dtype: str, size: str, stack: str) -> float | None:
        """Gigabytes of payload a second; ties to even, which all stacks have."""
        speed: float | None = self._kernels.get((dtype, size), {}).get(stack)
        return speed

    @property
    def own_kernels(self) -> str:
        """The backend's better way of those that took part."""
        return COMPILED if any(COMPILED in row for row in self._kernels.values()) else WITH_NUMPY

    def memory(self, target: Target) -> float | None:
        return self._memory.get(target.name)


def ratio(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one / other


#: Size, its name, and where client and server run: the sizes that goals speak of.
POINTS = (
    (KIB, "1 KiB", ONE_CORE),
    (KIB, "1 KiB", OWN_CORES),
    (64 * KIB, "64 KiB", ONE_CORE),
    (MIB, "1 MiB", ONE_CORE),
    (MIB, "1 MiB", OWN_CORES),
    (64 * MIB, "64 MiB", FREE),
)
FLOOR_AT_MOST = {
    (KIB, ONE_CORE): 2.1,
    (KIB, OWN_CORES): 1.8,
    (64 * KIB, ONE_CORE): 2.1,
    (MIB, ONE_CORE): 1.3,
    (MIB, OWN_CORES): 1.1,
    (64 * MIB, FREE): 1.0,
}
#: From 1 MiB on Triton's lead is the floor's: what is held to the floor is held to it.
TRITON_AT_LEAST = {(KIB, ONE_CORE): 2.8, (KIB, OWN_CORES): 1.7}
INFER_AT_MOST = {KIB: 1.25, 64 * KIB: 1.15, MIB: 1.15, 64 * MIB: 1.15}
#: The server's core time, over that of a callable that neither checks nor rounds.
CORE_TIME_AT_MOST = {KIB: 1.0, 64 * KIB: 1.1}


def judged(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Every goal, with what the run has for it."""
    figures = Figures(results)
    goals = [
        *of_latency(figures),
        *of_deployed(figures),
        *of_load(figures),
        *of_grpc(figures),
        *of_the_rest(figures),
        *of_kernels(figures),
    ]
    return [goal.result() for goal in goals]


def of_latency(figures: Figures) -> Iterator[Goal]:
    for nbytes, size, placement in POINTS:
        where = size if placement == FREE else f"{size}, {placement}"

        def time(target: Target, nbytes: int = nbytes, placement: str = placement) -> float | None:
            return figures.seconds(target, nbytes, placement)

        asked = time(targets.ROUND)
        yield Goal(
            f"POST /round, {where}, over the floor",
            ratio(asked, time(targets.FLOOR)),
            at_most=FLOOR_AT_MOST[nbytes, placement],
        )
        if (nbytes, placement) in TRITON_AT_LEAST:
            yield Goal(
                f"POST /round, {where}, faster than Triton",
                ratio(time(targets.TRITON_INFER), asked),
                at_least=TRITON_AT_LEAST[nbytes, placement],
            )
        yield Goal(
            f"/v2 binary, {where}, over POST /round",
            ratio(time(targets.INFER), asked),
            at_most=INFER_AT_MOST[nbytes],
        )
        if (nbytes, placement) == (64 * KIB, ONE_CORE):
            over_loop = ratio(asked, time(targets.LOOP))
            yield Goal(f"POST /round, {where}, over uvloop alone", over_loop, at_most=1.5)
    for nbytes, at_most in CORE_TIME_AT_MOST.items():
        own, other = (
            figures.seconds(target, nbytes, ONE_CORE, "server_cpu")
            for target in (targets.ROUND, targets.ASGI)
        )
        what = f"{nbytes // KIB} KiB, the server's core time over a bare ASGI callable's"
        yield Goal(f"POST /round, {what}", ratio(own, other), at_most=at_most)


#: How many times the round trip of heads alike others may take.
ALIKE_AT_MOST = {
    variants.TRACED: 1.15,
    variants.KEY: 1.15,
    variants.BEARER: 1.15,
    variants.OTHER_ID: 1.15,
    variants.CHUNKED: 1.5,
    variants.TLS: 2,
}
LOOP_AT_MOST = 2.0
KEYS_AT_LEAST = 0.85


def of_deployed(figures: Figures) -> Iterator[Goal]:
    alike = figures.deployed(variants.ALIKE)
    loop = figures.deployed(variants.ALIKE, target=targets.LOOP)
    over_loop = "1 KiB, one core, heads alike, over uvloop alone"
    yield Goal(over_loop, ratio(alike, loop), at_most=LOOP_AT_MOST)
    for requests, at_most in ALIKE_AT_MOST.items():
        measured = ratio(figures.deployed(requests), alike)
        yield Goal(f"1 KiB, one core, {requests}, over heads alike", measured, at_most=at_most)
    for requests in (variants.KEY, variants.BEARER):
        measured = ratio(figures.deployed(requests, 64), figures.deployed(variants.ALIKE, 64))
        yield Goal(
            f"1 KiB, 64 connections, {requests}, requests a second over heads alike",
            measured,
            at_least=KEYS_AT_LEAST,
        )


#: Requests a second over those of others: bytes, connections, who, how many times at least.
RATES_AT_LEAST = (
    (KIB, 64, "a bare ASGI callable's", targets.ASGI, 1.0),
    (KIB, 64, "Triton's", targets.TRITON_INFER, 1.5),
    (64 * KIB, 8, "a bare ASGI callable's", targets.ASGI, 0.9),
    (64 * KIB, 8, "Triton's", targets.TRITON_INFER, 2.0),
    (64 * KIB, 64, "a bare ASGI callable's", targets.ASGI, 0.9),
    (64 * KIB, 64, "Triton's", targets.TRITON_INFER, 2.0),
)
#: Of what the cores and the load generator leave them.
TWO_WORKERS_AT_LEAST = 0.95


def of_load(figures: Figures) -> Iterator[Goal]:
    for nbytes, connections, whose, target, at_least in RATES_AT_LEAST:
        own = figures.rate(targets.ROUND, nbytes, connections)
        yield Goal(
            f"{nbytes // KIB} KiB, {connections} connections, requests a second over {whose}",
            ratio(own, figures.rate(target, nbytes, connections)),
            at_least=at_least,
        )
    one, two = (figures.rate(target, KIB, 64) for target in (targets.ROUND, targets.ROUND_TWO))
    yield Goal(
        "two workers over one, 1 KiB, 64 connections, of the gain that core times allow",
        ratio(ratio(two, one), figures.gain_of_two_workers(KIB, 64)),
        at_least=TWO_WORKERS_AT_LEAST,
    )


#: A call over gRPC over Triton's, by client; much of tritonclient's time is its own.
GRPC_AT_MOST = {
    RAW: {KIB: 0.35, 64 * KIB: 0.6, MIB: 0.55, 16 * MIB: 0.5, 64 * MIB: 0.35},
    TRITONCLIENT: {KIB: 0.75, 64 * KIB: 0.95, MIB: 0.95, 16 * MIB: 0.95, 64 * MIB: 0.95},
}
GRPC_CORE_TIME_AT_MOST = 0.45
STREAMS = 16


def of_grpc(figures: Figures) -> Iterator[Goal]:
    for client, limits in GRPC_AT_MOST.items():
        for nbytes, at_most in limits.items():
            size = size_of({"bytes": nbytes})
            where = placements(nbytes)
            for placement in where:
                what = f"{size}, over" if placement == FREE else f"{size}, {placement}, over"
                asked = figures.beside_triton(client, nbytes, placement)
                yield Goal(f"gRPC, {client}, {what} Triton's", asked, at_most=at_most)
            yield Goal(
                f"gRPC, {client}, {size}, the server's core time over Triton's",
                figures.beside_triton(client, nbytes, where[0], column="server_cpu"),
                at_most=GRPC_CORE_TIME_AT_MOST,
            )
        at_once = figures.beside_triton(client, MIB, FREE, STREAMS)
        yield Goal(f"gRPC, {client}, {STREAMS} x 1 MiB, over Triton's", at_once, at_most=1.0)
    yield Goal(
        "gRPC, memory of a call of 64 MiB, over the tensor",
        figures.memory(targets.GRPC),
        at_most=1.1,
    )


def of_the_rest(figures: Figures) -> Iterator[Goal]:
    small = figures.seconds(targets.ROUND, KIB, ONE_CORE)
    small_sdk = figures.seconds(targets.SDK, KIB, ONE_CORE)
    large = figures.seconds(targets.ROUND, 64 * MIB, FREE)
    yield Goal(
        "memory of a 256 MiB request, over the payload", figures.memory(targets.ROUND), at_most=1.15
    )
    yield Goal(
        "SDK, 64 MiB, over the bare client",
        ratio(figures.seconds(targets.SDK, 64 * MIB, FREE), large),
        at_most=1.25,
    )
    yield Goal(
        "SDK, 1 KiB, beyond the bare client",
        None if small is None or small_sdk is None else (small_sdk - small) * 1e6,
        at_most=100,
        unit="us",
    )
    yield Goal(
        "shared memory, 64 MiB, faster than over the socket",
        ratio(large, figures.seconds(targets.SHARED, 64 * MIB, FREE)),
        at_least=3.5,
    )


def of_kernels(figures: Figures) -> Iterator[Goal]:
    own = figures.own_kernels
    for dtype in ("float32", "float64"):
        for size in ("1 MiB", "8 MiB"):
            yield Goal(
                f"{dtype}, {own} kernel, {size}, one thread beside torch's one",
                ratio(figures.kernel(dtype, size, own), figures.kernel(dtype, size, TORCH_ALONE)),
                at_least=0.9,
            )
        speeds = [figures.kernel(dtype, "64 MiB", stack) for stack in (TORCH, "ONNX Runtime")]
        peer = max((speed for speed in speeds if speed is not None), default=None)
        yield Goal(
            f"{dtype}, {own} kernel, 64 MiB, beside the faster of torch and ONNX Runtime",
            ratio(figures.kernel(dtype, "64 MiB", own), peer),
            at_least=0.9,
        )
    for dtype in ("float16", "bfloat16"):
        yield Goal(
            f"{dtype}, {own} kernel, 64 MiB",
            figures.kernel(dtype, "64 MiB", own),
            at_least=6,
            unit="GB/s",
        )
