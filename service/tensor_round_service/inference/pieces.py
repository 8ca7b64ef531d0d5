"""Processing a long run of bytes in pieces that fit into a core's cache, on one or two threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

#: Size of a piece: half of a common second-level cache. With smaller pieces, threads contend for
#: the GIL and for the kernel's lock of the file.
PIECE_BYTES = 512 << 10
#: From this size on a second thread helps. Smaller runs are done before it wakes.
SHARED_BYTES = 4 << 20
#: More threads would not help: the kernel allows one writer of a file at a time, and writing is
#: half of the work.
THREADS = 2

#: Processes the bytes from ``start`` to ``end`` on thread 0 or 1: ``(start, end, thread)``.
PieceWork = Callable[[int, int, int], None]


def threads_for(nbytes: int) -> int:
    """The number of threads for a run of ``nbytes`` bytes."""
    return THREADS if nbytes >= SHARED_BYTES else 1


def buffers_for(nbytes: int) -> list[int]:
    """The sizes of the buffers for one piece on each thread."""
    return [min(nbytes, PIECE_BYTES)] * threads_for(nbytes)


def for_each_piece(
    nbytes: int, work: PieceWork, submit: Callable[[Callable[[], None]], None]
) -> None:
    """Call ``work`` for each piece of a run, in any order, until it raises.

    ``submit`` runs a function on another thread, which may be late or never. So the caller may
    itself be on a thread of the same pool. On return no thread works on the run any more.
    """
    if nbytes <= PIECE_BYTES:
        work(0, nbytes, 0)
        return
    pieces = _Pieces(nbytes, work)
    if threads_for(nbytes) > 1:
        submit(pieces.help)
    pieces.run()


class _Pieces:
    """The remaining pieces of a run, shared by the caller's thread and a helper."""

    def __init__(self, nbytes: int, work: PieceWork) -> None:
        self._nbytes = nbytes
        self._work = work
        self._starts = deque(range(0, nbytes, PIECE_BYTES))
        #: Held while the helper works.
        self._helping = threading.Lock()
        self._failure: Exception | None = None

    def run(self) -> None:
        """Process pieces until all are done."""
        try:
            self._process(0)
        finally:
            # A late helper finds no piece. Wait for a helper at work: it writes into the
            # caller's memory.
            self._starts.clear()
            with self._helping:
                pass
        if self._failure is not None:
            raise self._failure

    def help(self) -> None:
        """Process pieces on the helper's thread."""
        with self._helping:
            try:
                self._process(1)
            except Exception as error:  # run() raises it
                self._failure = error
                self._starts.clear()

    def _process(self, thread: int) -> None:
        while True:
            try:
                start = self._starts.popleft()
            except IndexError:
                return
            self._work(start, min(start + PIECE_BYTES, self._nbytes), thread)
