"""Services under mixed traffic, and a Prometheus that scrapes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from monitored import monitored
from support.services.prometheus import Prometheus

#: Seconds of traffic: ranges of a minute need some scrapes.
SECONDS = 25.0


@pytest.fixture(scope="session")
def prometheus() -> Iterator[Prometheus]:
    with monitored(SECONDS) as (running, _):
        yield running
