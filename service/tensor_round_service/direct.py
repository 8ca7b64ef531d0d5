"""What a server may offer beyond ASGI: bodies straight into memory, answers straight out.

The seam between the routes, which know no server, and ``http_protocol``, which is one.
Under any other server a scope has no such extension, and all goes by messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Protocol

from tensor_round.errors import RequestRefused

#: From this size on a body is worth a change of protocol, and an answer a write of its own.
LARGE_BYTES = 64 << 10

#: The ASGI extension under which a request finds its :class:`DirectExchange`.
EXTENSION = "tensor_round.direct_exchange"

Header = tuple[bytes, bytes]
#: Told how many bytes are still to come, by whoever fills memory with a body.
Progress = Callable[[int], None]


class SenderGone(Exception):
    """The sender hung up before its body was whole; nobody is left to answer."""


Parts = Sequence[bytes | memoryview]
#: Says status, fields and parts of an answer. The parts' memory is free on return, or when the
#: task is done that it returns, and fails if they could not be sent.
Respond = Callable[[int, Sequence[Header], Parts], "asyncio.Task[None] | None"]


class Repetition(Protocol):
    """A request that is answered as one with the same head was; each is ended in one way."""

    #: Memory for what is still to come of its body.
    rest: memoryview

    def answer(self, respond: Respond, refusal: RequestRefused | None = None) -> bool:
        """Answer it, with a refusal if it will never be whole; whether that could be done."""

    def give_up(self) -> None:
        """Its sender is gone."""


#: Takes on a request by what has come of its body and by its id, if it has one; None if it is
#: of another kind.
Repeat = Callable[[memoryview, bytes], Repetition | None]


class DirectExchange(Protocol):
    """One request, and the way to its answer."""

    #: Answers of fewer bytes can be repeated.
    repeatable_bytes: int

    @property
    def remaining(self) -> int | None:
        """Bytes of the body that are still to be received; None where nobody said."""

    @property
    def failure(self) -> RequestRefused | None:
        """Why the body will never be whole, though its sender is still there."""

    def offer(self, repeat: Repeat) -> None:
        """Say what may take on further requests with this one's head."""

    def expect(self) -> None:
        """The body is wanted now: its sender has to keep the pace."""

    async def arrival(self, nbytes: int) -> None:
        """Wait until that many bytes have come, or all, without taking them."""

    def take(self, nbytes: int) -> bytes | None:
        """So many bytes, if they have come; then they count as received."""

    def take_into(self, target: memoryview) -> bool:
        """Fill memory of just the size of all that remains, if that has come."""

    async def receive_into(self, target: memoryview, progress: Progress | None = None) -> None:
        """Receive all that remains; ``target`` has just that size. Raises :class:`SenderGone`.

        ``progress`` may be told, after a read that was not the last.
        """

    async def respond(self, status: int, headers: Sequence[Header], parts: Parts) -> None:
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
