"""Hosts of their own on this machine: network namespaces whose links have a limited rate.

Needs Linux, root, and iproute2's ``ip`` and ``tc``.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

PORT = 8000
#: What may wait at a link, in bytes: TCP slows down before it is full.
QUEUE_BYTES = 32 << 20
#: A token bucket passes this many bytes at once: two packets of segmentation offload.
PACKET_BYTES = 16 << 10
BURST_BYTES = 2 * PACKET_BYTES
READY_WITHIN = 20.0


@contextlib.contextmanager
def services(count: int, link_rate: float, **settings: str) -> Iterator[list[str]]:
    """``count`` services with one worker each, behind links of ``link_rate`` bytes a second.

    Yields their URLs. ``settings`` are variables of the services.
    """
    with contextlib.ExitStack() as stack:
        urls = [stack.enter_context(_service(n, link_rate, settings)) for n in range(count)]
        for url in urls:
            _wait_until_ready(url)
        yield urls


@contextlib.contextmanager
def _service(number: int, link_rate: float, settings: dict[str, str]) -> Iterator[str]:
    name, here, there = f"scaling-{number}", f"scaling-{number}a", f"scaling-{number}b"
    address = f"10.213.{number}.2"
    _run(f"ip netns add {name}")
    try:
        _run(f"ip link add {here} type veth peer name {there} netns {name}")
        _run(f"ip addr add 10.213.{number}.1/24 dev {here}")
        _run(f"ip -n {name} addr add {address}/24 dev {there}")
        for namespace, device in (("", here), (f"-n {name}", there)):
            _run(f"ip {namespace} link set {device} up gso_max_size {PACKET_BYTES}")
            _run(
                f"tc {namespace} qdisc add dev {device} root tbf"
                f" rate {round(8 * link_rate)}bit burst {BURST_BYTES} limit {QUEUE_BYTES}"
            )
        program = Path(sys.executable).with_name("tensor-round-service")
        variables = {f"TENSOR_ROUND_{key.upper()}": value for key, value in settings.items()}
        variables["TENSOR_ROUND_LOG_LEVEL"] = "warning"
        process = subprocess.Popen(
            ["ip", "netns", "exec", name, program, "--host", address, "--port", str(PORT)],
            env=os.environ | variables,
        )
        try:
            yield f"http://{address}:{PORT}"
        finally:
            process.terminate()
            process.wait()
    finally:
        _run(f"ip netns delete {name}")


def _wait_until_ready(url: str) -> None:
    until = time.monotonic() + READY_WITHIN
    while True:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{url}/readyz", timeout=1).close()
            return
        if time.monotonic() > until:
            raise TimeoutError(f"{url} is not ready")
        time.sleep(0.1)


def _run(command: str) -> None:
    subprocess.run(command.split(), check=True)
