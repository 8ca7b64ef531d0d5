"""docs/sdk.md: the values it shows are right, and its reference is the docstrings."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

import tensor_round as tr
from support.pages import ROOT
from support.server import Service

PAGE = "docs/sdk.md"


def test_the_values_beside_the_calls_are_right(service: Service) -> None:
    x = np.array([-2.5, -0.3, 0.5, 1.5, 2.5], np.float32)
    page = (ROOT / PAGE).read_text()
    with tr.Client(service.url) as client:
        for rounding in ("ties_to_even", "ties_to_away", "toward_zero"):
            assert f"# {client.round(x, rounding)}" in page


def test_the_reference_is_the_docstrings() -> None:
    made = subprocess.run([sys.executable, ROOT / "tools" / "sdk_reference.py", "--check"])
    assert made.returncode == 0, "run make docs"
