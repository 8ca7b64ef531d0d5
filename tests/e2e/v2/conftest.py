"""A service of both transports, and whoever calls it by either."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.services.fronts import Front
from support.services.server import Service, started
from support.v2.callers import Caller
from support.v2.grpc_caller import GrpcCaller

UNPROXIED = pytest.mark.not_behind("nginx", reason="it takes HTTP/1.1 alone")


@pytest.fixture(scope="session")
def service(front: Front) -> Iterator[Service]:
    """The session's service with both transports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Service, "launch", staticmethod(started))
        running = front("--max-tensor-bytes", "320MiB")
    with running:
        yield running


@pytest.fixture(
    params=[
        pytest.param(Caller, id="http"),
        pytest.param(GrpcCaller, id="grpc", marks=UNPROXIED),
    ]
)
def call(request: pytest.FixtureRequest) -> type[Caller]:
    """How a service is called; a test with a service of its own says which."""
    kind: type[Caller] = request.param
    return kind


@pytest.fixture
def caller(call: type[Caller], service: Service) -> Caller:
    return call(service)
