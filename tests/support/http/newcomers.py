"""Callers that open a connection for each request, and what became of it when a service stops."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from support.http.native_form import ieee754
from support.services.server import Service

X = np.array([0.5, 1.5, -2.5], "<f4")
_REQUEST = (
    f"POST /round HTTP/1.1\r\nHost: x\r\nOperator-Descriptor: {ieee754('float32', [3])}\r\n"
    f"Content-Length: {X.nbytes}\r\n\r\n"
).encode() + X.tobytes()
_ROUNDED = np.rint(X).tobytes()


@dataclass
class Fates:
    """What became of connections: answered right, refused before they were made, or lost."""

    answered: int = 0
    #: Of those, the ones with an answer after the signal.
    answered_late: int = 0
    refused: int = 0
    #: What is lost had a connection.
    lost: Counter[str] = field(default_factory=Counter)

    def __iadd__(self, other: Fates) -> Fates:
        self.answered += other.answered
        self.answered_late += other.answered_late
        self.refused += other.refused
        self.lost += other.lost
        return self


class _Newcomer(threading.Thread):
    """Calls until a connection is refused."""

    def __init__(self, service: Service) -> None:
        super().__init__(daemon=True)
        self._service = service
        self.over: list[float] = []
        self.lost: list[str] = []
        self.is_refused = False

    def run(self) -> None:
        while not self.is_refused and len(self.lost) < 3:
            try:
                sock = self._service.connect(20)
            except OSError:
                self.is_refused = True
                return
            with sock:
                if (fault := self._fault(sock)) is None:
                    self.over.append(time.monotonic())
                else:
                    self.lost.append(fault)

    def _fault(self, sock: socket.socket) -> str | None:
        """Why the request on a new connection has no right answer; None if it has one."""
        received = b""
        try:
            sock.sendall(_REQUEST)
            while not received.endswith(_ROUNDED):
                more = sock.recv(1 << 16)
                if not more:
                    return f"the end after {received[:40]!r}"
                received += more
        except OSError as error:
            return repr(error)
        return None if received.startswith(b"HTTP/1.1 200 ") else repr(received[:40])


def stopped(service: Service, callers: int, seconds: float) -> Fates:
    """SIGTERM after so long under so many callers."""
    crowd = [_Newcomer(service) for _ in range(callers)]
    for caller in crowd:
        caller.start()
    time.sleep(seconds)
    at = time.monotonic()
    service.process.send_signal(signal.SIGTERM)
    for caller in crowd:
        caller.join(30)
    assert service.process.wait(30) == 0, "\n".join(service.log)
    over = [when for caller in crowd for when in caller.over]
    return Fates(
        len(over),
        sum(when > at for when in over),
        sum(caller.is_refused for caller in crowd),
        Counter(fault for caller in crowd for fault in caller.lost),
    )
