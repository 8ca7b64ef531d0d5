"""Small requests in every shape they come in."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support.http.responses import Answers, inference, message, tensor
from support.services.device_service import DeviceService
from support.services.hosted import HostedService
from support.services.server import Service


@pytest.fixture(scope="module")
def service() -> Iterator[HostedService]:
    with HostedService() as running:
        yield running


def test_requests_follow_one_another(service: HostedService) -> None:
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        for seed in range(5):
            x = tensor(1024, seed)
            plug.sendall(message(x))
            answers.expect(x)


def test_requests_come_on_connections_of_their_own(service: HostedService) -> None:
    for seed in range(3):
        x = tensor(1024, seed)
        with contextlib.closing(service.connect()) as plug:
            plug.sendall(message(x))
            Answers(plug).expect(x)


@pytest.mark.parametrize("cut", [1, 30, -1024, -1000, -1])
def test_a_request_may_come_in_pieces(service: HostedService, cut: int) -> None:
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        for seed in range(3):
            x = tensor(1024, seed)
            whole = message(x)
            plug.sendall(whole)
            answers.expect(x)
            plug.sendall(whole[:cut])
            time.sleep(0.02)
            plug.sendall(whole[cut:])
            answers.expect(x)


def test_requests_may_be_pipelined(service: HostedService) -> None:
    tensors = [tensor(1024, seed) for seed in range(200)]
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        plug.sendall(message(tensors[0]))
        answers.expect(tensors[0])
        plug.sendall(b"".join(map(message, tensors)))
        answers.expect(*tensors)
        plug.sendall(message(tensors[1]) + message(tensors[2])[:50])
        answers.expect(tensors[1])
        plug.sendall(message(tensors[2])[50:])
        answers.expect(tensors[2])


def test_bytes_that_a_head_leaves_over_are_the_next_request(service: HostedService) -> None:
    x, y = tensor(1024, 1), tensor(2048, 2)
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        for _ in range(2):
            plug.sendall(message(x) + message(y))
            answers.expect(x, y)
        plug.sendall(message(x) + b"nonsense\r\n\r\n")
        answers.expect(x)
        assert answers.next()[0] == 400
        assert answers.at_end()


@pytest.mark.parametrize("lines", [b"\r\n\r\n", b"\n\r\n\r\n", b"\r\n"])
def test_empty_lines_before_a_request_are_no_part_of_its_head(
    service: HostedService, lines: bytes
) -> None:
    """They may be taken for the end of one, before which nothing says how long a body is."""
    x = tensor(1024, 1)
    for length in (len(message(x)), 1 << 20):
        y = tensor(length // 4 * 4, 2)
        with contextlib.closing(service.connect()) as plug:
            plug.sendall(lines + message(y)[: -y.nbytes])
            time.sleep(0.02)
            plug.sendall(message(y)[-y.nbytes :])
            Answers(plug).expect(y)
        with contextlib.closing(service.connect()) as plug:
            plug.sendall(lines + message(x))
            Answers(plug).expect(x)


def test_an_id_before_a_request_is_refused(service: HostedService) -> None:
    x = tensor(64)
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        plug.sendall(b"\r\n" + message(x))
        answers.expect(x)
        plug.sendall(b"\r\nX-Request-ID: one\r\n" + message(x))
        assert answers.next()[0] == 400
        assert answers.at_end()


def test_no_end_of_empty_lines_is_no_request(service: HostedService) -> None:
    x = tensor(64)
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        for _ in range(2):
            plug.sendall(b"\r\n" * 40_000 + message(x))
            answers.expect(x)


def test_answers_have_ids_of_their_own(service: HostedService) -> None:
    x = tensor(64)
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        ids = set()
        for _ in range(5):
            plug.sendall(message(x))
            ids.add(answers.next()[1]["X-Request-ID"])
    assert len(ids) == 5


def test_a_request_s_own_id_comes_back(service: HostedService) -> None:
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        for seed, own in enumerate(["one", "two", "one", "a/b:c", "x" * 128]):
            x = tensor(64, seed)
            plug.sendall(message(x, more=f"X-Request-ID: {own}\r\n"))
            status, headers, content = answers.next()
            assert (status, headers["X-Request-ID"]) == (200, own)
            assert content == np.rint(x).tobytes()
        plug.sendall(message(x))
        answers.expect(x)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("X-Request-ID: not sane\r\n", None),
        ("X-Request-ID: " + "x" * 129 + "\r\n", None),
        ("X-Request-ID: one\r\nX-Request-ID: two\r\n", "one"),
        ("x-request-id: one\r\nX-Request-ID: two\r\n", "one"),
        ("X-Request-ID:one\r\n", "one"),
    ],
)
def test_ids_of_other_spellings(service: HostedService, fields: str, expected: str | None) -> None:
    x = tensor(64)
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        ids = set()
        for _ in range(3):
            plug.sendall(message(x, more=fields))
            status, headers, content = answers.next()
            assert (status, content) == (200, np.rint(x).tobytes())
            ids.add(headers["X-Request-ID"])
        plug.sendall(message(x, more="X-Request-ID: own\r\n"))
        assert answers.next()[1]["X-Request-ID"] == "own"
    assert len(ids) == 3 if expected is None else ids == {expected}


def test_inferences_may_differ_in_their_json_alone(service: HostedService) -> None:
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        for seed, own in enumerate(["a", "b", "b", "a", "a", "c"]):
            x = tensor(1024, seed)
            plug.sendall(inference(x, own))
            status, headers, content = answers.next()
            length = int(headers["Inference-Header-Content-Length"])
            assert status == 200, content
            assert json.loads(content[:length])["id"] == own
            assert content[length:] == np.rint(x).tobytes()


def test_inferences_are_counted(service: HostedService) -> None:
    def count() -> int:
        stats = json.loads(service.get("/v2/models/round/stats").content)
        return int(stats["model_stats"][0]["inference_count"])

    before = count()
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        for _ in range(5):
            plug.sendall(inference(tensor(64), "a"))
            assert answers.next()[0] == 200
    assert count() - before == 5


def test_a_length_that_is_rounded_up_leaves_zeros(service: HostedService) -> None:
    """DirectML's lengths are multiples of four; a sender need not send the rest."""
    desc = {"DataType": "FLOAT16", "Sizes": [1, 1, 1, 3]}
    descriptor = {
        "dialect": "directml",
        "feature_level": "3_0",
        "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
        "desc": {"InputTensor": desc, "OutputTensor": desc, "RoundingMode": "TOWARD_ZERO"},
    }
    x = np.array([1.5, -2.5, 3.75], np.float16)
    request = (
        f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: {x.nbytes}\r\n"
        f"Operator-Descriptor: {json.dumps(descriptor)}\r\n\r\n"
    ).encode() + x.tobytes()
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        for _ in range(4):
            plug.sendall(request)
            assert answers.next()[2] == np.trunc(x).tobytes() + bytes(2)


