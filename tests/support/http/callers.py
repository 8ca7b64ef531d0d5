"""Callers that keep a service busy, and can tell which of their requests were lost."""

from __future__ import annotations

import contextlib
import http.client
import signal
import threading
import time
from dataclasses import dataclass

import numpy as np

from support.http.native_form import ieee754
from support.services.server import Reply, Service

#: Bytes of a tensor: with the head, inline, on a thread and straight into memory, in tiles.
SIZES = (12, 40_000, 300_000, 4 << 20)


@dataclass(frozen=True)
class Call:
    """One request: when its head was sent, when it was over, and how if not well."""

    sent: float
    over: float
    fault: str | None


class Caller(threading.Thread):
    """Sends requests one after the other until the service takes no more.

    ``patient`` callers keep their connection, others open one for each request.
    """

    def __init__(self, service: Service, nbytes: int, *, patient: bool) -> None:
        super().__init__()
        x = np.random.default_rng(nbytes).normal(0, 9, nbytes // 4).astype("<f4")
        self._payload, self._expected = x.tobytes(), np.rint(x).tobytes()
        self._descriptor = ieee754("float32", [x.size])
        self._service = service
        self._patient = patient
        self.calls: list[Call] = []
        self.is_over = False

    def run(self) -> None:
        """Call until a connection is refused."""
        with contextlib.suppress(ConnectionError, FileNotFoundError):
            while not self.is_over:
                with contextlib.closing(self._service.connection()) as connection:
                    while self._call(connection) and self._patient:
                        pass

    def _call(self, connection: http.client.HTTPConnection) -> bool:
        """Whether the connection is good for another call."""
        connection.putrequest("POST", "/round")
        connection.putheader("Operator-Descriptor", self._descriptor)
        connection.putheader("Content-Length", str(len(self._payload)))
        connection.endheaders()
        sent = time.monotonic()
        fault = None
        try:
            connection.send(self._payload)
            reply = Reply.read(connection)
            if reply.status != 200 or reply.content != self._expected:
                fault = f"{reply.status} {reply.content[:200]!r}"
        except (OSError, http.client.HTTPException) as error:
            fault = repr(error)
        self.calls.append(Call(sent, time.monotonic(), fault))
        return fault is None and connection.sock is not None and not self.is_over


def busy_callers(service: Service, count: int = 16) -> list[Caller]:
    """So many callers at work, with tensors of all sizes, every fourth without patience."""
    callers = [
        Caller(service, SIZES[turn // 4 % len(SIZES)], patient=turn % 4 != 3)
        for turn in range(count)
    ]
    for caller in callers:
        caller.start()
    return callers


def interrupted(service: Service, seconds: float) -> tuple[list[Call], int]:
    """SIGTERM after so long: the calls begun before it, and how many it met under way."""
    callers = busy_callers(service)
    time.sleep(seconds)
    stopped = time.monotonic()
    service.process.send_signal(signal.SIGTERM)
    for caller in callers:
        caller.join(30)
    assert service.process.wait(30) == 0, "\n".join(service.log)
    begun = [call for caller in callers for call in caller.calls if call.sent < stopped]
    return begun, sum(call.over > stopped for call in begun)
