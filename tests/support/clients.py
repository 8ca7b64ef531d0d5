"""Both clients behind one face, so that a test of one is a test of the other."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import tensor_round as tr


class SteppedClient:
    """An :class:`AsyncClient` in a loop of its own, called as a :class:`Client` is."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self._client = tr.AsyncClient(*arguments, **options)

    def round(self, *arguments: Any, **options: Any) -> Any:
        return self._runner.run(self._client.round(*arguments, **options))

    def compare(self, *arguments: Any, **options: Any) -> tr.Differences:
        return self._runner.run(self._client.compare(*arguments, **options))

    def execute(self, *arguments: Any, **options: Any) -> tr.Output:
        return self._runner.run(self._client.execute(*arguments, **options))

    def operators(self) -> dict[str, Any]:
        return self._runner.run(self._client.operators())

    def conformance(self) -> dict[str, Any]:
        return self._runner.run(self._client.conformance())

    def ready(self) -> bool:
        return self._runner.run(self._client.ready())

    def close(self) -> None:
        self._runner.run(self._client.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        self.close()
        self._runner.close()


AnyClient = tr.Client | SteppedClient
KINDS: dict[str, type[AnyClient]] = {"sync": tr.Client, "async": SteppedClient}
