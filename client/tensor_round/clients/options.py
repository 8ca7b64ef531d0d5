"""The options of a client: its arguments, checked, with defaults from the environment.

Also what is made of them: the headers of every request, and the TLS context.
"""

from __future__ import annotations

import inspect
import os
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import Any, TypedDict, TypeVar, cast

from ..contract.errors import InvalidArgument, InvalidArgumentType
from ..contract.operators.operator import plain
from ..contract.quoting import suggestion
from ..transport.exchange import Headers

#: The service of a client that is given no URL, and finds none in TENSOR_ROUND_URL.
DEFAULT_URL = "http://127.0.0.1:8000"

#: As in httpx and requests: True, False, a file or folder of certificates, or a context.
Verify = bool | str | Path | ssl.SSLContext
#: A file with certificate and key, or a tuple of their two files and perhaps the key's password.
Cert = str | Path | tuple[str | Path, str | Path] | tuple[str | Path, str | Path, str]

F = TypeVar("F", bound=Callable[..., None])

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
    from ..contract.version import __version__  # reads files

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


class Options(TypedDict, total=False):
    """The options of a client, by keyword; :class:`~tensor_round.Client` describes them."""

    api_key: str | None
    verify: Verify
    cert: Cert | None
    timeout: float | None
    retries: int
    connections: int
    tile_bytes: int
    headers: Mapping[str, str] | None
    digest: bool


_ONE_URL = "a string: put a balancer in front of several services (docs/deploy.md)"
#: The default of each option, its types, and their description. A ``bool`` is not accepted as a
#: number.
_OPTIONS: dict[str, tuple[object, tuple[type, ...], str]] = {
    "api_key": (None, (str, NoneType), "a string"),
    "verify": (True, (bool, str, Path, ssl.SSLContext), "True, False, a path or an ssl.SSLContext"),
    "cert": (
        None,
        (str, Path, tuple, NoneType),
        "a path, or a tuple of two and perhaps a password",
    ),
    "timeout": (30.0, (int, float, NoneType), "seconds as a number, or None for no limit"),
    "retries": (3, (int,), "an integer"),
    "connections": (4, (int,), "an integer"),
    "tile_bytes": (64 << 20, (int,), "an integer"),
    "headers": (None, (Mapping, NoneType), "a mapping of strings to strings"),
    "digest": (False, (bool,), "True or False"),
}
DEFAULTS = cast(Options, {name: default for name, (default, _, _) in _OPTIONS.items()})


@dataclass(frozen=True, slots=True, repr=False)
class Arguments:
    """The arguments of a client, checked and complete.

    ``transport`` is an httpx2 transport,
    blocking or asynchronous as the client is; None for the client's own.
    """

    url: str
    options: Options
    transport: Any

    @classmethod
    def of(cls, url: str | None, transport: Any, given: Options) -> Arguments:
        """The arguments of a call, with the defaults of options that are not given.

        Raises :class:`InvalidArgument`, which is an :class:`InvalidArgumentType` for a wrong type.
        """
        if unknown := given.keys() - DEFAULTS.keys():
            name = min(unknown)
            raise InvalidArgumentType(f"there is no option {name}{suggestion(name, DEFAULTS)}")
        found, key = with_environment(url, given.get("api_key"))
        numbers = {name: plain(value) for name, value in given.items()}
        options = cast(Options, {**DEFAULTS, **numbers, "api_key": key})
        _check("url", found, (str,), _ONE_URL)
        for name, (_, kinds, rule) in _OPTIONS.items():
            _check(name, options.get(name), kinds, rule)
        if isinstance(cert := options["cert"], tuple):
            for part in cert:
                _check("cert", part, (str, Path), _OPTIONS["cert"][2])
            if len(cert) not in (2, 3):
                rule = _OPTIONS["cert"][2]
                raise InvalidArgumentType(f"cert must be {rule}, got a tuple of {len(cert)}")
        for part in chain(*(options["headers"] or {}).items()):
            _check("headers", part, (str,), _OPTIONS["headers"][2])
        if options["timeout"] is not None and not options["timeout"] > 0:
            raise InvalidArgument("timeout must be more than 0 seconds, or None for no limit")
        if options["retries"] < 0:
            raise InvalidArgument("retries must be 0 or more")
        if options["connections"] < 1:
            raise InvalidArgument("connections must be 1 or more")
        if options["tile_bytes"] < 1:
            raise InvalidArgument("tile_bytes must be 1 or more")
        return cls(found, options, transport)

    def copied_options(self, *, may_leave_process: bool = False) -> Options:
        """The options of a copy of the client, in this process or also in another.

        Raises :class:`InvalidArgumentType` if there is a transport, since each client closes its
        own, and for another process if there is an ``ssl.SSLContext``.
        """
        if may_leave_process and isinstance(self.options["verify"], ssl.SSLContext):
            raise InvalidArgumentType(
                "a client whose verify is an ssl.SSLContext cannot be pickled: give a path instead"
            )
        if self.transport is not None:
            raise InvalidArgumentType(
                "a client with a custom transport can be neither copied nor pickled"
            )
        return self.options


def names_options(init: F) -> F:
    """Have ``help`` and :mod:`inspect` show each option of a constructor, with its default."""
    *own, _ = inspect.signature(init).parameters.values()
    types = Options.__annotations__
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=types[name].__forward_arg__,
        )
        for name, default in DEFAULTS.items()
    ]
    init.__dict__["__signature__"] = inspect.Signature([*own, *options], return_annotation="None")
    return init


def with_environment(url: str | None, api_key: str | None) -> tuple[str, str | None]:
    """Both arguments, with the defaults TENSOR_ROUND_URL and TENSOR_ROUND_API_KEY."""
    found = url or os.environ.get("TENSOR_ROUND_URL") or DEFAULT_URL
    key = os.environ.get("TENSOR_ROUND_API_KEY") or None if api_key in (None, "") else api_key
    return found, key


def _check(name: str, value: object, kinds: tuple[type, ...], rule: str) -> None:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        # The value may be a secret: the message has its type only.
        raise InvalidArgumentType(f"{name} must be {rule}, got {type(value).__name__}")


def tls_context(verify: Verify, cert: Cert | None) -> ssl.SSLContext:
    """The context that verifies the service's certificate and presents the client's.

    Raises :class:`InvalidArgument` if a file cannot be read.
    """
    import httpx2  # only here: its import takes as long as NumPy's

    given: object = verify
    try:
        if isinstance(verify, bool):
            context = httpx2.create_ssl_context(verify)
        elif isinstance(verify, ssl.SSLContext):
            context = verify
        elif Path(verify).is_dir():
            context = ssl.create_default_context(capath=verify)
        else:
            context = ssl.create_default_context(cafile=verify)
        given = cert[:2] if isinstance(cert, tuple) else cert
        if isinstance(cert, tuple):
            context.load_cert_chain(*cert)
        elif cert is not None:
            context.load_cert_chain(cert)
    except OSError as error:
        files = map(str, given if isinstance(given, tuple) else (given,))
        raise InvalidArgument(
            f"verify or cert cannot be used: {' and '.join(files)}: {error.strerror or error}"
        ) from error
    return context
