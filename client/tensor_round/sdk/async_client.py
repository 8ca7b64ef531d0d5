"""The asynchronous client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ..contract.differences.document import Differences
from ..contract.operators import RoundOperator, as_operator
from ..contract.progress import ProgressCallback
from ..contract.rounding import Rounding, RoundingName
from ..transport.factory import Cert, Verify
from .copyable import Copyable
from .execution import AnyDescriptor
from .output import Output
from .settings import Settings, with_environment

if TYPE_CHECKING:
    import httpx2

A = TypeVar("A")


class AsyncClient(Copyable):
    """:class:`~tensor_round.Client` for asyncio: the same arguments, and the same calls, awaited.

    ``transport`` is an ``httpx2.AsyncBaseTransport``; ``httpx2.ASGITransport`` calls an ASGI
    application in this process. A client belongs to one event loop.
    """

    def __init__(
        self,
        url: str | Sequence[str] | None = None,
        *,
        api_key: str | None = None,
        verify: Verify = True,
        cert: Cert | None = None,
        timeout: float | None = 30.0,
        retries: int = 3,
        connections: int = 4,
        tile_bytes: int = 64 << 20,
        headers: Mapping[str, str] | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
        digest: bool = False,
    ) -> None:
        urls, api_key = with_environment(url, api_key)
        options = timeout, retries, connections, tile_bytes, headers, transport, digest
        self._open(Settings(urls, api_key, verify, cert, *options), is_async=True)

    async def round(
        self,
        x: A,
        operator: RoundOperator | RoundingName | Rounding | None = None,
        *,
        rounding: RoundingName | Rounding | None = None,
        out: A | None = None,
        progress: bool | ProgressCallback = False,
    ) -> A:
        """Round every element of ``x``; see :meth:`Client.round`."""
        rounded: A = await self._session.round(x, as_operator(operator, rounding), out, progress)
        return rounded

    async def compare(self, x: object, *, progress: bool | ProgressCallback = False) -> Differences:
        """Where operators and directions differ on ``x``; see :meth:`Client.compare`."""
        return await self._session.compare(x, progress)

    async def execute(
        self,
        descriptor: AnyDescriptor,
        data: object,
        *,
        out: object = None,
        progress: bool | ProgressCallback = False,
    ) -> Output:
        """Execute an operator descriptor; see :meth:`Client.execute`."""
        return await self._session.execute(descriptor, data, out, progress)

    async def operators(self) -> dict[str, Any]:
        """The service's operators as JSON values: dialects, versions, modes, dtypes and limits."""
        return await self._session.document("/operators")

    async def conformance(self) -> dict[str, Any]:
        """The digests of the service's results for all patterns, by backend, as JSON values."""
        return await self._session.document("/conformance")

    async def ready(self) -> bool:
        """Whether the service, or any of several, is reachable and ready to serve."""
        return await self._session.ready()

    async def close(self) -> None:
        """Close every connection; later calls raise :class:`InvalidArgument`."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
