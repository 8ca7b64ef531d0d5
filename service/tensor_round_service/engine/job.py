"""The job of one request: its memory, its times, and the backend that executed it."""

from __future__ import annotations

from typing import Protocol

from tensor_round.contract.call import Call

from ..backends import Bytes
from .memory import MIN_POOLED_BYTES, Memory
from .overlap import Overlap
from .threads import Caller

#: The phases of a request, which are measured.
PHASES = ("receive", "queue", "execute", "send")


class Observer(Protocol):
    """Observes the end of jobs that had a response, be it sent or not."""

    def job_ended(self, job: Job) -> None:
        """Read the facts of a job; its memory has been released."""


class Job:
    """Owns the memory of one request, from before its body is read until the response is sent.

    :meth:`end` returns all memory once. Its buffers serve other requests only if no thread may
    still write into them and the kernel does not read from them any more.
    """

    __slots__ = (
        "_buffers",
        "_memory",
        "_reserved",
        "began",
        "call",
        "caller",
        "dialect",
        "execute_seconds",
        "executed_by",
        "is_sent",
        "observer",
        "overlap",
        "queue_seconds",
        "receive_seconds",
        "request_began",
        "request_bytes",
        "response_bytes",
        "route",
        "sending_since",
    )

    #: The path of the route.
    route: str
    #: Lengths of the request's and the response's body.
    request_bytes: int
    response_bytes: int
    #: When the request's head had come, or its message of a stream of gRPC, on the clock of
    #: time.perf_counter.
    request_began: float
    #: Start of receiving the request's tensor, on the clock of time.perf_counter.
    began: float
    #: Start of sending the response, on the clock of time.perf_counter.
    sending_since: float

    def __init__(self, memory: Memory, caller: Caller | None = None) -> None:
        self._memory = memory
        #: Who waits for the response; None if nobody can go.
        self.caller = caller
        self._reserved = 0
        self._buffers: list[Bytes] = []
        #: Name of the arithmetic that rounded the tensor; empty before.
        self.executed_by = ""
        #: Seconds in which the body was received, and the work waited for a thread, and ran.
        self.receive_seconds = self.queue_seconds = self.execute_seconds = 0.0
        #: Name of the dialect; empty before it is known, and for a comparison.
        self.dialect = ""
        #: The call, once it is known, if the tensor is rounded.
        self.call: Call | None = None
        #: Whether the whole response was sent.
        self.is_sent = False
        #: Observes the end of a job with a response. Set together with the attributes above.
        self.observer: Observer | None = None
        #: State of the rounding while receiving, if there is any.
        self.overlap: Overlap | None = None

    def other_bytes(self) -> int:
        """Bytes that all other requests have reserved."""
        return self._memory.in_use - self._reserved

    def reserve(self, nbytes: int, pending: int = 0) -> None:
        """Reserve ``nbytes`` more bytes of the budget, if it has room for ``pending`` further ones.

        Raises :class:`TensorTooLarge` if the job exceeds the whole budget, and
        :class:`Overloaded` if it exceeds the free part.
        """
        needed = self._reserved + nbytes
        self._memory.reserve(nbytes, of=needed + pending, pending=pending)
        self._reserved = needed

    def allocate(self, nbytes: int) -> Bytes:
        """A buffer of ``nbytes`` reserved bytes, contents undefined, valid until the job ends."""
        memory = self._memory
        buffer = (
            memory.allocate_new(nbytes) if nbytes < MIN_POOLED_BYTES else memory.allocate(nbytes)
        )
        self._buffers.append(buffer)
        return buffer if buffer.size == nbytes else buffer[:nbytes]

    def end(self, reusable: bool, is_sent: bool = False) -> None:
        """Return all memory. Further calls have no effect.

        ``reusable`` says that neither a thread nor the kernel uses the buffers any more, and
        ``is_sent`` that the whole response was sent.
        """
        self.is_sent = is_sent
        self._memory.release(self._reserved, self._buffers if reusable else ())
        self._reserved = 0
        self._buffers = []
        self.overlap = None  # it refers to this job
        observer, self.observer = self.observer, None
        if observer is not None:
            observer.job_ended(self)
