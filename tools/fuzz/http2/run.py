"""Mutated sequences of HTTP/2's frames: a session, fed whole and in pieces, h2 and nghttp2.

A session must raise nothing, keep its accounts, and say the same of a sequence however it is cut,
and so must one whose streams are served meanwhile. Where it serves what another library refuses,
or refuses what that serves, the reason must be one of those here.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial

from stress.report import Report

from .outcomes import Outcome, ours, serve
from .peers import H2_ALONE, Nghttp2, of_h2
from .sequences import Sequences

#: Why a connection may be ended here that h2 serves: by the head of a frame whose rest is yet to
#: come, as a stream's error (RFC 9113, section 5.4, lets it be the connection's), or by a rule that
#: h2 does not know, or that newer versions of nghttp2 (1.70) have given up.
OURS_ALONE = frozenset(
    {
        "a frame is longer than it may be",
        "a client does not push",
        "CONTINUATION without HEADERS",
        "a header block is not finished",
        "a frame is on a stream that is not open",
        "DATA on a stream that is not open",
        "DATA behind the end of a stream",
        "DATA on a stream that is over",
        "more DATA than the connection's window",
        "more DATA than a stream's window",
        "a window overflows",
        "a window is updated by 0",
        "the first frame must be SETTINGS",
        "the number of a stream must be odd",
        "the padding is longer than its frame",
        "SETTINGS have too many values",
        "PRIORITY is on a wrong stream",
    }
)
#: Why nghttp2 may refuse what is served here, beside what it says of frames that are not whole:
#: frames of DATA may be longer here, what is late on a stream that is over is ignored, and so are
#: priorities, acknowledgements, settings and numbers that change nothing.
NGHTTP2_ALONE = (
    ("STREAM_CLOSED", "stream closed"),
    ("STREAM_CLOSED", "half-closed(remote)"),
    ("FRAME_SIZE_ERROR", "too large frame size"),
    ("PROTOCOL_ERROR", "depend on itself"),
    ("PROTOCOL_ERROR", "unexpected ACK"),
    ("PROTOCOL_ERROR", "invalid SETTINGS_ENABLE_CONNECT_PROTOCOL"),
    ("PROTOCOL_ERROR", "GOAWAY: invalid last_stream_id"),
    ("FLOW_CONTROL_ERROR", "WINDOW_UPDATE: window size overflow"),
)
#: Sequences that are drawn from one seed, one after another.
BATCH = 1000
#: Of so many that are received, half of all, one is compared with h2, and with nghttp2.
H2_EVERY, NGHTTP2_EVERY = 25, 5
#: Batches after which a line says how far it is.
SAID = 500


@dataclass
class Found:
    """What a run has found."""

    faults: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)

    def __iadd__(self, other: Found) -> Found:
        self.faults += other.faults
        self.outcomes += other.outcomes
        return self


class Fuzzer:
    """The sequences of a seed, and what they are compared with."""

    def __init__(self, seed: int, h2_every: int, nghttp2_every: int) -> None:
        self._seed = seed
        self._every = h2_every, nghttp2_every
        self._sequences = Sequences(seed)
        self._nghttp2 = Nghttp2.found()

    def batch(self, number: int, count: int) -> Found:
        """Compare ``count`` sequences. Every other one is served; the others are received twice."""
        found, rng = Found(), random.Random(f"{self._seed} {number}")
        for turn in range(count):
            data = self._sequences.draw(rng)
            cuts = sorted([int(rng.random() * len(data)) for _ in range(3)])
            try:
                if turn % 2:
                    serve(data, cuts, rng)
                    faults, told = [], ["served meanwhile"]
                else:
                    faults, told = self._compare(turn // 2, data, cuts)
            except Exception as error:  # of any class: it is what is looked for
                faults, told = [repr(error)], ["raised"]
            found.outcomes.update(told)
            found.faults += [f"batch {number}: {fault}: {data.hex()}" for fault in faults]
        return found

    def _compare(self, turn: int, data: bytes, cuts: list[int]) -> tuple[list[str], list[str]]:
        """What is wrong with a sequence that is received, and how it ends."""
        whole = ours(data, [])
        cut = ours(data, cuts)
        told = [whole.fault or "served"]
        faults = [] if cut == whole else [f"cut at {cuts} {cut}, whole {whole}"]
        if turn % self._every[0] == 0:
            other = of_h2(data)
            told.append(f"h2: {whole.fault or 'served'} / {other.fault or 'served'}")
            faults += _differences("h2", whole, other, _h2_may_differ)
        if self._nghttp2 is not None and turn % self._every[1] == 0:
            other = self._nghttp2.outcome(data)
            told.append(f"nghttp2: {whole.fault or 'served'} / {other.fault or 'served'}")
            faults += _differences("nghttp2", whole, other, _nghttp2_may_differ)
        return faults, told


def _h2_may_differ(whole: Outcome, other: Outcome) -> bool:
    if whole.fault:
        return whole.reason in OURS_ALONE
    return bool(whole.reset) or any(reason in other.reason for reason in H2_ALONE)


def _nghttp2_may_differ(whole: Outcome, other: Outcome) -> bool:
    if whole.fault:
        return whole.reason in OURS_ALONE
    return whole.is_cut or any(
        code == other.fault and reason in other.reason for code, reason in NGHTTP2_ALONE
    )


def _differences(
    name: str, whole: Outcome, other: Outcome, may_differ: Callable[[Outcome, Outcome], bool]
) -> list[str]:
    """What is wrong if one sequence ends like this here and elsewhere."""
    if whole.fault and other.fault:
        return []
    if whole.fault or other.fault:
        return [] if may_differ(whole, other) else [f"{whole} is not {name}'s {other}"]
    for number in other.heads.keys() - whole.reset - other.reset:
        # h2 gives out whole frames alone.
        if not whole.contents.get(number, b"").startswith(other.contents[number]):
            return [f"stream {number}: {whole} is not {name}'s {other}"]
        if whole.heads.get(number) != other.heads[number]:
            return [f"the head of stream {number}: {whole} is not {name}'s {other}"]
        if (number in whole.ended) is not (number in other.ended):
            return [f"stream {number} ends in one of both: {whole} is not {name}'s {other}"]
    return []


@cache
def _fuzzer(seed: int, h2_every: int, nghttp2_every: int) -> Fuzzer:
    return Fuzzer(seed, h2_every, nghttp2_every)


def _batch(every: tuple[int, int], seed: int, number: int, count: int) -> Found:
    """One batch, in any process."""
    return _fuzzer(seed, *every).batch(number, count)


def fuzz(
    count: int,
    seed: int,
    workers: int = 1,
    every: tuple[int, int] = (H2_EVERY, NGHTTP2_EVERY),
) -> Found:
    """Compare ``count`` sequences, and of those received one of ``every`` with h2 and nghttp2."""
    found = Found()
    counts = [min(BATCH, count - begin) for begin in range(0, count, BATCH)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context) as processes:
        batches = processes.map(partial(_batch, every, seed), range(len(counts)), counts)
        for number, batch in enumerate(batches, 1):
            found += batch
            if number % SAID == 0:
                print(f"{number * BATCH:,} sequences, {len(found.faults)} faults", flush=True)
    return found


def run(count: float, seed: int, workers: int) -> Report:
    """The row of the table."""
    began = time.monotonic()
    found = fuzz(int(count), seed, workers)
    pace = count / (time.monotonic() - began)
    lines = (f"{times:11,} {told}" for told, times in sorted(found.outcomes.items()))
    told = f"{count:,.0f} sequences (seed {seed}), {pace:,.0f} a second"
    return Report("\n".join((told, *lines)), found.faults)
