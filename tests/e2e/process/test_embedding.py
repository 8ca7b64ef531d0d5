"""Two services in one process, each in a thread with an event loop of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.services.hosted import HostedService

#: Rounds arrays of one value; prints how many came back wrong.
CALLER = """
import sys, numpy as np, tensor_round as tr
url, value = sys.argv[1], float(sys.argv[2])
x = np.full(3800, value, np.float32)
with tr.Client(url) as client:
    print(sum(not (client.round(x) == value).all() for _ in range(1500)))
"""


@pytest.mark.slow
def test_callers_of_either_service_get_their_own_tensors() -> None:
    with HostedService() as one, HostedService() as other:
        callers = [
            subprocess.Popen(
                [sys.executable, "-c", CALLER, service.url, str(value)], stdout=subprocess.PIPE
            )
            for value, service in enumerate((one, other), 1)
        ]
        assert [caller.communicate(timeout=300)[0].strip() for caller in callers] == [b"0", b"0"]
