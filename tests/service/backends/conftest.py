from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tensor_round_service.backends import Backend
from tensor_round_service.backends.cpu import NumpyBackend

#: Every backend that this machine can run; a device's is added where the device is.
FACTORIES: dict[str, Callable[[], Backend]] = {
    "numpy": NumpyBackend,
    "numpy-1-thread": lambda: NumpyBackend(threads=1),
    "numpy-3-threads": lambda: NumpyBackend(threads=3),
}


@pytest.fixture(scope="session", params=FACTORIES.values(), ids=list(FACTORIES))
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Each backend in turn."""
    backend: Backend = request.param()
    yield backend
    backend.close()
