"""The options of a client: its arguments, checked, with defaults from the environment."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..contract.errors import InvalidArgument, InvalidArgumentType
from ..contract.version import __version__
from ..transport.exchange import Headers
from ..transport.factory import Cert, Verify

#: Field names are tokens (RFC 9110, 5.6.2). Values are visible ASCII, with inner spaces and tabs.
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", re.ASCII)
_VALUE = re.compile(r"([!-~]([ \t!-~]*[!-~])?)?", re.ASCII)
#: Headers that the client itself sets for each request.
_OWN = {
    "content-digest",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "operator-descriptor",
    "transfer-encoding",
    "want-content-digest",
    "x-request-id",
}


def headers_from(api_key: str | None, headers: Mapping[str, str] | None) -> Headers:
    """The headers of every request of a client; raises :class:`InvalidArgument`.

    No error message contains the key.
    """
    fields = {"User-Agent": f"tensor-round/{__version__}"}
    if api_key:
        if not _VALUE.fullmatch(api_key):
            raise InvalidArgument("the API key has characters that are not allowed in a header")
        fields["Authorization"] = f"Bearer {api_key}"
    known = {name.lower(): name for name in fields}
    for name, value in (headers or {}).items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise InvalidArgument(f"the header {name!r} has characters that are not allowed")
        if name.lower() in _OWN:
            raise InvalidArgument(f"the header {name} is set by the client itself")
        fields.pop(known.get(name.lower(), name), None)
        fields[name] = value
    return [(name.encode(), value.encode()) for name, value in fields.items()]


#: The types of each argument, and their description. A ``bool`` is not accepted as a number.
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "url": ((str,), "a string, or a sequence of strings"),
    "api_key": ((str, type(None)), "a string"),
    "verify": ((bool, str, Path, ssl.SSLContext), "True, False, a path or an ssl.SSLContext"),
    "cert": ((str, Path, tuple, type(None)), "a path, or a tuple of two and perhaps a password"),
    "timeout": ((int, float, type(None)), "seconds as a number, or None for no limit"),
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

    #: One URL, or several, separated by commas.
    url: str
    api_key: str | None
    verify: Verify
    cert: Cert | None
    timeout: float | None
    retries: int
    connections: int
    tile_bytes: int
    headers: Mapping[str, str] | None
    #: An httpx2 transport, blocking or asynchronous as the client is; None for the client's own.
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
            raise InvalidArgument("timeout must be more than 0 seconds, or None for no limit")
        if self.retries < 0:
            raise InvalidArgument("retries must be 0 or more")
        if self.connections < 1:
            raise InvalidArgument("connections must be 1 or more")
        if self.tile_bytes < 1:
            raise InvalidArgument("tile_bytes must be 1 or more")

    def options(self) -> dict[str, Any]:
        """The keyword arguments of a copy of the client, in this process.

        Raises :class:`InvalidArgumentType` if there is a transport, since each client closes its
        own.
        """
        if self.transport is not None:
            raise InvalidArgumentType(
                "a client with a transport of its own can be neither copied nor pickled"
            )
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "url"}

    def picklable_options(self) -> dict[str, Any]:
        """The keyword arguments of a copy in another process; raises as :meth:`options` does."""
        if isinstance(self.verify, ssl.SSLContext):
            raise InvalidArgumentType(
                "a client whose verify is an ssl.SSLContext cannot be pickled: give a path instead"
            )
        return self.options()


def with_environment(
    url: str | Sequence[str] | None, api_key: str | None
) -> tuple[str, str | None]:
    """Both arguments, with the defaults TENSOR_ROUND_URL and TENSOR_ROUND_API_KEY.

    URLs in a sequence are joined by commas. Raises :class:`InvalidArgument` if there is none.
    """
    if isinstance(url, Sequence) and not isinstance(url, str | bytes):
        for each in url:
            _check("url", each, *_KINDS["url"])
        url = ",".join(url) or ","
    found = os.environ.get("TENSOR_ROUND_URL") if url in (None, "") else url
    if found in (None, ""):
        raise InvalidArgument("no url was given, and TENSOR_ROUND_URL is not set")
    key = os.environ.get("TENSOR_ROUND_API_KEY") or None if api_key in (None, "") else api_key
    return found, key


def _check(name: str, value: object, kinds: tuple[type, ...], rule: str) -> None:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        # The value may be a secret: the message has its type only.
        raise InvalidArgumentType(f"{name} must be {rule}, got {type(value).__name__}")
