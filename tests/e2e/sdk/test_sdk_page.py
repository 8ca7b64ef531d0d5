"""docs/sdk.md: examples run and print what it says; the reference is the docstrings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensor_round as tr
from support.pages import ROOT, URL, examples
from support.server import Service

PAGE = "docs/sdk.md"


@pytest.mark.not_behind("unix", reason="the page calls a TCP port")
def test_the_examples_run_and_print_what_the_page_says(
    service: Service,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = examples(PAGE)
    assert len(blocks) >= 8
    try:
        for block in blocks:
            exec(compile(block.replace(URL, service.url), PAGE, "exec"), names)
    finally:
        names["client"].close()
    page = (ROOT / PAGE).read_text()
    printed = capsys.readouterr().out.splitlines()
    assert printed
    for line in printed:
        assert line in page or line.startswith("('input'")


def test_the_values_beside_the_calls_are_right(service: Service) -> None:
    x = np.array([-2.5, -0.3, 0.5, 1.5, 2.5], np.float32)
    page = (ROOT / PAGE).read_text()
    with tr.Client(service.url) as client:
        for rounding in ("ties_to_even", "ties_to_away", "toward_zero"):
            assert f"# {client.round(x, rounding)}" in page


def test_the_reference_is_the_docstrings() -> None:
    made = subprocess.run([sys.executable, ROOT / "tools" / "sdk_reference.py", "--check"])
    assert made.returncode == 0, "run tools/sdk_reference.py"


def test_every_error_is_in_the_table() -> None:
    page = (ROOT / PAGE).read_text()
    kinds = [getattr(tr, name) for name in tr.__all__]
    errors = [k for k in kinds if isinstance(k, type) and issubclass(k, BaseException)]
    assert len(errors) >= 25
    assert [k.__name__ for k in errors if f"\n| `{k.__name__}` | " not in page] == []
