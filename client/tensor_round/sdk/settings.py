"""What a client is made from: checked, with the environment's defaults, and fit to be copied."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..errors import InvalidArgument, InvalidArgumentType
from ..transport.tls import Cert, Verify

#: What each argument may be, where not everything may; ``bool`` is no number here.
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "url": ((str,), "a string"),
    "api_key": ((str, type(None)), "a string"),
    "verify": ((bool, str, Path, ssl.SSLContext), "True, False, a path or an ssl.SSLContext"),
    "cert": ((str, Path, tuple, type(None)), "a path, or a tuple of two and perhaps a password"),
    "timeout": ((int, float, type(None)), "seconds as a number, or None for no end"),
    "retries": ((int,), "an integer"),
    "connections": ((int,), "an integer"),
    "tile_bytes": ((int,), "an integer"),
    "headers": ((Mapping, type(None)), "a mapping of strings to strings"),
    "digest": ((bool,), "True or False"),
}


@dataclass(frozen=True, slots=True, repr=False)
class Settings:
    """The arguments of a client; see :class:`~tensor_round.Client`.

    Raises :class:`InvalidArgument`, which is an :class:`InvalidArgumentType` for a wrong type.
    """

    url: str
    api_key: str | None
    verify: Verify
    cert: Cert | None
    timeout: float | None
    retries: int
    connections: int
    tile_bytes: int
    headers: Mapping[str, str] | None
    #: Of the kind that the client calls.
    transport: Any
    digest: bool

    def __post_init__(self) -> None:
        for name, (kinds, rule) in _KINDS.items():
            _check(name, getattr(self, name), kinds, rule)
        for part in self.cert if isinstance(self.cert, tuple) else ():
            _check("cert", part, (str, Path), _KINDS["cert"][1])
        for pair in (self.headers or {}).items():
            for part in pair:
                _check("headers", part, (str,), _KINDS["headers"][1])
        if self.timeout is not None and not self.timeout > 0:
            raise InvalidArgument("timeout must be more than 0 seconds, or None for no end")
        if self.retries < 0:
            raise InvalidArgument("retries must be 0 or more")
        if self.connections < 1:
            raise InvalidArgument("connections must be 1 or more")
        if self.tile_bytes < 1:
            raise InvalidArgument("tile_bytes must be 1 or more")

    def options(self) -> dict[str, Any]:
        """The keyword arguments, for a client like this one in this process.

        Raises :class:`InvalidArgumentType` with a transport, which one client closes.
        """
        if self.transport is not None:
            raise InvalidArgumentType(
                "a client with a transport of its own can be neither copied nor pickled"
            )
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "url"}

    def portable_options(self) -> dict[str, Any]:
        """:meth:`options`, for a client like this one in another process."""
        if isinstance(self.verify, ssl.SSLContext):
            raise InvalidArgumentType(
                "a client whose verify is an ssl.SSLContext cannot be pickled: give a path instead"
            )
        return self.options()


def with_environment(url: str | None, api_key: str | None) -> tuple[str, str | None]:
    """Both, from TENSOR_ROUND_URL and TENSOR_ROUND_API_KEY where they are not given.

    Raises :class:`InvalidArgument` where no URL is known.
    """
    found = os.environ.get("TENSOR_ROUND_URL") if url in (None, "") else url
    if found in (None, ""):
        raise InvalidArgument("no url was given, and TENSOR_ROUND_URL is not set")
    key = os.environ.get("TENSOR_ROUND_API_KEY") or None if api_key in (None, "") else api_key
    return found, key


def _check(name: str, value: object, kinds: tuple[type, ...], rule: str) -> None:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        # The value may be a key: its type alone is told.
        raise InvalidArgumentType(f"{name} must be {rule}, got {type(value).__name__}")