def test_a_refusal_is_refused_again(service: HostedService) -> None:
    x = tensor(64)
    wrong = message(x).replace(b"ties_to_even", b"ties_to_nope")
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        for _ in range(3):
            plug.sendall(wrong)
            assert answers.next()[0] == 422
            plug.sendall(message(x))
            answers.expect(x)


def test_a_key_that_was_withdrawn_is_refused(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(hashlib.sha256(b"secret").hexdigest() + "\n")
    x = tensor(64)
    request = message(x, more="X-API-Key: secret\r\n")
    guarded = Service("--api-keys-file", str(keys))
    with guarded as running, contextlib.closing(running.connect()) as plug:
        answers = Answers(plug)
        for _ in range(3):
            plug.sendall(request)
            answers.expect(x)
        keys.write_text(hashlib.sha256(b"other").hexdigest() + "\n")
        deadline = time.monotonic() + 5
        while True:
            plug.sendall(request)
            status, _, content = answers.next()
            if status == 401:
                break
            assert content == np.rint(x).tobytes()
            assert time.monotonic() < deadline


def test_a_device_may_be_waited_for() -> None:
    x = tensor(2048)
    device = DeviceService("--backend", "cupy", "--gpu-min-bytes", "0")
    with device as running, contextlib.closing(running.connect()) as plug:
        answers = Answers(plug)
        for _ in range(5):
            plug.sendall(message(x))
            status, headers, content = answers.next()
            assert (status, headers["Execution-Backend"]) == (200, "cupy")
            assert content == np.rint(x).tobytes()
        plug.sendall(message(x) * 20)
        answers.expect(*[x] * 20)
