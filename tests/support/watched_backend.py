"""A backend that remembers what it was given, so that tests see when it rounds."""

from __future__ import annotations

import time
from collections.abc import Callable

from tensor_round.contract.call import RoundCall
from tensor_round_service.backends import Bytes
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.engine.overlap import PIECE_BYTES


class WatchedBackend(NumpyBackend):
    """Rounds, and remembers what it was given."""

    def __init__(self) -> None:
        super().__init__()
        #: Bytes of each call, in turn.
        self.sizes: list[int] = []
        #: What happens before a call of that many bytes is done.
        self.before: Callable[[int], object] = bool

    def round(self, call: RoundCall, source: Bytes, target: Bytes) -> str:
        self.before(target.size)
        done_by = super().round(call, source, target)
        self.sizes.append(target.size)
        return done_by

    def wait_for_a_piece(self) -> None:
        deadline = time.monotonic() + 10
        while PIECE_BYTES not in self.sizes:
            assert time.monotonic() < deadline, "nothing was rounded of what came"
            time.sleep(0.001)
