"""The work of one request: its memory, its times, and what did it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ..backends import Bytes
from .memory import KEPT_BYTES, Memory

if TYPE_CHECKING:
    from .overlap import Overlap

#: What a request holds until so much of its body has come: a silent sender that declares
#: a gigabyte holds no more than this.
FIRST_BYTES = 64 << 10


class Observer(Protocol):
    """Is told of jobs whose response has been sent."""

    def job_ended(self, job: Job) -> None:
        """Take what is known of a job; its memory is already given back."""


class Job:
    """Reserves memory before a body is read, and gives it back once, on every path.

    Buffers are used again only after an :meth:`end` that is ``settled``: as long as a thread may
    still write into a buffer, or the kernel read from it, it must not be another request's.
    """

    __slots__ = (
        *("_buffers", "_memory", "_needed", "_reserved"),
        *("execute_seconds", "executed_by", "overlap", "queue_seconds", "receive_seconds"),
        *("labels", "observer", "sending_since", "traffic"),
    )

    #: The path of its route, and the bytes of its request's and its response's body.
    traffic: tuple[str, int, int]
    #: When its response began to be sent, on the clock of time.perf_counter.
    sending_since: float

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._needed = 0
        self._reserved = 0
        self._buffers: list[Bytes] = []
        #: What rounded the request's tensor, once that is known.
        self.executed_by = ""
        #: Seconds in which its body came, and in which its work waited for a thread, and ran.
        self.receive_seconds = self.queue_seconds = self.execute_seconds = 0.0
        #: The dialect and the dtype that it is about, once they are known.
        self.labels = "", ""
        #: Who is told of its end, if anybody. Whoever sets it sets the next two as well.
        self.observer: Observer | None = None
        #: How far its tensor is rounded while it comes in, if it is.
        self.overlap: Overlap | None = None

    @property
    def others(self) -> int:
        """Bytes that all other requests hold."""
        return self._memory.in_use - self._reserved

    def reserve(self, nbytes: int) -> None:
        """Reserve so many bytes beyond those that it has.

        Raises :class:`TensorTooLarge` if the job would not fit alone, or :class:`Overloaded`.
        """
        needed = self._reserved + nbytes
        self._memory.reserve(nbytes, of=needed)
        self._reserved = self._needed = needed

    def reserve_first(self, nbytes: int) -> None:
        """Reserve the beginning of what a request will need, if there is room for all of it.

        Where there is none, its sender should know before it sends much. Raises the same.
        """
        first = min(nbytes, FIRST_BYTES)
        self._memory.reserve(first, of=nbytes, to_come=nbytes - first)
        self._reserved, self._needed = first, nbytes

    def reserve_rest(self) -> None:
        """Reserve all that :meth:`reserve_first` was told of. Raises the same."""
        nbytes = self._needed - self._reserved
        self._memory.reserve(nbytes, of=self._needed)
        self._reserved = self._needed

    def allocate(self, nbytes: int) -> Bytes:
        """Memory of that many reserved bytes, contents undefined, until the job ends."""
        memory = self._memory
        buffer = memory.fresh(nbytes) if nbytes < KEPT_BYTES else memory.allocate(nbytes)
        self._buffers.append(buffer)
        return buffer if buffer.size == nbytes else buffer[:nbytes]

    def end(self, settled: bool) -> None:
        """Give everything back; once is enough.

        ``settled`` vouches that nobody reads or writes the buffers any more.
        """
        self._memory.give_back(self._reserved, self._buffers if settled else ())
        self._reserved = 0
        self._buffers = []
        self.overlap = None  # which knows this job
        observer, self.observer = self.observer, None
        if observer is not None:
            observer.job_ended(self)
