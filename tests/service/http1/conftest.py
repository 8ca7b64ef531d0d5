"""The event loop of asynchronous tests: its clock can be set forward."""

from __future__ import annotations

from typing import Any

import pytest

from support.http.http1_site import Loop


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": Loop}
