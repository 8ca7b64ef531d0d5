"""The ledger of how foreign runtimes answer.

These tests need the runtimes of ``requirements.txt``; ``make test-oracles`` runs
them, and the default collection leaves this folder out (``pyproject.toml``).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from suites.node_cases import NodeCase
from suites.node_cases import node_cases as generated
from support.cases.oracle_ledger import HEADING, Ledger
from tensor_round_service.backends.cpu.backend import NumpyBackend

LEDGER = pytest.StashKey[Ledger]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let one run ask about every float32 there is."""
    parser.addoption(
        "--every-float32", action="store_true", help="all 2^32 float32 patterns (many minutes)"
    )


@pytest.fixture(scope="session")
def ledger(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """The one ledger of the run, with the NumPy backend in it."""
    backend = NumpyBackend()
    request.config.stash[LEDGER] = ledger = Ledger(
        backend, every_float32=request.config.getoption("--every-float32")
    )
    yield ledger
    backend.close()


@pytest.fixture(scope="session")
def node_cases() -> list[NodeCase]:
    """ONNX's node tests of rounding, casts and quantization; they are generated once."""
    return generated()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the ledger as the table that ``docs/runtimes.md`` sums up."""
    if LEDGER in config.stash:
        terminalreporter.section("how the oracles answered")
        for line in (*HEADING, *(entry.row() for entry in config.stash[LEDGER].entries)):
            terminalreporter.line(line)
