"""The load generator in C, and what it is told to send."""

from __future__ import annotations

import json
import struct
import subprocess
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np

from support.http.native_form import ieee754
from tensor_round.conformance import reference

GENERATOR = Path("build/storm")
#: Of one core, beyond which it is the generator that has no more to give.
BUSIEST = 0.9


@dataclass(frozen=True)
class Outcome:
    """What came of the requests of a storm; durations in seconds."""

    statuses: dict[str, int]
    offered: int
    #: Right answers that came before the time was over.
    right_in_time: int
    #: Answers with status 200 and other bytes.
    wrong: int
    #: Answers with status 503 that do not say when to come again.
    mute: int
    #: Connections that ended before their answer was whole.
    resets: int
    unanswered: int
    seconds: float
    #: The part of a core that the generator used.
    busy: float
    p50: float
    p99: float
    refusal_p50: float
    refusal_p99: float

    @property
    def rate(self) -> float:
        """Right answers a second."""
        return self.right_in_time / self.seconds

    @property
    def offered_rate(self) -> float:
        """Requests a second."""
        return self.offered / self.seconds

    def faults(self, *allowed: int) -> list[str]:
        """Whatever is neither a right answer nor one of these statuses."""
        other = {
            status: count
            for status, count in self.statuses.items()
            if int(status) not in (200, *allowed)
        }
        found = {
            "answers with wrong bytes": self.wrong,
            "503 without Retry-After": self.mute,
            "requests without an answer": self.unanswered,
            f"answers of other statuses ({other})": sum(other.values()),
        }
        return [f"{count:,} {what}" for what, count in found.items() if count]


def exchanges(nbytes: int, count: int, seed: int = 1) -> list[tuple[bytes, bytes]]:
    """Requests to round float32 tensors of ``nbytes``, and the bodies of their answers."""
    source = np.random.default_rng(seed)
    pairs = []
    for _ in range(count):
        x = source.normal(0, 9, nbytes // 4).astype("<f4")
        head = (
            f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: {nbytes}\r\n"
            f"Operator-Descriptor: {ieee754('float32', [x.size])}\r\n\r\n"
        )
        rounded = reference.rounded(x.view("<u4"), "float32", "ties_to_even")
        pairs.append((head.encode() + x.tobytes(), rounded.tobytes()))
    return pairs


class Storm:
    """One generator process; a context manager that ends it, and waits for it where it can."""

    def __init__(
        self,
        port: int,
        pairs: Iterable[tuple[bytes, bytes]],
        *,
        connections: int,
        seconds: float,
        rate: float = 0,
    ) -> None:
        if not GENERATOR.exists():
            raise SystemExit(f"{GENERATOR} is not there: the load generator needs a C compiler")
        with tempfile.NamedTemporaryFile(prefix="storm-", delete=False) as file:
            for request, body in pairs:
                file.write(struct.pack("<QQ", len(request), len(body)))
                file.write(request)
                file.write(body)
        self._file = Path(file.name)
        command = [str(GENERATOR), *map(str, (port, connections, seconds, rate)), file.name]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def outcome(self) -> Outcome:
        """Wait until its time is over and every answer has come."""
        output, errors = self._process.communicate()
        if self._process.returncode:
            raise RuntimeError(errors.strip() or f"storm ended with {self._process.returncode}")
        return Outcome(**json.loads(output))

    def __enter__(self) -> Storm:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        self._file.unlink()
