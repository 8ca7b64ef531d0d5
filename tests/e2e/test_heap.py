"""Memory that a request used is there for the next: no page is faulted in anew."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from support.native_form import ieee754, post
from support.server import Service

REQUESTS = 50

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="page faults are counted in /proc"
)


def page_faults(service: Service) -> int:
    fields = Path(f"/proc/{service.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[7])


@pytest.mark.parametrize("size", [256 << 10, 1 << 20])
def test_a_request_like_the_last_costs_no_page_faults(size: int) -> None:
    payload = bytes(size)
    with Service() as service, contextlib.closing(service.connect()):
        for _ in range(10):
            post(service, ieee754("float32", [size // 4]), payload)
        before = page_faults(service)
        for _ in range(REQUESTS):
            assert post(service, ieee754("float32", [size // 4]), payload).content == payload
        # 140 a request otherwise; some are the interpreter's own.
        assert page_faults(service) - before < 20 * REQUESTS
