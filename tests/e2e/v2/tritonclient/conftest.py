"""tritonclient by each transport that is installed, on the service of both.

Over gRPC it needs a protobuf that the suite's environment has not: `make test-interop` has it,
and runs this folder over both.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import warnings
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from support.services.server import Service
from support.v2.tritonclients import OverHttp, Tritonclient

Run = Callable[[Callable[[Any], Awaitable[Any]]], Any]
KINDS = [pytest.param(OverHttp(), id="http")]
if importlib.util.find_spec("grpc"):
    from support.v2.tritonclient_grpc import OverGrpc

    unproxied = pytest.mark.not_behind("nginx", reason="it takes HTTP/1.1 alone")
    KINDS.append(pytest.param(OverGrpc(), id="grpc", marks=unproxied))


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Tritonclient:
    made: Tritonclient = request.param
    return made


@pytest.fixture(scope="module")
def client(kind: Tritonclient, service: Service) -> Iterator[Any]:
    """The blocking client."""
    with kind.blocking(f"127.0.0.1:{service.port}") as made:
        yield made


@pytest.fixture
def run(kind: Tritonclient, service: Service) -> Run:
    """Runs calls on the asynchronous client."""

    async def connected(act: Callable[[Any], Awaitable[Any]]) -> Any:
        async with kind.asynchronous(f"127.0.0.1:{service.port}") as client:
            return await act(client)

    def run(act: Callable[[Any], Awaitable[Any]]) -> Any:
        try:
            return asyncio.run(connected(act))
        finally:
            # Over HTTP it asks after health and drops the answers unread; they would complain
            # elsewhere.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                gc.collect()

    return run
