"""What both clients have: their arguments, their session, and the transport below it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from ..contract.errors import InvalidArgument
from ..transport.address import LOCAL, Address
from ..transport.http import Connection, HTTPTransport
from .options import Arguments, headers_from, tls_context
from .session import Session

if TYPE_CHECKING:
    from ..transport.concurrency import Concurrency, Transport


class BaseClient:
    """What both clients have: their arguments and their session. Copies are new clients."""

    def __init__(self, arguments: Arguments, concurrency: Concurrency) -> None:
        """Make the session; nothing is connected yet."""
        transport = _transport(arguments, concurrency)
        self._arguments = arguments
        make_session = Session
        if "opentelemetry.trace" in sys.modules:
            from .tracing import TracedSession as make_session
        self._session = make_session(transport, concurrency, arguments)

    def __repr__(self) -> str:
        state = "closed" if self._session.is_closed else "open"
        return f"<tensor_round.{type(self).__name__} {self._arguments.url} {state}>"

    def __copy__(self) -> Self:
        make: Callable[..., Any] = type(self)
        copy: Self = make(self._arguments.url, **self._arguments.copied_options())
        return copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        make: Callable[..., Any] = type(self)
        options = self._arguments.copied_options(may_leave_process=True)
        return partial(make, **options), (self._arguments.url,)


def _transport(arguments: Arguments, concurrency: Concurrency) -> Transport:
    """The caller's transport, the engine's, or the client's own."""
    options, address = arguments.options, Address.parse(arguments.url)
    common = headers_from(options["api_key"], options["headers"])
    if arguments.transport is not None:
        if address.scheme == LOCAL:
            raise InvalidArgument("with a transport, url must be an http, https or unix URL")
        # Imported only here: the import of httpx2 takes as long as NumPy's.
        from ..transport.httpx2_transport import Httpx2Transport

        return Httpx2Transport(arguments.transport, address, common, is_async=concurrency.is_async)
    if address.scheme == LOCAL:
        from ..transport.local_transport import LocalTransport

        return LocalTransport(is_async=concurrency.is_async)
    tls = tls_context(options["verify"], options["cert"]) if address.scheme == "https" else None
    pool = concurrency.pool(lambda: Connection(address, tls, concurrency), options["connections"])
    return HTTPTransport(address, common, pool)
