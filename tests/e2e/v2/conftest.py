"""Whoever calls the service, by either transport."""

from __future__ import annotations

import pytest

from support.services.server import Service
from support.v2.callers import Caller
from support.v2.grpc_caller import GrpcCaller

UNPROXIED = pytest.mark.not_behind("nginx", reason="it takes HTTP/1.1 alone")


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
