"""Both clients behind one face, so that a test of one is a test of the other; and a load."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

import tensor_round as tr
from support.http.proxy import Fault, Proxy


class SteppedClient:
    """An :class:`AsyncClient` in a loop of its own, called as a :class:`Client` is."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self._client = tr.AsyncClient(*arguments, **options)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)
        return lambda *arguments, **options: self._runner.run(method(*arguments, **options))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        self.close()
        self._runner.close()


AnyClient = tr.Client | SteppedClient
KINDS: dict[str, type[AnyClient]] = {"sync": tr.Client, "async": SteppedClient}


@contextmanager
def answered(kind: type[AnyClient], response: Fault, **options: Any) -> Iterator[AnyClient]:
    """A client that does not try again, and gets this response to all that it asks."""
    with Proxy(None, lambda _: response) as proxy, kind(proxy.url, retries=0, **options) as client:
        yield client


class Load:
    """Threads that round one tensor again and again, each with a client of these options.

    Between two calls each waits for ``pause`` seconds.
    """

    def __init__(
        self, url: str, count: int, x: np.ndarray[Any, Any], *, pause: float = 0, **options: Any
    ) -> None:
        self._url, self._x, self._expected = url, x, np.rint(x).tobytes()
        self._pause = pause
        self._options = options
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._call, args=(n,)) for n in range(count)]
        #: Right results of each caller, and what the others were.
        self.right, self.faults = [0] * count, list[str]()

    def _call(self, caller: int) -> None:
        with tr.Client(self._url, **self._options) as client:
            while not self._is_over.wait(self._pause):
                try:
                    is_right = client.round(self._x).tobytes() == self._expected
                except Exception as error:
                    self.faults.append(f"{type(error).__name__}: {error}")
                else:
                    self.right[caller] += is_right
                    if not is_right:
                        self.faults.append("wrong")

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *fault: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the load; services may stop only after this."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(60)
