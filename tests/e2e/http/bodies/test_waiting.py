"""Bodies and connections that wait: how long each may, and what a drain grants."""

from __future__ import annotations

import contextlib
import json
import signal
import time

import numpy as np
import pytest

from support.http.responses import Answers, inference, message, tensor
from support.services.hosted import HostedService, filled
from support.services.server import Service


@pytest.mark.slow
def test_stalled_large_body_is_refused_and_counted(service: HostedService) -> None:
    """Its memory is all taken by then, so it has a second's patience, not ten."""

    def failed() -> int:
        stats = json.loads(service.get("/v2/models/round/stats").content)
        return int(stats["model_stats"][0]["inference_stats"]["fail"]["count"])

    x = tensor(1 << 20)
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        for _ in range(2):
            plug.sendall(inference(x, "a"))
            assert answers.next()[0] == 200
        before = failed()
        began = time.monotonic()
        plug.sendall(inference(x, "a")[: 100 << 10])
        status, headers, _ = answers.next()
        assert (status, headers["Connection"]) == (408, "close")
        assert headers["X-Request-ID"]
        assert time.monotonic() - began < 5
        assert answers.at_end()
        assert failed() - before == 1
    assert service.settled()


def test_a_server_that_leaves_waits_for_a_large_body_and_then_no_more() -> None:
    x = tensor(1 << 20)
    limits = ("--drain-timeout", "1", "--receive-timeout", "30", "--min-receive-rate", "0")
    with Service(*limits) as running, contextlib.ExitStack() as stack:
        plugs = [stack.enter_context(contextlib.closing(running.connect())) for _ in range(2)]
        for plug in plugs:
            for _ in range(2):
                plug.sendall(message(x))
                Answers(plug).expect(x)
            plug.sendall(message(x)[: 100 << 10])
        time.sleep(0.1)
        running.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        plugs[0].sendall(message(x)[100 << 10 :])
        status, headers, content = Answers(plugs[0]).next()
        assert (status, headers["Connection"], content) == (200, "close", np.rint(x).tobytes())
        status, headers, content = Answers(plugs[1]).next()
        assert (status, json.loads(content)["code"]) == (503, "draining")
        assert running.process.wait(20) == 0


@pytest.mark.slow
def test_a_slow_body_is_refused() -> None:
    limits = ("--receive-timeout", "0.5")
    for x in (tensor(1024), tensor(1 << 20)):
        with (
            Service(*limits) as running,
            contextlib.closing(running.connect()) as plug,
        ):
            answers = Answers(plug)
            plug.sendall(message(x))
            answers.expect(x)
            plug.sendall(message(x)[:800])
            assert answers.next()[0] == 408
            assert answers.at_end()


def test_an_idle_connection_is_closed() -> None:
    x = tensor(1024)
    with (
        HostedService(keep_alive=2.0) as service,
        contextlib.closing(service.connect()) as plug,
    ):
        answers = Answers(plug)
        began = time.monotonic()
        while time.monotonic() < began + 3:
            plug.sendall(message(x))
            answers.expect(x)
            time.sleep(0.05)
        last = time.monotonic()
        assert answers.at_end()
        assert 1 < time.monotonic() - last < 20


@pytest.mark.slow
def test_an_idle_connection_has_its_time_from_when_the_answer_was_taken() -> None:
    size, seconds = 100 << 10, 2.0
    with HostedService(keep_alive=seconds) as service:
        with contextlib.closing(service.connect()) as plug:
            plug.sendall(message(tensor(size)))
            Answers(plug).expect(tensor(size))
        began = time.monotonic()
        plug, asked = filled(service, size)
        with plug:
            # Longer than an idle connection is kept.
            time.sleep(began + 1.8 * seconds - time.monotonic())
            answers = Answers(plug)
            answers.expect(*asked)
            taken = time.monotonic()
            assert answers.at_end()
            assert time.monotonic() - taken > 0.5 * seconds


def test_an_empty_line_does_not_keep_an_idle_connection() -> None:
    x = tensor(1024)
    with HostedService(keep_alive=1.0) as service:
        for count in (1, 2):
            with contextlib.closing(service.connect()) as plug:
                answers = Answers(plug)
                for _ in range(count):
                    plug.sendall(message(x))
                    answers.expect(x)
                    plug.sendall(b"\r\n")
                    time.sleep(0.1)
                began = time.monotonic()
                assert answers.at_end()
                assert 0.5 < time.monotonic() - began < 20


def test_a_refusal_does_not_wait_for_the_body(service: HostedService) -> None:
    x = tensor(1024)
    spoilt = message(x).replace(b'"float32"', b'"float33"')
    head = spoilt[: -x.nbytes]
    for sent in (spoilt, head, head + b"more", head, spoilt, head):
        with contextlib.closing(service.connect()) as plug:
            began = time.monotonic()
            plug.sendall(sent)
            assert Answers(plug).next()[0] == 422
            assert time.monotonic() - began < 20
