"""The headers of every request of a client."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..contract.errors import InvalidArgument
from ..contract.version import __version__
from ..transport.exchange import Headers

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
