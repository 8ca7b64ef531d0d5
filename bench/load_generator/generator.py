"""The load generator, ``generator.c``, as a process of its own."""

from __future__ import annotations

import json
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

GENERATOR = Path("build/load")
#: A request as it goes over the wire, and the body of its response; an empty one is not compared.
Exchange = tuple[bytes, bytes]


class LoadFailed(Exception):
    """The generator could not do its work, or not all of it."""


@dataclass(frozen=True)
class Outcome:
    """What came of the requests; durations in seconds."""

    statuses: dict[str, int]
    offered: int
    #: Right responses that came before the time was over.
    right_in_time: int
    #: Responses with status 200 and other bytes.
    wrong: int
    #: Responses with status 503 that do not say when to try again.
    no_retry_after: int
    #: Connections that ended before their response was complete.
    resets: int
    unanswered: int
    seconds: float
    #: The part of a core that the generator used.
    busy: float
    p50: float
    p99: float
    refusal_p50: float
    refusal_p99: float
    #: How far requests came that had no response in time.
    log: str = ""

    @property
    def rate(self) -> float:
        """Right responses a second."""
        return self.right_in_time / self.seconds

    def faults(self, *allowed: int) -> list[str]:
        """Whatever is neither a right response nor one of these statuses."""
        other = {
            status: count
            for status, count in self.statuses.items()
            if int(status) not in (200, *allowed)
        }
        found = {
            "responses with wrong bytes": self.wrong,
            "503 without Retry-After": self.no_retry_after,
            "requests without a response": self.unanswered,
            f"responses of other statuses ({other})": sum(other.values()),
        }
        return [f"{count:,} {what}" for what, count in found.items() if count]


class LoadGenerator:
    """One generator process; a context manager that ends it.

    ``rate`` is requests a second; at 0 each connection sends its next request as soon as it has its
    response. ``raw`` are the bytes of a response without a head, those of a request that are sent
    once for each connection, and the offsets in it of 16 hex digits that change.
    """

    def __init__(
        self,
        address: int | str,
        exchanges: Iterable[Exchange],
        *,
        connections: int,
        seconds: float,
        rate: float = 0,
        raw: Sequence[int] = (),
    ) -> None:
        if not GENERATOR.exists():
            raise SystemExit(f"{GENERATOR} is not there: the load generator needs a C compiler")
        with tempfile.NamedTemporaryFile(prefix="load-", delete=False) as file:
            for request, body in exchanges:
                file.write(struct.pack("<QQ", len(request), len(body)))
                file.write(request)
                file.write(body)
        self._file = Path(file.name)
        arguments = (GENERATOR, address, connections, seconds, rate, file.name, *raw)
        self._process = subprocess.Popen(
            [*map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def outcome(self) -> Outcome:
        """Wait until its time is over and every response has come."""
        output, errors = self._process.communicate()
        if self._process.returncode:
            raise LoadFailed(errors.strip() or f"exit status {self._process.returncode}")
        return Outcome(**json.loads(output), log=errors)

    def __enter__(self) -> LoadGenerator:
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
