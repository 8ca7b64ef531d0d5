"""The repr, the copies and the pickles of both clients, which their settings define."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Self

from .session import Session
from .settings import Settings


class Copyable:
    """A client whose copies are new clients of the same settings."""

    _settings: Settings
    _session: Session

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
