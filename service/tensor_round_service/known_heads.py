"""Heads of requests that came before: looked up, where a parser would find the same again.

Whoever sends tensors sends many alike, and the heads of such requests are the same to the
last byte, but for an id of the request's own. What the parser made of one is remembered by
its bytes. A head that carries a credential is not: that is to stay nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tensor_round.wire import native

from .answers import field_name
from .auth import CREDENTIALS
from .direct import Repeat

#: Heads that are remembered, and the longest: together no more than a MiB or two.
REMEMBERED_HEADS = 256
REMEMBERED_BYTES = 4 << 10

HEAD_END = b"\r\n\r\n"
#: A parser skips empty lines before a head: then the first that ends one need not be its end.
_LINE_ENDS = b"\r", b"\n"

_ID = field_name(native.REQUEST_ID)
#: The line of an id as our clients write it. A sane id holds no byte that could end the line.
_ID_START = b"\r\n%s: " % native.REQUEST_ID.encode()
_ID_LINE = re.compile(rb"\r\n[^:]+: (%s)(?=\r\n)" % native.SANE_REQUEST_ID.encode())
#: Fields of heads that are not remembered: secrets, what changes how a connection goes on, and
#: an id that is not written as ours are.
_NEVER = CREDENTIALS | {b"cookie", b"proxy-authorization", b"expect", b"upgrade", _ID}
#: What of a scope is its connection's, or its request's alone.
_OWN = frozenset({"server", "client", "scheme", "state", "extensions"})


@dataclass(frozen=True, slots=True)
class KnownHead:
    """What the parser made of a head: the request's scope, and how long its body is.

    ``repeat`` may take on a request that has it, once it is known what answers them.
    """

    scope: dict[str, Any]
    length: int
    repeat: Repeat | None = None


class KnownHeads:
    """The heads that came lately; the oldest makes room."""

    def __init__(self) -> None:
        self._known: dict[bytes, KnownHead] = {}
        #: What looks one up by its bytes, less its id.
        self.get = self._known.get

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._known)

    def forget(self, head: bytes) -> None:
        """Remember a head no more."""
        self._known.pop(head, None)

    def remember(self, head: bytes, known: KnownHead) -> None:
        """Remember a head, less its id."""
        if head not in self._known and len(self._known) >= REMEMBERED_HEADS:
            del self._known[next(iter(self._known))]
        self._known[head] = known


def lasting_scope(
    head: bytes, request_id: bytes, scope: Mapping[str, Any]
) -> dict[str, Any] | None:
    """What of a scope is the head's alone; None if that is not to be remembered.

    ``scope`` is the parser's, before an application has seen it: one that asks for keys takes
    them out.
    """
    headers = [field for field in scope["headers"] if not (request_id and field[0] == _ID)]
    if (
        len(head) > REMEMBERED_BYTES
        or not head.endswith(HEAD_END)
        or head.startswith(_LINE_ENDS)
        or scope["http_version"] != "1.1"
        or len(headers) + bool(request_id) != len(scope["headers"])
        or any(name in _NEVER for name, _ in headers)
    ):
        return None
    kept = {name: value for name, value in scope.items() if name not in _OWN}
    return {**kept, "headers": tuple(headers)}


def without_id(head: bytes) -> tuple[bytes, bytes]:
    """A head without the line of its request's id, and the id; none if it has no sane one."""
    start = head.find(_ID_START)
    line = _ID_LINE.match(head, start) if start >= 0 else None
    if line is None:
        return head, b""
    return head[:start] + head[line.end() :], line[1]
