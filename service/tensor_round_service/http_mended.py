"""uvicorn's HTTP protocol, mended where it forgets requests as a connection ends.

It closes as soon as the other side has stopped sending, with the answers still to come,
and tells only the request that came last that nobody is left, though an earlier one may
be the one that is being answered.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle


class MendedHttpProtocol(HttpToolsProtocol):
    """One connection; uvicorn's ``http=`` extension point."""

    _at_work: RequestResponseCycle | None = None

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection for the answer to a sender that is only done with sending."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            return False
        if not self.transport.can_write_eof():
            return False  # TLS cannot be closed by half, and says so in the log when asked to
        cycle.keep_alive = False
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request at work, which need not be the last that came; forget those behind."""
        if self._at_work is not None and not self._at_work.response_complete:
            self._at_work.disconnected = True
            self._at_work.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._at_work = cycle
        super()._start_asgi_task(cycle, app)
