"""A large body behind a known head, on its way into the memory that is to be rounded.

No task waits for it, and no cycle of uvicorn's: the last byte to come has it answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor_round.errors import Draining, RequestRefused

from .direct import Repetition, SenderGone
from .http_exchange import Filling

if TYPE_CHECKING:
    from .http_known import KnownHttpProtocol


class Landing:
    """One request that is to be repeated; the server may treat it as the task that it is not."""

    def __init__(self, protocol: KnownHttpProtocol, repetition: Repetition, early: int) -> None:
        self._protocol = protocol
        self._repetition = repetition
        self._early = early
        self._filling = Filling(protocol, repetition.rest, self._end)
        # A transport may change its protocol only while it does not read.
        protocol.flow.pause_reading()
        protocol.transport.set_protocol(self._filling)
        protocol.flow.resume_reading()
        protocol.watch(self)

    @property
    def received(self) -> int:
        """Bytes of the body that have come so far."""
        return self._early + self._filling.filled

    def fail(self, refusal: RequestRefused) -> None:
        """Refuse the request: its sender is too slow, or the server leaves."""
        self._leave()
        if not self._repetition.answer(self._protocol.respond_last, refusal):
            self._protocol.transport.abort()

    def cancel(self) -> None:
        """What a task would be told that has to end."""
        self.fail(Draining("the service stopped before it was done", retry_after=1))

    def _leave(self) -> None:
        del self._filling  # it knows a method of this
        self._protocol.landed(self)

    def _end(self, gone: SenderGone | None) -> None:
        self._leave()
        if gone is not None:
            self._repetition.give_up()
        elif not self._repetition.answer(self._protocol.respond):
            self._protocol.transport.abort()
