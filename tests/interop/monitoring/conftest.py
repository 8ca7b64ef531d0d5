"""Services under mixed traffic, and a Prometheus that scrapes them."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from stress.traffic import Found
from support.http.native_form import ieee754, post
from support.monitoring import Prometheus
from support.services.server import Service
from support.services.variants import DeviceService

#: Seconds of traffic: ranges of a minute need some scrapes.
SECONDS = 25.0
LARGE = np.linspace(-1e4, 1e4, 3 << 18, dtype="<f4")


@pytest.fixture(scope="session")
def prometheus() -> Iterator[Prometheus]:
    """After so many seconds of traffic at a service of two workers.

    A second service has a device, which is this CPU, and has no memory for the last of its tensors.
    """
    with (
        Service("--workers", "2", "--receive-timeout", "6") as service,
        DeviceService("--backend", "auto", "--gpu-min-bytes", "1MiB") as device_service,
        Prometheus(f"127.0.0.1:{service.port}", f"127.0.0.1:{device_service.port}") as running,
    ):
        end = time.monotonic() + SECONDS

        def use_device() -> None:
            for turn in range(int(SECONDS * 4)):
                if turn == int(SECONDS * 3):
                    device_service.fill()
                post(device_service, ieee754("float32", [LARGE.size]), LARGE.tobytes())
                time.sleep(0.25)

        device = threading.Thread(target=use_device)
        device.start()
        found = Found()
        for number in itertools.count():
            asyncio.run(found.turn(service.port, 1, number))
            if time.monotonic() > end:
                break
        device.join()
        yield running
