"""Services under the mixed traffic of the stress tests, scraped by a real Prometheus."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from stress.traffic.record import Record
from stress.traffic.run import Traffic

from support.http.native_form import ieee754, post
from support.services.device_service import DeviceService
from support.services.prometheus import Prometheus
from support.services.server import Service

LARGE = np.linspace(-1e4, 1e4, 3 << 18, dtype="<f4")


@contextmanager
def monitored(seconds: float) -> Iterator[tuple[Prometheus, float]]:
    """Prometheus, after so many seconds of traffic at a service of two workers; when that ended.

    A second service has a device, which is this CPU, and has no memory for the last of its tensors.
    """
    with (
        Service("--workers", "2") as service,
        DeviceService("--backend", "auto", "--gpu-min-bytes", "1MiB") as device_service,
        Prometheus(f"127.0.0.1:{service.port}", f"127.0.0.1:{device_service.port}") as prometheus,
    ):
        end = threading.Event()

        def use_device() -> None:
            for turn in range(int(seconds * 4)):
                if turn == int(seconds * 3):
                    device_service.fill()
                post(device_service, ieee754("float32", [LARGE.size]), LARGE.tobytes())
                if end.wait(0.25):
                    return

        device = threading.Thread(target=use_device)
        device.start()
        ends = time.time() + seconds
        Traffic(service, Record(), seed=1).run(seconds, lambda: None)
        end.set()
        device.join()
        yield prometheus, ends
