"""Every refusal through HTTP and back, by both clients, on a real socket."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tensor_round as tr
from support.clients import KINDS, AnyClient
from support.http.proxy import Fault, Proxy
from tensor_round.contract import errors

X = np.zeros(3, "<f4")
FAULTS = (tr.Fault(("input", "shape", 1), "too many"), tr.Fault((), "all wrong"))


def made(kind: type[errors.RequestRefused]) -> errors.RequestRefused:
    more: dict[str, Any] = {"retry_after": 3.0} if kind.transient else {}
    if kind is tr.TensorTooLarge:
        more = {"limit_bytes": 10, "got_bytes": 12}
    if kind is tr.MethodNotAllowed:
        more = {"allow": "GET, HEAD"}
    return kind(f"the {kind.code} detail", faults=FAULTS, **more)


def on_the_wire(refusal: errors.RequestRefused) -> bytes:
    body = json.dumps(errors.problem(refusal)).encode()
    lines = [
        f"HTTP/1.1 {refusal.status} {refusal.title}",
        "Content-Type: application/problem+json",
        f"Content-Length: {len(body)}",
        "X-Request-ID: the-service-s-own",
        "Connection: close",
    ]
    if refusal.retry_after is not None:
        lines.append(f"Retry-After: {refusal.retry_after:.0f}")
    if isinstance(refusal, tr.MethodNotAllowed):
        lines.append(f"Allow: {refusal.allow}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@pytest.mark.parametrize("client", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("kind", errors.REFUSALS.values(), ids=errors.REFUSALS)
def test_a_refusal_comes_back_as_itself(
    kind: type[errors.RequestRefused], client: type[AnyClient]
) -> None:
    sent = made(kind)
    with (
        Proxy(None, lambda _: Fault(answer=on_the_wire(sent))) as service,
        client(service.url, retries=0) as asking,
        pytest.raises(errors.RequestRefused) as caught,
    ):
        asking.round(X)
    got = caught.value
    assert type(got) is kind
    # What is not found is told with the path that was asked for.
    path = ': "/round"' if kind is errors.NotFound else ""
    assert (got.status, got.code, got.detail) == (kind.status, kind.code, sent.detail + path)
    assert (got.faults, got.retry_after) == (FAULTS, sent.retry_after)
    assert got.extensions() == sent.extensions()
    assert getattr(got, "allow", None) == getattr(sent, "allow", None)
    assert got.request_id == "the-service-s-own"


def test_a_client_s_own_errors_carry_the_id_that_was_sent() -> None:
    with Proxy(None, lambda _: Fault(answer=b"", cut_down=0)) as service:
        with tr.Client(service.url, retries=0) as client, pytest.raises(tr.ConnectionFailed) as got:
            client.round(X)
        assert got.value.request_id == service.seen[0].headers()["x-request-id"]


def test_the_whole_tree_is_at_the_top() -> None:
    branches = set(tr.TensorRoundError.__subclasses__())
    kinds: set[type[tr.TensorRoundError]] = {tr.TensorRoundError, tr.UnknownRefusal}
    for kind in kinds | branches | set(errors.REFUSALS.values()):
        assert getattr(tr, kind.__name__) is kind
        assert issubclass(kind, tr.TensorRoundError)
