"""The summary of a proof, and the table that ``--record`` writes in docs/exactness.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import llvmlite.binding as llvm

from tensor_round.contract.dtypes import BY_NAME

from .prove import TABLES, Outcome

PAGE = Path(__file__).parents[2] / "docs" / "exactness.md"
BEGIN, END = "<!-- Made by make prove. -->\n", "<!-- End of what make prove made. -->\n"
#: What is proved of each way, and by what its text is made, if not by hand.
ABOUT: dict[str, tuple[str, str]] = {
    "reference": ("the verifier's reference, run on symbols", ""),
    "NumPy": ("float32 and float64 by NumPy, run on symbols", "NumPy {numpy}"),
    "NumPy words": ("words of two 16-bit elements by NumPy, run on symbols", "NumPy {numpy}"),
    TABLES: ("look-up tables, every entry against the reference", "NumPy {numpy}"),
    "LLVM IR": ("the compiled kernels, as written", ""),
    "LLVM IR -O3": ("the compiled kernels, optimized", "LLVM {llvm} in llvmlite {llvmlite}"),
    "CUDA C": ("the GPU's kernels, as written", ""),
    "codes: CUDA C": ("the GPU's codes of quotients and zero points, as written", ""),
    "casts: CUDA C": ("the GPU's conversions, as written", ""),
    "casts: LLVM IR": ("the compiled conversions, as written", ""),
    "casts: LLVM IR -O3": (
        "the compiled conversions, optimized",
        "LLVM {llvm} in llvmlite {llvmlite}",
    ),
    "casts: NumPy": ("conversions of 32- and 64-bit types by NumPy, on symbols", "NumPy {numpy}"),
    "casts: by odd": ("the theorem of rounding to odd", ""),
    "CUDA C -ftz": ("the GPU's kernels, subnormals flushed, as CuPy compiles them", ""),
}


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each way: texts, distinct claims, and seconds of the solver."""
    claims: dict[str, set[object]] = {}
    seconds: dict[str, float] = {}
    for outcome in outcomes:
        claims.setdefault(outcome.job.way, set()).update(outcome.claims)
        seconds[outcome.job.way] = seconds.get(outcome.job.way, 0) + outcome.seconds
    return [
        f"{way:<22} {count:>4} texts {len(claims[way]):>4} claims {seconds[way]:>8.1f} s"
        for way, count in counted(outcomes).items()
    ]


def counted(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How many texts each way has."""
    return dict(
        Counter(
            outcome.job.way
            for outcome in outcomes
            if outcome.claims
            or outcome.problems
            or (outcome.job.way == TABLES and BY_NAME[outcome.job.types].itemsize <= 2)
        )
    )


def versions(ptx: Path) -> dict[str, str]:
    """The versions of the tools; NVRTC's is written in what it makes."""
    text = next(ptx.glob("*.ptx")).read_text()
    found = re.search(r"Cuda compilation tools, release \S+ V(\S+)", text)
    return {
        **{name: version(name) for name in ("numpy", "llvmlite", "bitwuzla")},
        "llvm": ".".join(map(str, llvm.llvm_version_info)),
        "nvrtc": found[1] if found else "of an unknown version",
    }


def table(counts: Mapping[str, int], tools: Mapping[str, str]) -> str:
    """The table, with the markers around it."""
    rows = [
        f"All by Bitwuzla {tools['bitwuzla']}, for every operand, each with its control:\n\n",
        "| text | what it is | made by | texts |\n|---|---|---|---|\n",
    ]
    ptx: dict[str, list[tuple[str, int]]] = {}
    for way, count in counts.items():
        if way in ABOUT:
            about, maker = ABOUT[way]
            rows.append(f"| {way} | {about} | {maker.format(**tools)} | {count} |\n")
        else:
            name, _, architecture = way.removesuffix(" -ftz").rpartition(" ")
            ptx.setdefault(name, []).append((architecture, count))
    for name, found in ptx.items():
        architectures = ", ".join(dict.fromkeys(architecture for architecture, _ in found))
        about = f"what NVRTC makes of it for {architectures}, subnormals flushed"
        about += "" if name.startswith("casts") else " or not"
        total = sum(count for _, count in found)
        rows.append(f"| {name} | {about} | NVRTC {tools['nvrtc']} | {total} |\n")
    return f"{BEGIN}{''.join(rows)}{END}"


def record(outcomes: Sequence[Outcome], ptx: Path) -> None:
    """Write the table in its page."""
    text = PAGE.read_text()
    old = text[text.index(BEGIN) : text.index(END) + len(END)]
    PAGE.write_text(text.replace(old, table(counted(outcomes), versions(ptx))))
