"""The service with an overlay's settings does what its probes, ports and times rely on."""

from __future__ import annotations

import time

import numpy as np
import pytest

from interop.deploy.manifests import Overlay
from support.http.native_form import ieee754, post
from support.services.server import Service
from tensor_round_service.settings import PREFIX

#: Seconds until the last proxy has noticed that a pod is going.
NOTICED = 3
X = np.linspace(-9, 9, 256, dtype="<f4")
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
        beside = service.beside
        for each in (service, beside):
            assert each.request("GET", probe, headers={"Host": f"{host}:8000"}).status == 200
            assert each.request("GET", probe, headers={"Host": "elsewhere"}).status == 421
        assert b"\ntensor_round_bytes_in_flight " in beside.get("/metrics").content

        stopped = time.monotonic()
        service.process.terminate()
        served = 0
        while time.monotonic() < stopped + delay - 0.5:
            assert post(service, ROUND, X.tobytes()).content == np.rint(X).tobytes()
            served += 1
            time.sleep(0.05)
            # The signal takes a moment to reach both workers.
            if time.monotonic() > stopped + NOTICED:
                assert beside.get(probe).status == 503
        assert served > 20
        assert service.process.wait(grace) == 0
        assert time.monotonic() - stopped >= delay
