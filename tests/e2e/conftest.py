"""One real service for the whole ring; tests that need other settings start their own.

With ``--front`` (``make test-edge``) the tests that go through the fixture ``front`` run once
for each of what may stand before a service; what makes no sense there is marked ``not_behind``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from support.services.fronts import DIRECT, FRONTS, Front
from support.services.server import Service, forked, started, started_plain


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--front",
        action="append",
        choices=[*FRONTS, "all"],
        help="what stands before the service, and only tests for which that makes a difference",
    )


def _chosen(config: pytest.Config) -> list[str]:
    chosen: list[str] = config.getoption("--front", None) or []
    return list(FRONTS) if "all" in chosen else chosen


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "front" in metafunc.fixturenames and (chosen := _chosen(metafunc.config)):
        metafunc.parametrize("front", chosen, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not _chosen(config):
        return
    left_out = [item for item in items if not _makes_sense(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _makes_sense(item: pytest.Item) -> bool:
    """Whether a test goes through a front, and not one before which it is marked as pointless."""
    call = getattr(item, "callspec", None)
    name = call.params.get("front") if call else None
    if name is None:
        return False
    kinds = {name, name.partition("-")[0]}
    return not any(kinds.intersection(mark.args) for mark in item.iter_markers("not_behind"))


@pytest.fixture(scope="session")
def front(request: pytest.FixtureRequest) -> Front:
    """How to start a service with options, wherever it stands."""
    return FRONTS[request.param] if hasattr(request, "param") else DIRECT


def pytest_configure() -> None:
    # Hundreds are run.
    Service.launch = staticmethod(forked)


@pytest.fixture
def each_started() -> Iterator[None]:
    """Services are not forked, for tests of processes as such."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Service, "launch", staticmethod(started_plain))
        yield


@pytest.fixture(scope="session")
def service(front: Front) -> Iterator[Service]:
    """As it is, with compiled kernels."""
    with contextlib.ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Service, "launch", staticmethod(started))
            running = stack.enter_context(front("--max-tensor-bytes", "320MiB"))
        yield running
