"""A run's results as tables: Markdown that reads well as it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from statistics import median
from typing import Any

from ..measuring.grpc import SERVICE, TRITON_GRPC
from ..measuring.latency import FREE, ONE_CORE, OWN_CORES
from ..peers.targets import KIB, MIB
from ..peers.variants import ALIKE

ABSENT = "-"


#: Where more than this part of the cores had other work before a run, it says little.
BUSY = 0.1


def was_busy(results: dict[str, Any]) -> bool:
    busy: float = results["machine"]["busy_before"]
    cores: int = results["machine"]["cores"]
    return busy > BUSY * cores


def title(results: dict[str, Any]) -> str:
    """What the figures are of."""
    about = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    words = (
        f"{about['cpu']}, {about['cores']} cores, {about['memory_gib']} GiB, "
        f"Linux {about['kernel']}, {python(about)}, {versions}; "
        f"commit {about['commit']}, {results['date'][:10]}"
    )
    if results["quick"]:
        words += "; a quick run"
    if was_busy(results):
        words += f"; {about['busy_before']} cores were busy with other work: do not trust these"
    return words + "."


def python(about: dict[str, Any]) -> str:
    """The interpreter and its build; results of before do not have it."""
    return ", ".join(filter(None, (f"Python {about['python']}", about.get("python_build"))))


def render(results: dict[str, Any], left_out: Collection[str] = ()) -> str:
    """Everything that was measured, but for the columns of these names."""
    # Runs of before do not have these.
    small, grpc, grpc_memory = (
        results.get(section, []) for section in ("deployed", "grpc", "grpc_memory")
    )
    sections: list[tuple[str, list[list[str]]]] = []
    for placement, where, what, cell in (
        (ONE_CORE, "client and server on one core", "a round trip", time),
        (ONE_CORE, "client and server on one core", "the server's core time", core),
        (OWN_CORES, "client and server on separate cores", "a round trip", time),
        (FREE, "on any core", "a round trip", time),
    ):
        rows = [row for row in results["latency"] if row["placement"] == placement]
        if rows:
            sections.append((f"One connection, {where}: {what}", pivot(rows, size_of, cell)))
    sections += [
        ("Many connections: requests a second", pivot(results["load"], load_of, rate)),
        (
            "POST /round by HTTP/2 beside HTTP/1.1, by h2load: requests a second",
            by_version(results.get("versions", [])),
        ),
        (
            "Kinds of requests, 1 KiB, one core: a round trip",
            deployed([row for row in small if row["connections"] == 1], seconds),
        ),
        (
            "Kinds of requests, 1 KiB, 64 connections: requests a second",
            deployed([row for row in small if row["connections"] > 1], whole),
        ),
        ("gRPC, the service beside Triton: a call, and the server's core time", beside(grpc)),
        ("gRPC, a call of 64 MiB: growth of the server's peak memory", growth(grpc_memory)),
        ("A request of 256 MiB: growth of the server's peak memory", growth(results["memory"])),
        ("Kernels", plain(results["kernels"])),
        ("Casts, 16 MiB of operands, one thread", plain(results.get("casts", []))),
        (
            "Quantization of 16 MiB of float32 to int8, one thread",
            plain(results.get("quantization", [])),
        ),
        ("Made by hand, beside a library", by_hand(results.get("libraries", []))),
        (
            "Not measured",
            [["", "why"]] + [[name, why] for name, why in results["missing"].items()],
        ),
        ("Goals", goals(results["goals"])),
    ]
    # A table that has a heading alone is left out.
    kept = [(title, without(rows, left_out)) for title, rows in sections if rows[1:]]
    return "\n\n".join(f"### {title}\n\n{table(rows)}" for title, rows in kept)


def without(rows: Sequence[Sequence[str]], names: Collection[str]) -> list[list[str]]:
    """The rows without the columns that have these headings.

    Where any are left out, so is a first column that names one and the same.
    """
    kept = [place for place, name in enumerate(rows[0]) if name not in names]
    if names and rows[2:] and len({row[0] for row in rows[1:]}) == 1:
        kept.remove(0)
    return [[row[place] for place in kept] for row in rows]


def by_version(rows: Iterable[dict[str, Any]]) -> list[list[str]]:
    """One line a load, one column a version."""
    found: dict[str, list[str]] = {}
    for row in rows:
        at_once = "" if row["at_once"] == 1 else f"{row['at_once']} x "
        found.setdefault(at_once + size_of(row), []).append(whole(row["median"]))
    return [["", "HTTP/1.1", "HTTP/2"], *([load, *rates] for load, rates in found.items())]


def table(rows: Sequence[Sequence[str]]) -> str:
    """The first row is the heading; columns of figures are to the right."""
    columns = []
    for cells in zip(*rows, strict=True):
        width = max(3, *map(len, cells))
        is_right = all(map(is_figure, cells[1:]))
        rule = "-" * (width + 1) + (":" if is_right else "-")
        padded = [f" {cell:{'>' if is_right else '<'}{width}} " for cell in cells]
        columns.append([padded[0], rule, *padded[1:]])
    return "\n".join(f"|{'|'.join(line)}|" for line in zip(*columns, strict=True))


def is_figure(cell: str) -> bool:
    """Whether it is a number, with a unit or without."""
    return cell == ABSENT or (cell[:1].isdigit() and len(cell.split()) <= 2)


def pivot(rows: Iterable[dict[str, Any]], column: Any, cell: Any) -> list[list[str]]:
    """One line a target, one column a case."""
    by_target: dict[str, dict[str, str]] = {}
    columns: dict[str, None] = {}
    for row in rows:
        columns[column(row)] = None
        by_target.setdefault(row["target"], {})[column(row)] = cell(row)
    heading = ["", *columns]
    return [heading] + [
        [target, *(cells.get(name, ABSENT) for name in columns)]
        for target, cells in by_target.items()
    ]


def deployed(rows: Sequence[dict[str, Any]], shown: Callable[[float], str]) -> list[list[str]]:
    """Medians, best rounds, and both ratios to the same server's heads alike.

    One is of the medians, which the goals take; the other is the median of the rounds' own.
    """
    alike = {row["target"]: row for row in rows if row["requests"] == ALIKE}
    heading = ["", "requests", "median", "best", "over heads alike", "round by round"]
    return [heading] + [
        [
            row["target"],
            row["requests"],
            shown(row["median"]),
            shown(row["best"]),
            *ratios(row, alike.get(row["target"])),
        ]
        for row in rows
    ]


def by_hand(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """What docs/decisions.md shows."""
    found = [["library", "measured", "own", "the library's", "times"]]
    for row in rows:
        own, others = row.get("own"), row.get("theirs")
        both = own and others
        found.append(
            [
                row["library"],
                row["what"],
                *(seconds(value) if value else ABSENT for value in (own, others)),
                f"{others / own:.1f} x" if both else ABSENT,
            ]
        )
    return found


def ratios(row: dict[str, Any], base: dict[str, Any] | None) -> tuple[str, str]:
    if base is None:
        return ABSENT, ABSENT
    pairs = zip(row["rounds"], base["rounds"], strict=True)
    by_round = median(one / other for one, other in pairs)
    return f"{row['median'] / base['median']:.2f} x", f"{by_round:.2f} x"


def beside(rows: Iterable[dict[str, Any]]) -> list[list[str]]:
    """The service's medians and Triton's by client and load, with ratios as in ``deployed``.

    The rows of before do not say where they ran: on any core.
    """
    heading = ["", "tensor", "where", "a call", "Triton's", "over Triton's", "round by round"]
    heading += ["core time", "Triton's", "over Triton's"]
    by_load: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = {}
    for row in rows:
        names = row["client"], streams_of(row), row.get("placement", FREE)
        by_load.setdefault(names, {})[row["target"]] = row
    lines = [heading]
    for names, found in sorted(by_load.items(), key=lambda line: line[0][0]):
        own, other = found.get(SERVICE), found.get(TRITON_GRPC)
        if own is None:
            continue
        times = [seconds(row["median"]) if row else ABSENT for row in (own, other)]
        cores = [core(row) if row else ABSENT for row in (own, other)]
        by_core = f"{own['server_cpu'] / other['server_cpu']:.2f} x" if other else ABSENT
        lines.append([*names, *times, *ratios(own, other), *cores, by_core])
    return lines


def growth(rows: Iterable[dict[str, Any]]) -> list[list[str]]:
    """How far peaks rose, in payloads."""
    heading = ["", "times the payload"]
    return [heading] + [[row["target"], f"{row['growth'] / row['bytes']:.2f}"] for row in rows]


def plain(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Rows that are tables already."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return [columns] + [[text(row.get(name)) for name in columns] for row in rows]


def goals(rows: Iterable[dict[str, Any]]) -> list[list[str]]:
    verdicts = {True: "yes", False: "no", None: ABSENT}
    return [["", "target", "measured", "met"]] + [
        [
            row["what"],
            row["target"],
            ABSENT if row["measured"] is None else f"{row['measured']:.2f} {row['unit']}",
            verdicts[row["met"]],
        ]
        for row in rows
    ]


def text(value: object) -> str:
    if value is None:
        return ABSENT
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def size_of(row: dict[str, Any]) -> str:
    nbytes: int = row["bytes"]
    return f"{nbytes // MIB} MiB" if nbytes >= MIB else f"{nbytes // KIB} KiB"


def load_of(row: dict[str, Any]) -> str:
    return f"{row['connections']} x {size_of(row)}"


def streams_of(row: dict[str, Any]) -> str:
    return size_of(row) if row["streams"] == 1 else f"{row['streams']} x {size_of(row)}"


def time(row: dict[str, Any]) -> str:
    return seconds(row["best"])


def core(row: dict[str, Any]) -> str:
    return seconds(row["server_cpu"])


def rate(row: dict[str, Any]) -> str:
    return whole(row["best"])


def whole(value: float) -> str:
    return f"{value:,.0f}"


def seconds(value: float) -> str:
    """Three figures, in the unit they are read best in."""
    units = (("us", value * 1e6), ("ms", value * 1e3), ("s", value))
    unit, scaled = next((pair for pair in units if pair[1] < 1000), units[-1])
    return f"{scaled:.{0 if scaled >= 100 else 1 if scaled >= 10 else 2}f} {unit}"
