"""The end of a connection whose request was answered before it was read.

Closed at once, the kernel would answer what the sender is still sending with a
reset, and the sender would never see why it was refused. So our side is closed,
what still comes is dropped for a while, and then the connection ends.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .http_protocol import DirectHttpProtocol

SECONDS = 2.0
#: Before anything is dropped: whoever reads while it sends has heard the answer by then and
#: stopped, and what it did not send need not be received.
HEARING_SECONDS = 0.1
BYTES = 8 << 20

#: Where what nobody wants goes; one for all, as nobody ever reads it.
_DROPPED = memoryview(bytearray(256 << 10))


class Lingering(asyncio.BufferedProtocol):
    """Has the transport until its sender is done, or has sent too much for too long."""

    def __init__(self, protocol: DirectHttpProtocol) -> None:
        self._protocol = protocol
        self._transport = protocol.transport
        self._left = BYTES
        protocol.is_lingering = True
        self._timer = protocol.loop.call_later(SECONDS, protocol.close)
        protocol.flow.pause_reading()
        self._transport.set_protocol(self)
        if self._transport.can_write_eof():  # TLS cannot
            self._transport.write_eof()
        protocol.loop.call_later(HEARING_SECONDS, self._drop)

    def _drop(self) -> None:
        if not self._transport.is_closing():
            self._protocol.flow.resume_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go, to be forgotten."""
        return _DROPPED

    def buffer_updated(self, nbytes: int) -> None:
        """Count what was dropped."""
        self._left -= nbytes
        if self._left < 0:
            self._protocol.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, for the connection's owner too."""
        self._timer.cancel()
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        """As the connection's owner would."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """As the connection's owner would."""
        self._protocol.resume_writing()
