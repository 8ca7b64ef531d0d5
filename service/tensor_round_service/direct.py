"""What a server may offer beyond ASGI: a large body straight into memory, and out of it.

The seam between the routes, which know no server, and ``http_protocol``, which is one.
Under any other server a scope has no such extension, and bodies come as messages.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Protocol

#: The ASGI extension under which a request finds its :class:`DirectBody`.
EXTENSION = "tensor_round.direct_body"


class SenderGone(Exception):
    """The sender hung up before its body was whole; nobody is left to answer."""


class DirectBody(Protocol):
    """One request with a large body of known length."""

    @property
    def remaining(self) -> int:
        """Bytes of the body that are still to be received."""

    async def receive_into(self, target: memoryview) -> None:
        """Receive all that remains; ``target`` has just that size. Raises :class:`SenderGone`."""

    def begin_unbuffered(self) -> None:
        """Make every send wait until the kernel has taken the bytes."""

    def end_unbuffered(self) -> None:
        """Let small sends be gathered again."""


def direct_body(scope: MutableMapping[str, Any]) -> DirectBody | None:
    """The direct way of a request, where its server offers one."""
    found: DirectBody | None = scope.get("extensions", {}).get(EXTENSION)
    return found
