"""docs/verify.md: its examples run and print what it says, its tables are the code's."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.pages import ROOT, blocks
from tensor_round_verify import MODELS, RUNTIMES
from tensor_round_verify.conversions.blocks import deviations as of_blocks
from tensor_round_verify.conversions.blocks.operands import LAYOUTS
from tensor_round_verify.conversions.deviation import NO_REPORT
from tensor_round_verify.conversions.deviations import CASTS, QUANTIZATIONS

PAGE = "docs/verify.md"
TEXT = (ROOT / PAGE).read_text()


def examples(language: str) -> list[str]:
    return [block.text for block in blocks(PAGE) if block.language == language]


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("right", [False, True], ids=["wrong", "roundf"])
def test_the_program_is_told_as_on_the_page(tmp_path: Path, right: bool) -> None:
    (source,) = examples("c")
    if right:
        source = source.replace("truncf(x + copysignf(0.5f, x))", "roundf(x)")
    (tmp_path / "kernel.c").write_text(source)
    (script,) = [block for block in examples("sh") if "cc -O2" in block]
    script = script.replace("tensor-round", f"{sys.executable} -m tensor_round")
    ran = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert ran.returncode == (0 if right else 1), ran.stderr
    assert ran.stdout == ("" if right else examples("text")[0])


def rows(heading: str) -> list[list[str]]:
    """The rows of the table below a line."""
    below = "|---" * (heading.count("|") - 1) + "|"
    table = TEXT.partition(f"{heading}\n{below}\n")[2].partition("\n\n")[0]
    return [re.split(r" \| ?", row.strip("| \n")) for row in table.splitlines()]


def test_the_table_of_models_is_the_codes() -> None:
    found = rows("| model | effect | found in |")
    assert found == [[f"`{m.name}`", m.about, m.source] for m in MODELS]


def test_the_table_of_deviations_is_the_codes() -> None:
    found = rows("| deviation | effect | found in |")
    deviations = {deviation.name: deviation for deviation in (*CASTS, *QUANTIZATIONS)}
    assert found == [[f"`{d.name}`", d.about, d.source] for d in deviations.values()]


def test_the_table_of_runtimes_is_the_codes() -> None:
    found = rows("| RUNTIME | operators | needs |")
    assert found == [
        [f"`{row}`", row.about, *([f"`pip install {row.package}`"] if row.package else [])]
        for row in RUNTIMES
    ]


def test_the_table_of_deviations_of_blocks_is_the_codes() -> None:
    found = rows("| deviation of blocks | found in |")
    sources = {d.name: d.source for d in (*of_blocks.QUANTIZATIONS, *of_blocks.DEQUANTIZATIONS)}
    sources |= {name: of_blocks.SOURCES_OF_LAYOUTS.get(name, NO_REPORT) for name in LAYOUTS}
    assert found == [[f"`{name}`", source] for name, source in sources.items()]
