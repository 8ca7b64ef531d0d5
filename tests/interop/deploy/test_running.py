"""The service with an overlay's settings does what its probes, ports and times rely on."""

from __future__ import annotations

import random
import re
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tensor_round as tr
from interop.deploy.manifests import Overlay
from support.http.native_form import ieee754, post
from support.services.server import Service
from tensor_round_service.settings import PREFIX

#: Seconds until the last proxy has noticed that a pod is going.
NOTICED = 3
X = np.linspace(-9, 9, 256, dtype="<f4")
Y = np.rint(X)
ROUND = ieee754("float32", [X.size])


@pytest.mark.timeout(120)
def test_a_pod_of_cpu_serves_until_its_drain_delay_is_over(overlays: dict[str, Overlay]) -> None:
    overlay = overlays["cpu"]
    grace = overlay.pod["terminationGracePeriodSeconds"]
    delay = overlay.settings.drain_delay
    # Another program of this machine may have the port.
    with Service(environment=overlay.environment | {f"{PREFIX}METRICS_PORT": "0"}) as service:
        probe = overlay.container["readinessProbe"]["httpGet"]["path"]
        assert overlay.settings.allowed_hosts is not None
        host = overlay.settings.allowed_hosts.split(",")[-1]
        assert service.request("GET", probe, headers={"Host": f"{host}:8000"}).status == 200
        assert service.request("GET", probe, headers={"Host": "elsewhere"}).status == 421
        (port,) = re.findall(r"metrics on port (\d+)", "".join(service.log))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as metrics:
            assert b"\ntensor_round_bytes_in_flight " in metrics.read()

        stopped = time.monotonic()
        service.process.terminate()
        served = 0
        while time.monotonic() < stopped + delay - 0.5:
            assert post(service, ROUND, X.tobytes()).content == Y.tobytes()
            served += 1
            time.sleep(0.05)
            # The signal takes a moment to reach both workers.
            if time.monotonic() > stopped + NOTICED:
                assert service.get(probe).status == 503
        assert served > 20
        assert service.process.wait(grace) == 0
        assert time.monotonic() - stopped >= delay


@pytest.mark.timeout(120)
def test_a_rolling_update_loses_no_request(overlays: dict[str, Overlay]) -> None:
    """Clients still use the old pod for seconds after its SIGTERM, and half of them never retry."""
    environment = overlays["cpu"].environment | {f"{PREFIX}METRICS_PORT": "0"}
    with Service(environment=environment) as new, Service(environment=environment) as old:
        ready = [old, new]
        over = threading.Event()

        def new_connections() -> int:
            count = 0
            while not over.is_set():
                assert post(random.choice(ready), ROUND, X.tobytes()).content == Y.tobytes()
                count += 1
            return count

        def kept_connections() -> int:
            count = 0
            with tr.Client(old.url) as to_old, tr.Client(new.url) as to_new:
                clients = {id(old): to_old, id(new): to_new}
                while not over.is_set():
                    assert np.array_equal(clients[id(random.choice(ready))].round(X), Y)
                    count += 1
            return count

        with ThreadPoolExecutor(4) as pool:
            counts = [pool.submit(each) for each in (new_connections, kept_connections) * 2]
            try:
                time.sleep(1)
                old.process.terminate()
                time.sleep(NOTICED)
                ready.remove(old)
                assert old.process.wait(overlays["cpu"].pod["terminationGracePeriodSeconds"]) == 0
            finally:
                over.set()
        assert all(count.result() > 100 for count in counts)
