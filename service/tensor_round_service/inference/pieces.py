"""Work on a long run of bytes, in pieces that stay in a core's cache, on one thread or two."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

#: What a core copies in, rounds and copies out again from its own cache: half of a common
#: second-level one. With shorter pieces two threads meet too often, at the interpreter's lock and
#: at the file's.
PIECE_BYTES = 512 << 10
#: From so many bytes on a second thread helps: less is done before it is awake.
SHARED_BYTES = 4 << 20
#: No more: the kernel lets one thread at a time write into a file, and that is half of the work.
THREADS = 2

#: Does the piece from one byte to another, on the first or the second thread (0 or 1).
Work = Callable[[int, int, int], None]


def threads_for(nbytes: int) -> int:
    """How many threads may work on a run."""
    return THREADS if nbytes >= SHARED_BYTES else 1


def buffers_for(nbytes: int) -> list[int]:
    """The sizes of what the threads need where each has a buffer for its piece."""
    return [min(nbytes, PIECE_BYTES)] * threads_for(nbytes)


def in_pieces(nbytes: int, work: Work, have_done: Callable[[Callable[[], None]], None]) -> None:
    """Do each piece of a run once, in any order; raises what the work raises, and ends then.

    ``have_done`` has another thread do something, late or never if there is none free, so
    that who calls this may be on one of those threads. When it returns, no thread works on.
    """
    if nbytes <= PIECE_BYTES:
        work(0, nbytes, 0)
        return
    pieces = _Pieces(nbytes, work)
    if threads_for(nbytes) > 1:
        have_done(pieces.help)
    pieces.do()


class _Pieces:
    """The pieces that are still to be done, and who helps with them."""

    def __init__(self, nbytes: int, work: Work) -> None:
        self._nbytes = nbytes
        self._work = work
        self._starts = deque(range(0, nbytes, PIECE_BYTES))
        #: Held while a helper may be at work.
        self._helping = threading.Lock()
        self._failure: Exception | None = None

    def do(self) -> None:
        """Do them, and return when all are done."""
        try:
            self._do_all(0)
        finally:
            # From here on a helper that comes late finds nothing to do; one that came in time
            # is waited for: nobody returns while it writes into the caller's memory.
            self._starts.clear()
            with self._helping:
                pass
        if self._failure is not None:
            raise self._failure

    def help(self) -> None:
        """Do some of them meanwhile."""
        with self._helping:
            try:
                self._do_all(1)
            except Exception as error:  # who waits for this raises it
                self._failure = error
                self._starts.clear()

    def _do_all(self, thread: int) -> None:
        while True:
            try:
                start = self._starts.popleft()
            except IndexError:
                return
            self._work(start, min(start + PIECE_BYTES, self._nbytes), thread)
