"""Writes the tables of docs/scaling.md: the model beside real services, and what it foresees.

``--check`` measures; it needs Linux, root, iproute2 and a quiet machine. Without it only the
simulations are made anew.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from .figures import MIB, core, in_process
from .measured import measure
from .model import Arrival, Balancing, Node, Outcome, poisson, simulate
from .nodes import services

PAGE = Path("docs/scaling.md")
KIB = 1 << 10
#: Sizes of tensors, and their shares of the requests.
SIZES = ((64 * KIB, 0.7), (MIB, 0.25), (8 * MIB, 0.05))
MEAN_BYTES = sum(nbytes * share for nbytes, share in SIZES)
NAMES = {64 * KIB: "64 KiB", MIB: "1 MiB", 8 * MIB: "8 MiB"}
#: Of a link's rate, what payloads can have: the rest are the headers of Ethernet, IP and TCP.
PAYLOAD_SHARE = 0.956
#: The measured nodes: slow enough that the links are the limit, not this machine's cores.
LINK_RATE = 25e6
SECONDS = 40.0
#: The budget of the measured nodes in the overload.
BUDGET = 32 * MIB
#: The nodes that are foreseen: 25 Gbit/s and 8 cores.
LARGE = 25e9 / 8
LARGE_CORES = 8
PETABYTE = 1e15


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scaling", description=__doc__)
    parser.add_argument("--check", action="store_true", help="measure real services too")
    tables = {"cores": cores(), "petabyte": petabyte(), "foreseen": foreseen()}
    if parser.parse_args().check:
        tables |= {"checked": checked(), "overload": overload()}
    page = PAGE.read_text()
    for name, text in tables.items():
        print(text, end="\n\n")
        before, begin, rest = page.partition(f"<!-- {name}: written by make scaling -->")
        _, end, after = rest.partition(f"<!-- the end of {name} -->")
        page = f"{before}{begin}\n\n{text}\n\n{end}{after}"
    PAGE.write_text(page)


def small_node(budget: float = float("inf")) -> Node:
    """The model of a measured node."""
    found = core()
    rate = LINK_RATE * PAYLOAD_SHARE
    return Node(rate, 1, found.request_seconds, found.byte_seconds, budget)


def load(
    utilisation: float, nodes: int, rate: float, seconds: float, clients: int = 1
) -> list[Arrival]:
    """Requests that use so much of all links."""
    return poisson(utilisation * nodes * rate / MEAN_BYTES, seconds, SIZES, clients, seed=1)


def checked() -> str:
    """The same requests, to real services and in the model."""
    rows = []
    node = small_node()
    for nodes, balancing in (
        (1, Balancing.LEAST_BYTES),
        (3, Balancing.RANDOM),
        (3, Balancing.LEAST_BYTES),
    ):
        for utilisation in (0.2, 0.5, 0.8):
            arrivals = load(utilisation, nodes, node.link_rate, SECONDS)
            with services(nodes, LINK_RATE) as urls:
                real = measure(arrivals, urls, balancing)
            model = simulate(arrivals, [node] * nodes, balancing)
            cells = [
                f"{quantile(real, nbytes, q)} / {quantile(model, nbytes, q)}"
                for nbytes, q in (
                    (64 * KIB, 50),
                    (64 * KIB, 90),
                    (MIB, 50),
                    (MIB, 90),
                    (8 * MIB, 50),
                )
            ]
            name = "-" if nodes == 1 else balancing
            rows.append((nodes, name, f"{utilisation:.0%}", *cells))
    columns = ("64 KiB, p50", "64 KiB, p90", "1 MiB, p50", "1 MiB, p90", "8 MiB, p50")
    return table(("services", "balancing", "load", *columns), rows)


def overload() -> str:
    """More than the links carry, and a budget."""
    rows = []
    node = small_node(BUDGET)
    for nodes in (1, 3):
        arrivals = load(1.5, nodes, node.link_rate, SECONDS)
        with services(nodes, LINK_RATE, max_bytes_in_flight=str(BUDGET)) as urls:
            real = measure(arrivals, urls, Balancing.LEAST_BYTES)
        model = simulate(arrivals, [node] * nodes, Balancing.LEAST_BYTES)
        capacity = nodes * node.link_rate * SECONDS
        cells = [
            f"{rounded(real) / capacity:.0%} / {rounded(model) / capacity:.0%}",
            f"{refused(real):.0%} / {refused(model):.0%}",
            f"{quantile(real, MIB, 50)} / {quantile(model, MIB, 50)}",
        ]
        rows.append((nodes, *cells))
    columns = ("bytes rounded, of the links' capacity", "requests refused", "1 MiB, p50")
    return table(("services", *columns), rows)


def foreseen() -> str:
    """A hundred nodes: how clients balance, and how many nodes each knows."""
    found = core()
    node = Node(LARGE * PAYLOAD_SHARE, LARGE_CORES, found.request_seconds, found.byte_seconds)
    rows = []
    for clients, known, balancing in (
        (1, 100, Balancing.RANDOM),
        (1, 100, Balancing.ROUND_ROBIN),
        (1, 100, Balancing.LEAST_REQUESTS),
        (1, 100, Balancing.LEAST_BYTES),
        (10, 100, Balancing.LEAST_BYTES),
        (10, 20, Balancing.LEAST_BYTES),
        (100, 100, Balancing.LEAST_BYTES),
        (100, 10, Balancing.LEAST_BYTES),
        (100, 3, Balancing.LEAST_BYTES),
        (1000, 100, Balancing.LEAST_BYTES),
    ):
        cells = []
        for utilisation in (0.5, 0.8):
            arrivals = load(utilisation, 100, node.link_rate, 0.2, clients)
            outcomes = simulate(arrivals, [node] * 100, balancing, known=known)
            cells += [
                quantile(outcomes, *which) for which in ((64 * KIB, 99), (MIB, 50), (MIB, 99))
            ]
        rows.append((clients, known, balancing, *cells))
    columns = ("64 KiB, p99", "1 MiB, p50", "p99")
    named = [f"{column}, {load} load" for load in ("50 %", "80 %") for column in columns]
    return table(("clients", "nodes each knows", "balancing", *named), rows)


def cores() -> str:
    """What a core does, and how many cores a link keeps busy."""
    found = core()
    rows = []
    for nbytes, seconds in found.seconds.items():
        rate = nbytes / seconds
        links = [f"{gigabits * 1e9 / 8 * PAYLOAD_SHARE / rate:.1f}" for gigabits in (10, 25, 100)]
        rows.append((size(nbytes), f"{1 / seconds:,.0f}", f"{rate / 1e9:.2f}", *links))
    columns = (
        "requests a second",
        "GB/s in, and as many out",
        "10 Gbit/s",
        "25 Gbit/s",
        "100 Gbit/s",
    )
    return table(("tensor", *columns), rows)


def petabyte() -> str:
    """The hours that a petabyte takes, of cores and of links, over the wire and in process."""
    found = core()
    rows = []
    for nbytes in (KIB, 64 * KIB, MIB, 64 * MIB):
        cpu = PETABYTE / nbytes * found.seconds[nbytes] / 3600
        link = PETABYTE / (LARGE * PAYLOAD_SHARE) / 3600
        rows.append((size(nbytes), f"{cpu:,.0f}", f"{link:,.0f}", f"{cpu / link:.1f}"))
    rows.append(("in process, 64 MiB", f"{PETABYTE / in_process() / 3600:,.0f}", "none", ""))
    return table(("tensor", "core-hours", "link-hours at 25 Gbit/s", "cores a link"), rows)


def quantile(outcomes: Iterable[Outcome], nbytes: int, percent: int) -> str:
    """A percentile of the times of responses of one size."""
    seconds = [o.seconds for o in outcomes if o.nbytes == nbytes and not o.is_refused]
    milliseconds = 1e3 * sorted(seconds)[math.ceil(len(seconds) * percent / 100) - 1]
    return f"{milliseconds:.{0 if milliseconds >= 100 else 1 if milliseconds >= 10 else 2}f} ms"


def rounded(outcomes: Iterable[Outcome]) -> int:
    """Bytes that were rounded."""
    return sum(o.nbytes for o in outcomes if not o.is_refused)


def refused(outcomes: Sequence[Outcome]) -> float:
    """The share of the requests that were refused."""
    return sum(o.is_refused for o in outcomes) / len(outcomes)


def size(nbytes: int) -> str:
    return f"{nbytes // MIB} MiB" if nbytes >= MIB else f"{nbytes // KIB} KiB"


def table(columns: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


if __name__ == "__main__":
    main()
