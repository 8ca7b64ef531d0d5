"""tritonclient by each transport that is installed, on the service of both.

Over gRPC it needs a protobuf that the suite's environment has not: `make test-interop` has it,
and runs this folder over both.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.services.server import Service
from support.v2.tritonclients import OverHttp

#: Makes a call with a client that is given to it.
Ask = Callable[[Callable[[Any], Any]], Any]
KINDS = [
    pytest.param(OverHttp(), id="http"),
    pytest.param(OverHttp(binary_data=False), id="json"),
]
if importlib.util.find_spec("grpc"):
    from support.v2.tritonclient_grpc import OverGrpc

    unproxied = pytest.mark.not_behind("nginx", reason="it takes HTTP/1.1 alone")
    KINDS.append(pytest.param(OverGrpc(), id="grpc", marks=unproxied))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> OverHttp:
    made: OverHttp = request.param
    return made


@pytest.fixture
def client(kind: OverHttp, service: Service) -> Iterator[Any]:
    """The blocking client."""
    with kind.blocking(f"127.0.0.1:{service.port}") as made:
        yield made


@pytest.fixture(params=["blocking", "asyncio"])
def ask(request: pytest.FixtureRequest, kind: OverHttp, service: Service, client: Any) -> Ask:
    """Either client: they share no implementation."""

    async def connected(call: Callable[[Any], Any]) -> Any:
        async with kind.asynchronous(f"127.0.0.1:{service.port}") as made:
            return await call(made)

    def ask(call: Callable[[Any], Any]) -> Any:
        if request.param == "blocking":
            return call(client)
        try:
            return asyncio.run(connected(call))
        finally:
            # Over HTTP it asks after health and drops the answers unread; they would complain
            # elsewhere.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                gc.collect()

    return ask
