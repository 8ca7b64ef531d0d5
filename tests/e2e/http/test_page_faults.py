"""Memory that a request used is there for the next: no page is faulted in anew.

A connection knows when a response has gone out, and its memory is free for the next.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from support.http.native_form import ieee754, post
from support.services.server import Service

REQUESTS = 50

pytestmark = [
    pytest.mark.usefixtures("each_started"),
    pytest.mark.skipif(
        not Path("/proc/self/stat").exists(), reason="page faults are counted in /proc"
    ),
]


def page_faults(service: Service) -> int:
    fields = Path(f"/proc/{service.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[7])


def page_faults_of_one(service: Service, size: int, payload: bytes) -> int:
    before = page_faults(service)
    assert post(service, ieee754("float32", [size // 4]), payload).content == payload
    return page_faults(service) - before


@pytest.mark.parametrize("size", [256 << 10, 1 << 20])
def test_a_request_like_the_last_costs_no_page_faults(size: int) -> None:
    payload = bytes(size)
    with Service() as service, contextlib.closing(service.connect()):
        for _ in range(10):
            post(service, ieee754("float32", [size // 4]), payload)
        costs = [page_faults_of_one(service, size, payload) for _ in range(REQUESTS)]
    # Fresh memory costs one a page: 256 for a body of 1 MiB. What a young process still does by
    # itself costs some too, in a request or two.
    assert sorted(costs)[REQUESTS * 4 // 5] < 20, costs
