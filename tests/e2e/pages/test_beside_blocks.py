"""What pages say beside the blocks that run: tables, values, programs and configurations."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tensor_round as tr
from support.pages import ROOT, blocks
from support.services.server import Service
from tensor_round_verify import RUNTIMES

PAGE = "docs/verify.md"
TEXT = (ROOT / PAGE).read_text()


def examples(language: str) -> list[str]:
    return [block.text for block in blocks(PAGE) if block.language == language]


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("right", [False, True], ids=["wrong", "roundf"])
def test_program_on_the_page_of_verify_is_judged_as_shown(tmp_path: Path, right: bool) -> None:
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
    return [row.strip("| \n").split(" | ") for row in table.splitlines()]


def test_table_of_runtimes_is_the_codes() -> None:
    assert rows("| RUNTIME | what it runs | pip install |") == [
        [f"`{row}`", row.about, *([f"`{row.package}`"] if row.package else [])] for row in RUNTIMES
    ]


#: What only GitHub, or a release, can do.
NOT_HERE = {"pip install 'tensor-round[cli]'"}


def test_workflow_on_the_page_of_verify_runs_its_commands() -> None:
    (workflow,) = examples("yaml")
    steps = set(re.findall(r"- run: (.*)", workflow)) - NOT_HERE
    shown = {line for block in examples("sh") for line in block.splitlines()}
    assert steps
    assert steps <= shown


def test_page_of_nginx_names_settings_of_the_file() -> None:
    page = (ROOT / "docs/deploy.md").read_text()
    page = page.partition("## Behind nginx")[2].partition("## Several")[0]
    configuration = (ROOT / "deploy/nginx.conf").read_text()
    settings = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", page)) - {"misdirected_host"}
    assert len(settings) >= 3
    assert all(f"{name} " in configuration for name in settings), settings


def test_values_beside_calls_on_the_page_of_the_sdk_are_right(service: Service) -> None:
    x = np.array([-2.5, -0.3, 0.5, 1.5, 2.5], np.float32)
    page = (ROOT / "docs/sdk.md").read_text()
    with tr.Client(service.url) as client:
        for rounding in ("ties_to_even", "ties_to_away", "toward_zero"):
            assert f"# {client.round(x, rounding)}" in page


def test_every_error_is_in_the_table_of_the_sdk_or_of_the_codes() -> None:
    sdk, http = ((ROOT / page).read_text() for page in ("docs/sdk.md", "docs/http.md"))
    kinds = [getattr(tr, name) for name in tr.__all__]
    errors = [k for k in kinds if isinstance(k, type) and issubclass(k, BaseException)]
    assert len(errors) >= 25
    for kind in errors:
        if code := getattr(kind, "code", ""):
            assert kind.__name__.lower() == code.replace("_", ""), "as the page of the SDK says"
            assert f"\n| {kind.status} | `{code}` | " in http
        else:
            assert f"\n| `{kind.__name__}` | " in sdk
