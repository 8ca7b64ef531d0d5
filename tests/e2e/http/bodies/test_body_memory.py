"""Memory of bodies and responses: when it is given back, and that it is not used before."""

from __future__ import annotations

import contextlib
import gc
import time
import tracemalloc

import pytest

from support.http.responses import Answers, message, tensor
from support.services.hosted import HostedService, filled
from tensor_round_service.engine.job import Job

pytestmark = pytest.mark.slow


def test_a_sender_may_go_within_a_body(service: HostedService) -> None:
    x = tensor(1 << 20)
    with contextlib.closing(service.connect()) as plug:
        plug.sendall(message(x))
        Answers(plug).expect(x)
    for cut in (100, 1000, 70 << 10, 500 << 10):
        with contextlib.closing(service.connect()) as plug:
            plug.sendall(message(x)[:cut])
            time.sleep(0.02)
    assert service.settled()


@pytest.mark.parametrize("size", [1 << 20, 2 << 20])
def test_a_large_body_may_be_refused(size: int) -> None:
    x = tensor(size)
    with HostedService(4 << 20) as service, contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        plug.sendall(message(x))
        answers.expect(x)
        others = Job(service.engine.memory)
        others.reserve(7 << 19)
        plug.sendall(message(x)[: 200 << 10])
        status, headers, _ = answers.next()
        assert (status, headers["Connection"]) == (503, "close")
        others.end(reusable=True)
        assert answers.at_end()
        assert service.settled()


def test_memory_is_not_used_again_before_an_answer_is_taken(service: HostedService) -> None:
    size = 160 << 10
    with contextlib.closing(service.connect()) as quick:
        answers = Answers(quick)
        quick.sendall(message(tensor(size)))
        answers.expect(tensor(size))
        slow = [filled(service, size) for _ in range(4)]
        for seed in range(100, 120):
            quick.sendall(message(tensor(size, seed)))
            answers.expect(tensor(size, seed))
        for plug, asked in slow:
            with plug:
                Answers(plug).expect(*asked)
    assert service.settled()


def test_unread_answer_frees_its_memory_when_the_client_leaves(service: HostedService) -> None:
    size = 160 << 10
    with contextlib.closing(service.connect()) as plug:
        plug.sendall(message(tensor(size)))
        Answers(plug).expect(tensor(size))
    with filled(service, size)[0]:
        time.sleep(0.1)
        assert service.engine.memory.in_use >= size
    assert service.settled()


def test_memory_is_not_left_to_the_garbage_collector_by_who_goes(service: HostedService) -> None:
    x = tensor(100 << 10)
    with contextlib.closing(service.connect()) as plug:
        plug.sendall(message(x))
        Answers(plug).expect(x)
    assert service.settled()
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(20):
            with contextlib.closing(service.connect()) as plug:
                plug.sendall(message(x)[:-1])
                time.sleep(0.02)
        assert service.settled()
        held, _ = tracemalloc.get_traced_memory()
        assert held < 4 * x.nbytes
    finally:
        tracemalloc.stop()
        gc.enable()
