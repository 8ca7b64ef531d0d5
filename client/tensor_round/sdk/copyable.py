"""What both clients have of their settings: the session, the repr, copies and pickles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Self

from ..transport.address import Address
from ..transport.asynchronous import Tasks
from ..transport.blocking import Threads
from ..transport.concurrency import Concurrency
from ..transport.factory import client_transport
from .common_headers import headers_from
from .session import Session
from .settings import Settings
from .tracing import open_session


class Copyable:
    """A client whose copies are new clients of the same settings."""

    _settings: Settings
    _session: Session

    def _open(self, settings: Settings, *, is_async: bool) -> None:
        """Make the session; nothing is connected yet."""
        concurrency: Concurrency = Tasks() if is_async else Threads()
        transport = client_transport(
            Address.parse_all(settings.url),
            headers_from(settings.api_key, settings.headers),
            settings.transport,
            concurrency,
            is_async=is_async,
            connections=settings.connections,
            verify=settings.verify,
            cert=settings.cert,
        )
        self._settings = settings
        self._session = open_session(transport, concurrency, settings)

    def __repr__(self) -> str:
        state = "closed" if self._session.is_closed else "open"
        return f"<tensor_round.{type(self).__name__} {self._settings.url} {state}>"

    def __copy__(self) -> Self:
        make: Callable[..., Self] = type(self)
        return make(self._settings.url, **self._settings.options())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        options = self._settings.picklable_options()
        return partial(type(self), **options), (self._settings.url,)
