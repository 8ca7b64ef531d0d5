"""Hostile connections of HTTP/2, all at once: memory, budget, and callers of HTTP/1.1 meanwhile.

Each connection is one of those that a bound is for: silence, streams that never go on, floods,
resets, answers that are not read, and tensors that are admitted and do not come.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import multiprocessing
import random
import resource
import struct
import time
from collections.abc import Callable

from bench.measuring.processes import status

from support.http.http2_frames import HELLO, block, call_fields, data
from support.services.server import Service
from tensor_round_service.grpc.messages import SCHEMA
from tensor_round_service.grpc.protobuf import varint
from tensor_round_service.net.http2 import frames
from tensor_round_service.net.http2.frames import END_HEADERS, Code, Kind

from .metrics import Report

BUDGET = 64 << 20
#: What all connections together may take beside the budget.
MORE_BYTES = 64 << 20
#: By which every stream has had its response, its refusal or its reset.
SETTLED_SECONDS = 60.0
#: By which the connections have begun.
BEGUN_SECONDS = 15.0
_BLOCK = block(call_fields("/inference.GRPCInferenceService/ModelInfer"))
_MANY = range(1, 200, 2)


def _head(number: int) -> bytes:
    return frames.frame(Kind.HEADERS, END_HEADERS, number, _BLOCK)


def _message(nbytes: int) -> bytes:
    """A request for a tensor of so many bytes, without the tensor."""
    tensor = {"name": "X", "datatype": "FP32", "shape": [nbytes // 4]}
    head = SCHEMA.write(".inference.ModelInferRequest", {"model_name": "round", "inputs": [tensor]})
    head += b"\x3a" + varint(nbytes)
    return struct.pack(">BI", 0, len(head) + nbytes) + head


def _of(make: Callable[[int], bytes]) -> bytes:
    return b"".join(make(number) for number in _MANY)


#: What each kind sends behind its preface; those that end in "unread" read nothing.
KINDS = {
    "silent": b"",
    "streams without a byte": _of(_head),
    "heads that do not end": _of(lambda n: _head(n) + data(n, _message(1 << 20)[:-3])),
    "messages that do not go on": _of(lambda n: _head(n) + data(n, b"\0\0\0\xea\x60" + bytes(600))),
    "tensors that do not come": _head(1) + data(1, _message(32 << 20) + bytes(16_000)),
    "responses unread": _of(lambda n: _head(n) + data(n, _message(400) + bytes(400), ends=True)),
    "a header block that does not end": frames.frame(Kind.HEADERS, 0, 1, _BLOCK[:5]),
    "PING unread": frames.frame(Kind.PING, 0, 0, bytes(8)) * 5000,
    "resets": b"".join(_head(n) + frames.rst_stream(n, Code.CANCEL) for n in range(1, 2000, 2)),
    "empty DATA": _head(1) + data(1) * 5000,
}


def attack(port: int, count: int, seed: int) -> None:
    """Hold ``count`` connections of all kinds until killed."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, count + 100))

    async def hold(kind: str) -> None:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 14)
            writer.write(HELLO + KINDS[kind])
            while not kind.endswith("unread") and await reader.read(1 << 14):
                pass
            await asyncio.sleep(3600)

    async def main() -> None:
        kinds = [*itertools.islice(itertools.cycle(KINDS), count)]
        random.Random(seed).shuffle(kinds)
        await asyncio.gather(*map(hold, kinds))

    asyncio.run(main())


def run(count: float, seed: int) -> Report:
    """The row of the table."""
    with Service("--max-bytes-in-flight", str(BUDGET)) as service:
        before = status(service.pid)["RssAnon"] << 10
        attacker = multiprocessing.get_context("spawn").Process(
            target=attack, args=(service.port, int(count), seed), daemon=True
        )
        attacker.start()
        peak, waits, began = before, [], time.monotonic()
        held: float = 1
        while held and time.monotonic() - began < SETTLED_SECONDS:
            time.sleep(0.1)
            asked, busy = time.monotonic(), service.busy_seconds()
            held = _in_flight(service)
            waits.append((time.monotonic() - asked, service.busy_seconds() - busy))
            peak = max(peak, (status(service.pid)["RssAnon"] << 10))
            held = held or time.monotonic() - began < BEGUN_SECONDS
        seconds = time.monotonic() - began
        attacker.kill()
        attacker.join()
        waits.sort()
    grown = (peak - before) >> 20
    report = Report(
        f"{count:,.0f} connections (seed {seed}): memory +{grown} MiB on a budget of "
        f"{BUDGET >> 20}, which is back at {held:.0f} after {seconds:.0f} s; /metrics median "
        f"{waits[len(waits) // 2][0] * 1e3:.0f} ms, longest {waits[-1][0]:.2f} s, in which the "
        f"service ran for {waits[-1][1]:.2f} s"
    )
    most = (BUDGET + MORE_BYTES) >> 20
    report.expect(f"the memory grew by more than {most} MiB", grown <= most)
    report.expect("the budget is not back at 0", not held)
    return report


def _in_flight(service: Service) -> float:
    """Bytes in flight; 1 if the budget has no room for the metrics."""
    reply = service.get("/metrics")
    lines = dict(line.rpartition(" ")[::2] for line in reply.content.decode().splitlines())
    return float(lines["tensor_round_bytes_in_flight"]) if reply.status == 200 else 1.0
