"""The caller's address behind proxies, by the fields in which they say for whom they ask. No I/O.

The trusted ones are named as for uvicorn, whose helper is private: addresses, networks, or all.
"""

from __future__ import annotations

import ipaddress
import re

from .head import Head

#: The words for all peers, and for those of a Unix socket.
ALL, UNIX = "*", "unix:"
#: Proxies that are looked at in one request, from the last on.
MAX_PROXIES = 64

_X_FORWARDED_FOR, _FORWARDED = b"x-forwarded-for", b"forwarded"
#: An address, with a port if the brackets or dots tell it from the address.
_NODE = re.compile(
    r"\[([0-9A-Fa-f:.]{2,45})\](?::[\w.-]{1,16})?|([0-9.]{7,15})(?::[\w.-]{1,16})?"
    r"|([0-9A-Fa-f:.]{2,45})",
    re.ASCII,
)
#: A pair of RFC 7239, or none, and what ends it. It never backtracks.
_PAIR = re.compile(
    rb"[ \t]*+(?:([\w!#$%&'*+.^`|~-]++)=([\w!#$%&'*+.^`|~-]++|\"(?:[^\"\\]|\\.)*+\"))?+"
    rb"[ \t]*+([;,]|\Z)",
    re.DOTALL,
)


class TrustedProxies:
    """Peers that may say for whom they ask: comma-separated addresses, networks and words.

    Raises :class:`ValueError` for other text.
    """

    def __init__(self, text: str) -> None:
        words = {word.strip() for word in text.split(",")}
        self._trusts_all = ALL in words
        self._trusts_unix = self._trusts_all or UNIX in words
        self._networks = [ipaddress.ip_network(word) for word in words - {ALL, UNIX}]

    def client_of(self, head: Head, peer: str | None) -> str | None:
        """The address of who asks ``peer``, if that is trusted, and so on to the first who is not.

        ``peer`` is None on a Unix socket. A node that is no address ends the walk: the proxy that
        names it is the last one known.
        """
        client = peer
        is_trusted = self._trusts_unix if peer is None else self._trusts(peer)
        for node in reversed(_nodes(head) if is_trusted else ()):
            address = _address_in(node)
            if address is None:
                break
            client = address
            if not self._trusts(address):
                break
        return client

    def _trusts(self, text: str) -> bool:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:  # another ASGI server may give names to its peers
            return self._trusts_all
        return self._trusts_all or any(address in network for network in self._networks)


def _nodes(head: Head) -> list[str]:
    """The nodes that the last proxies name, in their order."""
    value = head.values.get(_X_FORWARDED_FOR)
    if value is not None:  # of both, the one that proxies add to by default
        return value.decode("latin-1").rsplit(",", MAX_PROXIES)[-MAX_PROXIES:]
    value = head.values.get(_FORWARDED)
    return [] if value is None else _forwarded_nodes(value)[-MAX_PROXIES:]


def _forwarded_nodes(value: bytes) -> list[str]:
    """The ``for`` of each element of ``Forwarded`` (RFC 7239), or nothing in its place.

    None at all if the value is malformed.
    """
    nodes: list[str] = []
    node: str | None = None
    at = 0
    while (pair := _PAIR.match(value, at)) is not None:
        name, text, end = pair.groups()
        if name is not None:
            node = node or ""
            if name.lower() == b"for":
                node = text.strip(b'"').decode("latin-1")
        if end != b";" and node is not None:
            nodes.append(node)
            node = None
        if not end:
            return nodes
        at = pair.end()
    return []


def _address_in(node: str) -> str | None:
    """The address of a node, without its port; None if it has none."""
    found = _NODE.fullmatch(node.strip())
    if found is None:
        return None
    try:
        address = ipaddress.ip_address(found[1] or found[2] or found[3])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
