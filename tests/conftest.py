"""What holds for every ring of tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Tests that need a GPU say so; a GPU that is there by chance changes nothing for the others.
os.environ.setdefault("TENSOR_ROUND_BACKEND", "numpy")

# A shell starts what runs in the background with SIGINT ignored, and its children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A deprecation is an error in the processes that tests start, too.
os.environ["PYTHONWARNINGS"] = "error::DeprecationWarning,error::PendingDeprecationWarning"

# The first text of a fresh checkout has Hypothesis make a table of all characters: that takes the
# second that drawing may take in all, and is no fault of the strategy that is drawn from.
# On a busy machine any example may take longer than a deadline: pytest-timeout has the limit.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: no garbage collector has to look through it again.

    In the whole suite these are 400,000 objects: to look at them took a quarter of the time of the
    contract's tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Several processes begin with the last files, those that wait spread among the others.

    End-to-end tests wait more than they compute: so the cores are seldom idle, or all wanted.
    """
    if not hasattr(config, "workerinput"):
        return
    place: dict[Path, float] = {}
    for waits in (True, False):
        paths = dict.fromkeys(item.path for item in items if ("e2e" in item.path.parts) == waits)
        place |= {path: -number / len(paths) for number, path in enumerate(paths)}
    items.sort(key=lambda item: place[item.path])
