"""One client, many threads; one client, two processes; how few files a call goes through."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import bits, expected_bits, patterns
from support.clients import AnyClient
from support.http.proxy import Proxy
from support.services.server import Service
from tensor_round_verify.reference import ROUNDINGS


def test_24_threads_share_a_client(service: Service) -> None:
    """Each with its own sizes, dtypes and directions; every answer checked."""

    def work(number: int) -> None:
        dtype = ("float16", "bfloat16", "float32", "float64")[number % 4]
        rounding = ROUNDINGS[number % 5]
        for step in range(20):
            x = patterns(dtype, 100 + 997 * number % 5000 + step)
            y = client.round(x, rounding)
            assert np.array_equal(bits(y), expected_bits(x, rounding))

    with (
        Proxy(service.address) as proxy,
        tr.Client(proxy.url, tile_bytes=4096) as client,
        ThreadPoolExecutor(24) as threads,
    ):
        for done in [threads.submit(work, number) for number in range(24)]:
            done.result()
        assert proxy.open_most <= 4


def test_a_child_opens_connections_of_its_own(service: Service) -> None:
    x = patterns("float32", 100_000)
    expected = expected_bits(x)

    def is_right() -> bool:
        return all(np.array_equal(bits(client.round(x)), expected) for _ in range(10))

    with Proxy(service.address) as proxy, tr.Client(proxy.url, connections=1) as client:
        assert is_right()
        with warnings.catch_warnings():
            # Newer Pythons warn of forks beside threads (the proxy's): that is the point here.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            os._exit(0 if is_right() else 1)
        assert is_right()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert is_right()
        assert len(proxy.seen) == 2


def test_connections_are_used_again(kind: type[AnyClient], service: Service) -> None:
    with Proxy(service.address) as proxy, kind(proxy.url) as client:
        for _ in range(20):
            client.round(patterns("float32", 100))
            client.ready()
            with pytest.raises(tr.InvalidDescriptor):
                client.round(patterns("float32", 100), "up")
        assert len(proxy.seen) == 1


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_closing_leaves_nothing_behind(kind: type[AnyClient], service: Service) -> None:
    def use() -> None:
        with kind(service.url, tile_bytes=4096) as client:
            client.round(patterns("float32", 10_000))

    use()
    gc.collect()
    descriptors, threads = open_descriptors(), threading.active_count()
    for _ in range(5):
        use()
    gc.collect()
    assert (open_descriptors(), threading.active_count()) == (descriptors, threads)


def test_a_closed_client_says_so(kind: type[AnyClient], service: Service) -> None:
    with kind(service.url) as client:
        client.round(np.zeros(2, "f4"))
        client.close()
        client.close()
        for call in (lambda: client.round(np.zeros(2, "f4")), client.operators, client.ready):
            with pytest.raises(tr.InvalidArgument, match="closed"):
                call()


def test_a_client_goes_to_the_workers_of_a_pool(service: Service) -> None:
    """Spawned, they have nothing of this process but what was pickled: the bound method."""
    x = patterns("float32", 1000)
    with tr.Client(service.url) as client, get_context("spawn").Pool(2) as pool:
        for y in pool.map(client.round, [x, x, x]):
            assert np.array_equal(bits(y), expected_bits(x))


#: A reader who follows a call from the client to the socket and back opens no more.
MOST_FILES = 11
#: In a process that has imported nothing else: a client asks other libraries if they are there.
CODE = """
import sys
from pathlib import Path
import numpy as np, tensor_round as tr

root, visited = Path(tr.__file__).parent, set()

def visit(frame, event, argument):
    path = Path(frame.f_code.co_filename)
    if path.is_relative_to(root):
        visited.add(path.relative_to(root).as_posix())

with tr.Client(sys.argv[1]) as client:
    x = np.array([-2.5, 0.5, 1.5], np.float32)
    client.round(x)
    sys.setprofile(visit)
    y = client.round(x)
    sys.setprofile(None)
assert y.tolist() == [-2.0, 0.0, 2.0]
print(*sorted(visited))
"""


def test_a_repeated_call_goes_through_few_files(service: Service) -> None:
    command = [sys.executable, "-c", CODE, service.url]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    visited = set(done.stdout.split())
    assert {"clients/client.py", "transport/http.py", "contract/wire/http1.py"} <= visited
    assert len(visited) <= MOST_FILES, " ".join(sorted(visited))
