"""Both event loops, for the tests on real sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvloop


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest) -> Any:
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner
