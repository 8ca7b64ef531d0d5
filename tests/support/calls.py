"""How many Python functions a thread calls. No clock.

All functions count that run on the event loop's thread, the libraries' too: work that moves
into a library costs no less there.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any


class ThreadCalls:
    """Calls of Python functions in one thread, by function.

    Calls into C are not counted. Resuming a coroutine or a generator counts as a call.
    """

    def __init__(self) -> None:
        self._counts: Counter[CodeType] = Counter()
        self._thread: int | None = None

    def profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        """The profile function. The first thread that it runs in is the one that counts."""
        if event != "call":
            return
        thread = threading.get_ident()
        if self._thread is None:
            self._thread = thread
        if self._thread == thread:
            self._counts[frame.f_code] += 1

    def at_rest(self) -> Counter[CodeType]:
        """The counts so far, once the thread has nothing to do."""
        while True:
            before = self._counts.total()
            time.sleep(0.01)
            if self._counts.total() == before:
                return self._counts.copy()

    def of_each(self, request: Callable[[int], object], numbers: range) -> Counter[str]:
        """The calls of each function that every one of these requests has, made one by one.

        What the thread calls now and then is not in all of them: a server's tick, a look at a file.
        """
        least: Counter[CodeType] | None = None
        before = self.at_rest()
        for number in numbers:
            request(number)
            after = self.at_rest()
            own = after - before
            least, before = own if least is None else least & own, after
        found: Counter[str] = Counter()
        for code, count in (least or Counter()).items():
            found[described(code)] += count
        return found


def described(code: CodeType) -> str:
    """A function's package, file, line and name."""
    path = Path(code.co_filename)
    return f"{path.parent.name}/{path.name}:{code.co_firstlineno} {code.co_qualname}"


@contextmanager
def first_thread_profiled() -> Iterator[ThreadCalls]:
    """Count the calls of the first thread that is started within."""
    calls = ThreadCalls()
    before = threading.getprofile()
    threading.setprofile(calls.profile)
    try:
        yield calls
    finally:
        threading.setprofile(before)


def hold(counts: Counter[str], budget: int) -> None:
    """Fail if a request has more calls than its budget, or none: its thread is another one."""
    assert counts, "the service's thread was not profiled"
    total = counts.total()
    listed = "\n".join(f"{count:4} {name}" for name, count in counts.most_common())
    assert total <= budget, f"{total} calls a request:\n{listed}"
