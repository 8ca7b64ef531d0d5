"""docs/exactness.md: the table of proofs is about today's texts, by the locked versions."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from proof import page
from proof.cases import FLOATS, ROUNDINGS, compiled_conversions
from proof.claims import CASTS, CODES
from proof.faults import FAULTS
from proof.prove import TABLES, all_jobs, read
from tensor_round.contract.rounding import Rounding

ROOT = Path(__file__).parents[3]
#: What ``tools/compile_kernels.py`` compiles for, which needs CuPy.
KERNELS = (ROOT / "tools" / "compile_kernels.py").read_text()
ARCHITECTURES = re.findall(r"\d+", KERNELS.partition("\nARCHITECTURES = ")[2].partition("\n")[0])
PAGE = page.PAGE.read_text()
TABLE = PAGE[PAGE.index(page.BEGIN) : PAGE.index(page.END) + len(page.END)]
#: By the name in the table: the package that is locked.
PACKAGES = {"NumPy": "numpy", "llvmlite": "llvmlite", "Bitwuzla": "bitwuzla"}
PACKAGES |= {"NVRTC": "nvidia-cuda-nvrtc"}


def stated() -> dict[str, str]:
    """The versions in the table."""
    found = re.findall(r"(NumPy|llvmlite|Bitwuzla|NVRTC|LLVM) (\d[\d.]*\d)", TABLE)
    return dict(found)


def test_the_table_has_every_text() -> None:
    jobs = all_jobs()
    kept = [job for job in jobs if job.way not in (TABLES, *CODES, *CASTS)]
    counts = page.counted(read(job) for job in kept)
    counts[TABLES] = len(Rounding) * sum(dtype.itemsize <= 2 for dtype in FLOATS)
    counts |= Counter(job.way for job in jobs if job.way in CODES)
    for architecture in sorted(ARCHITECTURES):
        for flush in ("", " -ftz"):
            counts[f"PTX sm_{architecture}{flush}"] = len(ROUNDINGS)
    turns = Counter(turn % len(ARCHITECTURES) for _, turn in compiled_conversions())
    for architecture in sorted(ARCHITECTURES):
        count = turns[ARCHITECTURES.index(architecture)]
        counts[f"casts: PTX sm_{architecture} -ftz"] = count
    counts |= Counter(job.way for job in jobs if job.way in CASTS)
    versions = {name.lower(): version for name, version in stated().items()}
    assert page.table(counts, versions) == TABLE, "make prove LOCKED=1 ARGS=--record"


def test_the_table_is_by_the_locked_versions() -> None:
    locks = "".join(path.read_text() for path in (ROOT / "locks").glob("c*.txt"))
    versions = stated()
    for name, package in PACKAGES.items():
        locked = re.findall(rf"^{package}==(\S+)", locks, re.M)
        assert versions[name] in locked, f"make prove LOCKED=1 ARGS=--record: {name}"


def test_the_page_of_the_proof_counts_right() -> None:
    text = (ROOT / "docs" / "exactness.md").read_text()
    assert f"has {len(FAULTS)} of them" in text
    assert f"{len(ROUNDINGS) * 2 * len(ARCHITECTURES)} texts for four architectures" in text
    assert f"each float, {len([*compiled_conversions()])} texts" in text
