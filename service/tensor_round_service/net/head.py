"""What a request's head says in every version of HTTP. No I/O."""

from __future__ import annotations

import ipaddress
import re
from http import HTTPMethod
from typing import Protocol
from urllib.parse import unquote_to_bytes

from tensor_round.contract.errors import RequestRefused

Header = tuple[bytes, bytes]

#: The methods that the service knows: 405 where it has another, and not 501.
METHODS: frozenset[str] = frozenset(HTTPMethod) | {"QUERY"}

#: A name or an IPv4 address, or what brackets must have, and a port (RFC 3986, section 3.2). Some
#: clients of Unix sockets send an empty name.
_AUTHORITY = re.compile(
    r"(?:((?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)|\[([^]]+)])(?::(\d*))?", re.A
)
_MAX_PORT, _PORT_DIGITS = 65535, 5
TRACEPARENT = b"traceparent"
#: A later version than 00 may have further parts (Trace Context, section 3.2.4).
_LAWFUL_TRACEPARENT = re.compile(
    rb"(?!ff|00.{54})[0-9a-f]{2}(-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2})"
    rb"(?:-[^,]*)?"
)


class MalformedRequest(Exception):
    """The bytes are not HTTP/1.1: the response is 400, and the connection closes."""


class Head(Protocol):
    """What a request's head says in every version of HTTP.

    ``target`` is the request's, ``path`` the decoded path in it, and ``query`` the query as it was
    sent. ``fields`` are in their order, names in lower case. ``values`` maps each name to its
    value; values of repeated fields are joined with commas, and ``repeated`` holds the names of
    such fields (RFC 9110, section 5.3). ``authority`` is the host of the request, with its port if
    given, or None. ``length`` is the body's length in bytes, None if it is not known. ``fault`` is
    the refusal of a request that is refused on any path; its body is not read.
    """

    method: str
    target: bytes
    path: str
    query: bytes
    version: str
    length: int | None
    fields: list[Header]
    values: dict[bytes, bytes]
    repeated: frozenset[bytes]
    authority: bytes | None
    fault: RequestRefused | None


def join_repeated(fields: list[Header], values: dict[bytes, bytes]) -> frozenset[bytes]:
    """Join the values of repeated lines in ``values``; return the names of such lines."""
    lines: dict[bytes, list[bytes]] = {}
    for name, value in fields:
        lines.setdefault(name, []).append(value)
    repeated = {name: b", ".join(some) for name, some in lines.items() if len(some) > 1}
    values.update(repeated)
    return frozenset(repeated)


def split_target(target: bytes) -> tuple[str, bytes]:
    """The decoded path of a target in origin form, and its query."""
    raw_path, _, query = target.partition(b"#")[0].partition(b"?")
    return unquote_to_bytes(raw_path).decode("utf-8", "replace"), query


def expects_continue(head: Head) -> bool:
    """Whether the client waits for 100 Continue before it sends the body."""
    return head.version != "1.0" and head.values.get(b"expect", b"").lower() == b"100-continue"


def traceparent_of(head: Head | None) -> str | None:
    """The request's ``traceparent``, as one of version 00; None if it is missing or invalid."""
    value = None if head is None else head.values.get(TRACEPARENT)
    found = None if value is None else _LAWFUL_TRACEPARENT.fullmatch(value)
    return None if found is None else f"00{found[1].decode()}"


def host_of(authority: str) -> str | None:
    """The host of an authority, in lower case; None if it is no authority."""
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        return None
    name, address, port = match.groups("")
    port = port.lstrip("0")
    if len(port) > _PORT_DIGITS or int(port or 0) > _MAX_PORT:
        return None
    if address and not (":" in address and is_address(address)):
        return None
    return (address or name).lower().rstrip(".")


def is_address(host: str) -> bool:
    """Whether a host is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
