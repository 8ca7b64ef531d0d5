"""The headers that go with every request of a client."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..errors import InvalidArgument
from ..messages.request import Headers
from ..version import __version__

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


def headers_from(api_key: str | None, headers: Mapping[str, str] | None) -> Headers:
    """The headers that every request of a client carries; raises :class:`InvalidArgument`.

    No error shows the key.
    """
    fields = {"User-Agent": f"tensor-round/{__version__}"}
    if api_key:
        if not _VALUE.fullmatch(api_key):
            raise InvalidArgument("the API key has characters that no header can have")
        fields["Authorization"] = f"Bearer {api_key}"
    known = {name.lower(): name for name in fields}
    for name, value in (headers or {}).items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise InvalidArgument(f"the header {name!r} has characters that no header can have")
        if name.lower() in _OWN:
            raise InvalidArgument(f"the header {name} is the client's own to send")
        fields.pop(known.get(name.lower(), name), None)
        fields[name] = value
    return [(name.encode(), value.encode()) for name, value in fields.items()]
