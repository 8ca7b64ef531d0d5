"""What both clients are made from."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.metadata import version

from .errors import InvalidArgument
from .exchange import Headers
from .transport.address import Address

#: Tokens (RFC 9110, 5.6.2), and visible ASCII with spaces within.
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", re.ASCII)
_VALUE = re.compile(r"([!-~]([ \t!-~]*[!-~])?)?", re.ASCII)
#: Made by the client itself, for each request.
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


def address_from(url: str | None) -> Address:
    """The address of ``url``, or of TENSOR_ROUND_URL; raises :class:`InvalidArgument`."""
    url = url or os.environ.get("TENSOR_ROUND_URL")
    if not url:
        raise InvalidArgument("no url was given, and TENSOR_ROUND_URL is not set")
    return Address.parse(url)


def headers_from(api_key: str | None, headers: Mapping[str, str] | None) -> Headers:
    """The headers that every request of a client carries; raises :class:`InvalidArgument`.

    The key is ``api_key``, or that of TENSOR_ROUND_API_KEY. No error shows it.
    """
    fields = {"User-Agent": f"tensor-round/{version('tensor-round')}"}
    key = api_key or os.environ.get("TENSOR_ROUND_API_KEY")
    if key:
        if not _VALUE.fullmatch(key):
            raise InvalidArgument("the API key has characters that no header can have")
        fields["Authorization"] = f"Bearer {key}"
    known = {name.lower(): name for name in fields}
    for name, value in (headers or {}).items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise InvalidArgument(f"the header {name!r} has characters that no header can have")
        if name.lower() in _OWN:
            raise InvalidArgument(f"the header {name} is the client's own to send")
        fields.pop(known.get(name.lower(), name), None)
        fields[name] = value
    return [(name.encode(), value.encode()) for name, value in fields.items()]
