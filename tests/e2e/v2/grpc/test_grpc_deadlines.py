"""``grpc-timeout``: a call ends when its caller waits no longer."""

from __future__ import annotations

import pytest
from h2.settings import SettingCodes

from support.http.grpc_client import Client, connected, framed, infer_request, made, tensor_of
from support.http.inference_form import EVEN, OF_X, X, document, tensor
from support.services.server import Service
from tensor_round_service.grpc.health import NAME as HEALTH

REQUEST = infer_request(document(OF_X), X.tobytes())
EXPIRED = "the time that grpc-timeout states has passed"


@pytest.mark.parametrize("method", ["ModelInfer", "ModelStreamInfer"])
def test_a_request_that_does_not_come_in_time(
    service: Service, client: Client, method: str
) -> None:
    stream = client.begin(method, ("grpc-timeout", "50m"), ("x-request-id", f"late-{method}"))
    client.send(stream, framed(REQUEST)[:-1])
    answer = client.finish(stream)
    assert (answer.status, answer.text) == (4, EXPIRED)
    assert "status=499" in service.logged(f"late-{method}")
    assert tensor_of(client.call("ModelInfer", REQUEST)).tobytes() == EVEN.tobytes()


def test_a_message_between_which_and_the_next_the_time_passes(client: Client) -> None:
    stream = client.begin("ModelStreamInfer", ("grpc-timeout", "1S"))
    client.send(stream, framed(REQUEST))
    assert len(client.wait(stream, 1)) == 1
    answer = client.finish(stream)
    assert (answer.status, answer.text) == (4, EXPIRED)


def test_watch_ends_at_its_deadline(client: Client) -> None:
    stream = client.begin(f"/{HEALTH}/Watch", ("grpc-timeout", "200000u"))
    client.send(stream, framed(b""), ends=True)
    assert client.finish(stream).status == 4
    assert len(client.answers[stream].messages) == 1


def test_an_answer_that_is_not_read_in_time(service: Service) -> None:
    """It is reset, as half a message cannot be followed by a status."""
    nbytes = 4 << 20
    request = infer_request(document(tensor("FP32", [nbytes // 4])), bytes(nbytes))
    with connected(service) as client:
        client.state.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1 << 16})
        stream = client.begin("ModelInfer", ("grpc-timeout", "5S"))
        client.send(stream, framed(request), ends=True)
        answer = client.answers[stream]
        while not answer.is_ended:
            client.receive(acknowledges=False)
        assert answer.was_reset
        assert 0 < len(answer.content) <= 1 << 16
        assert client.call("ServerLive", b"").status == 0


@pytest.mark.parametrize("timeout", ["99999999H", "1M", "60S", "60000m", "60000000u"])
def test_enough_time(client: Client, timeout: str) -> None:
    answer = client.call("ModelInfer", REQUEST, ("grpc-timeout", timeout))
    assert tensor_of(answer).tobytes() == EVEN.tobytes()


@pytest.mark.parametrize("timeout", ["1", "S", "123456789S", "-1S", "1.5S", "1s", "1 S", "+1S"])
def test_invalid_grpc_timeout_is_refused(client: Client, timeout: str) -> None:
    answer = client.call("ServerReady", made("ServerReadyRequest"), ("grpc-timeout", timeout))
    assert answer.status == 3
    assert answer.text.startswith("grpc-timeout must be up to 8 digits and one of the units")
