"""These tests need the runtimes of ``requirements.txt``; ``make test-oracles`` runs them.

The default collection leaves this folder out (``pyproject.toml``).
"""

from __future__ import annotations

import pytest

from suites.node_cases import NodeCase
from suites.node_cases import node_cases as generated


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let one run ask about every float32 there is."""
    parser.addoption(
        "--every-float32", action="store_true", help="all 2^32 float32 patterns (many minutes)"
    )


@pytest.fixture(scope="session")
def node_cases() -> list[NodeCase]:
    """ONNX's node tests of rounding, casts and quantization; they are generated once."""
    return generated()
