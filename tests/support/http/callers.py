"""Callers that keep a service busy, and can tell which of their requests were lost."""

from __future__ import annotations

import contextlib
import http.client
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

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


class Caller(threading.Thread):
    """Sends requests one after the other until a connection is refused.

    ``patient`` callers keep their connection, others open one for each request.
    """

    def __init__(self, service: Service, nbytes: int, *, patient: bool) -> None:
        super().__init__(daemon=True)
        x = np.random.default_rng(nbytes).normal(0, 9, nbytes // 4).astype("<f4")
        self._payload, self._expected = x.tobytes(), np.rint(x).tobytes()
        self._descriptor = ieee754("float32", [x.size])
        self._service = service
        self._patient = patient
        self.calls: list[Call] = []
        self.is_refused = False

    def run(self) -> None:
        while not self.is_refused:
            try:
                connection = self._service.connection()
            except OSError:
                self.is_refused = True
                return
            with contextlib.closing(connection):
                while self._call(connection) and self._patient:
                    pass

    def _call(self, connection: http.client.HTTPConnection) -> bool:
        """Whether the connection is good for another call."""
        began, sent, fault = time.monotonic(), None, None
        connection.putrequest("POST", "/round")
        connection.putheader("Operator-Descriptor", self._descriptor)
        connection.putheader("Content-Length", str(len(self._payload)))
        try:
            connection.endheaders()
            sent = time.monotonic()
            connection.send(self._payload)
            reply = Reply.read(connection)
            if reply.status != 200 or reply.content != self._expected:
                fault = f"{reply.status} {reply.content[:200]!r}"
        except (OSError, http.client.HTTPException) as error:
            fault = repr(error)
        # A service that stops closes idle connections: no call has begun there.
        if sent or not self._patient:
            self.calls.append(Call(sent or began, time.monotonic(), fault))
        return fault is None and connection.sock is not None


def _stopped_under(callers: list[Caller], service: Service, seconds: float) -> float:
    """SIGTERM after so long under these callers: when it was sent."""
    for caller in callers:
        caller.start()
    time.sleep(seconds)
    stopped = time.monotonic()
    service.process.send_signal(signal.SIGTERM)
    for caller in callers:
        caller.join(30)
    assert service.process.wait(30) == 0, "\n".join(service.log)
    return stopped


def interrupted(service: Service, seconds: float) -> tuple[list[Call], int]:
    """The calls begun before a stop, and how many it met under way.

    The callers send tensors of all sizes, and every fourth opens a connection for each.
    """
    callers = [
        Caller(service, SIZES[turn // 4 % len(SIZES)], patient=turn % 4 != 3) for turn in range(16)
    ]
    stopped = _stopped_under(callers, service, seconds)
    begun = [call for caller in callers for call in caller.calls if call.sent < stopped]
    return begun, sum(call.over > stopped for call in begun)


def stopped(service: Service, count: int, seconds: float) -> Fates:
    """What becomes of so many callers that open a connection for each request."""
    callers = [Caller(service, SIZES[0], patient=False) for _ in range(count)]
    at = _stopped_under(callers, service, seconds)
    calls = [call for caller in callers for call in caller.calls]
    answered = [call.over for call in calls if call.fault is None]
    return Fates(
        len(answered),
        sum(over > at for over in answered),
        sum(caller.is_refused for caller in callers),
        Counter(call.fault for call in calls if call.fault is not None),
    )
