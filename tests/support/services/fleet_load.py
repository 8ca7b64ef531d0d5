"""Load by a client of a fleet, whose every result is checked."""

from __future__ import annotations

import threading
import time
from types import TracebackType

import numpy as np

import tensor_round as tr

#: Elements of the tensors.
SIZES = (1, 1_000, 300_000)
THREADS = 3


class Load:
    """Rounds tensors from several threads; a context manager.

    Leaving it asserts that no call failed, no result was wrong, and that there were results to
    the end.
    """

    def __init__(self, url: str) -> None:
        self._client = tr.Client(url)
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(THREADS)]
        self.right = 0
        self.faults: list[str] = []

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def _run(self, seed: int) -> None:
        drawn = np.random.default_rng(seed)
        while not self._ended.is_set():
            x = (drawn.standard_normal(drawn.choice(SIZES)) * 100).astype(np.float32)
            began = time.monotonic()
            try:
                y = self._client.round(x)
            except tr.TensorRoundError as error:
                self.faults.append(f"after {time.monotonic() - began:.2f} s: {error!r}")
            else:
                if y.tobytes() == np.rint(x).tobytes():
                    self.right += 1
                else:
                    self.faults.append(f"{x.size} elements are wrong")

    def more(self, count: int = 100) -> None:
        """Wait for so many further results."""
        target, deadline = self.right + count, time.monotonic() + 30
        while self.right < target:
            assert time.monotonic() < deadline, f"{self.right} results: {self.faults[:5]}"
            time.sleep(0.02)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.more()
        self._ended.set()
        for thread in self._threads:
            thread.join(60)
        self._client.close()
        assert not self.faults, f"{len(self.faults)} of {self.right}: {self.faults[:5]}"
