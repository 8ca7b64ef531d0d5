"""What a server may offer beyond ASGI: bodies straight into memory, answers straight out.

The seam between the routes, which know no server, and ``http_protocol``, which is one.
Under any other server a scope has no such extension, and all goes by messages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Protocol

from tensor_round.errors import RequestRefused

#: The ASGI extension under which a request finds its :class:`DirectExchange`.
EXTENSION = "tensor_round.direct_exchange"

Header = tuple[bytes, bytes]
#: Told how many bytes are still to come, by whoever fills memory with a body.
Progress = Callable[[int], None]


class SenderGone(Exception):
    """The sender hung up before its body was whole; nobody is left to answer."""


#: An ASGI application.
Application = Callable[..., Awaitable[None]]


class DirectExchange(Protocol):
    """One request, and the way to its answer."""

    #: Whoever may answer further requests with this one's head, if they come whole.
    again: Application | None

    @property
    def remaining(self) -> int | None:
        """Bytes of the body that are still to be received; None where nobody said."""

    @property
    def failure(self) -> RequestRefused | None:
        """Why the body will never be whole, though its sender is still there."""

    def expect(self) -> None:
        """The body is wanted now: its sender has to keep the pace."""

    async def arrival(self, nbytes: int) -> None:
        """Wait until that many bytes have come, or all, without taking them."""

    @property
    def whole_body(self) -> memoryview | None:
        """The body as it lies, if all of it is there and nothing of it was taken."""

    def take(self, nbytes: int) -> bytes | None:
        """So many bytes, if they have come; then they count as received."""

    def take_into(self, target: memoryview) -> bool:
        """Fill memory of just the size of all that remains, if that has come."""

    async def receive_into(self, target: memoryview, progress: Progress | None = None) -> None:
        """Receive all that remains; ``target`` has just that size. Raises :class:`SenderGone`.

        ``progress`` may be told, after a read that was not the last.
        """

    async def respond(
        self, status: int, headers: Sequence[Header], parts: Sequence[bytes | memoryview]
    ) -> None:
        """Answer; on return nothing refers to the parts' memory any more.

        ``headers`` state the parts' length and hold no byte that ends a line. Raises
        :class:`RuntimeError` where an answer has begun already.
        """

    def hang_up(self) -> None:
        """End the connection, where no answer can be given or none can be ended."""


def direct_exchange(scope: MutableMapping[str, Any]) -> DirectExchange | None:
    """The direct way of a request, where its server offers one."""
    found: DirectExchange | None = scope.get("extensions", {}).get(EXTENSION)
    return found


#: An application's ``is_prompt``: whether the request of a scope, come whole, may be answered
#: in the turn of the event loop in which it came, outside any task.
IsPrompt = Callable[[MutableMapping[str, Any]], bool]


def never_prompt(_scope: MutableMapping[str, Any]) -> bool:
    """Of an application that does not say."""
    return False
