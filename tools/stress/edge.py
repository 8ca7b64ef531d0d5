"""The dearest request of each kind: what it costs a service, and callers beside it.

Each attack runs against a service of its own, from a process of its own, while this one asks for
``/livez`` on one connection.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import multiprocessing
import os
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from bench.measuring.processes import status

from support.http.floods import FLOODS, KEY, Flood, Tally, X, calls, described, get, rounded
from support.http.http2_frames import HELLO, block, call_fields, data
from support.http.native_form import Answers, ieee754, npy
from support.services.server import Service
from support.services.tls import TlsService
from tensor_round_service.grpc.messages import SCHEMA
from tensor_round_service.grpc.protobuf import varint
from tensor_round_service.net.http2 import frames
from tensor_round_service.net.http2.fields import encoded
from tensor_round_service.net.http2.frames import END_HEADERS, Code, Kind

from . import watched
from .metrics import Report, milliseconds

#: What no attack may exceed on two cores that do nothing else: a step of the event loop, and a
#: response of ``/livez``.
STEP_SECONDS, HEALTH_SECONDS = 0.010, 0.100
_MODEL = "/inference.GRPCInferenceService/ModelInfer"


@dataclass(frozen=True)
class Attack:
    """What is sent, on how many connections, and what bounds it."""

    flood: Flood
    bound: str
    count: int = 1
    options: tuple[str, ...] = ()
    service: type[Service] = Service


def _posted(path: str, body: bytes, *fields: str) -> bytes:
    lines = (f"POST {path} HTTP/1.1", "Host: x", f"X-API-Key: {KEY}", *fields)
    head = "\r\n".join((*lines, f"Content-Length: {len(body)}", "", ""))
    return head.encode() + body


def _zipped(path: str, body: bytes, *fields: str) -> bytes:
    return _posted(path, gzip.compress(body, 9), "Content-Encoding: gzip", *fields)


def _grpc(message: bytes) -> bytes:
    return struct.pack(">BI", 0, len(message)) + message


def _interlocked(size: int, count: int) -> str:
    """A descriptor whose output takes the most steps to be proven free of overlap."""
    strides = [1000003177, 1414213819, 1732051033, 2236067717, 2645751523][:count]
    tensor = {"dtype": "int8", "shape": [size] * count}
    return json.dumps(
        {"dialect": "ieee754", "input": tensor, "output": {**tensor, "strides": strides}}
    )


def _hello() -> bytes:
    """The first message of a TLS handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def _heads(make: bytes, count: int = 200) -> bytes:
    """Heads of this block."""
    return b"".join(
        frames.frame(Kind.HEADERS, END_HEADERS, number, make) for number in range(1, 2 * count, 2)
    )


def _large_call(nbytes: int) -> bytes:
    """The begin of a call with a tensor of so many bytes, up to its first ones."""
    tensor = {"name": "X", "datatype": "FP32", "shape": [nbytes // 4]}
    head = SCHEMA.write(".inference.ModelInferRequest", {"model_name": "round", "inputs": [tensor]})
    head += b"\x3a" + varint(nbytes)
    begin = struct.pack(">BI", 0, len(head) + nbytes) + head
    fields = block([*call_fields(_MODEL), ("x-api-key", KEY)])
    return frames.frame(Kind.HEADERS, END_HEADERS, 1, fields) + data(1, begin + bytes(60_000))


def _zeros(nbytes: int = 64 << 20) -> bytes:
    """A tensor of as many zeros, compressed."""
    sent = gzip.compress(bytes(nbytes))
    length = b"Content-Encoding: gzip\r\nContent-Length: %d" % len(sent)
    return described(ieee754("int8", [nbytes]), b"").replace(b"Content-Length: 0", length) + sent


_SHAPE = SCHEMA.write(
    ".inference.ModelInferRequest",
    {"model_name": "round", "inputs": [{"name": "X", "datatype": "FP32", "shape": [1] * 30_000}]},
)
_HUFFMAN = b"\0\1a\xff" + varint(16_000 - 127) + b"\0" * 16_000
_SLASHES = b'"' + b"[" * 600 + b'\\"' * 32_000 + b"\\"
_NUMBERS = b'{"operator":"ieee754","dtype":"float32","data":[' + b"0.5," * 4_000_000 + b"0]}"
_SEGMENT = "tensor-round-stress"
_REGIONS = [
    _posted(
        f"/v2/systemsharedmemory/region/{number:04}{'n' * 30_000}/register",
        b'{"key":"/%b","offset":0,"byte_size":1}' % _SEGMENT.encode(),
    )
    for number in range(100)
]
_JSON, _NPY = (f"Content-Type: application/{name}" for name in ("json", "x-npy"))
_TURNS, _THREADS = "turns", "threads, in turns of 2 ms"
_ACCEPTED = "one is accepted a turn"


def attacks() -> dict[str, Attack]:
    """Every attack, by name."""
    found = {
        f"{name}, {count} connection{'s' * (count > 1)}": Attack(flood, _TURNS, count)
        for name, flood in FLOODS.items()
        for count in (1, 48)
    }
    broadcast = ieee754("float32", [4 << 20], strides=[0])
    long = json.dumps({f"{'x' * 20}{number}": 0 for number in range(490)})
    unknown = json.dumps({"operator": "onnx"} | {f"{number:04}": 0 for number in range(900)})
    return found | {
        "new connections": Attack(Flood(b"", get("/x"), again=True), _ACCEPTED, 48),
        "TLS handshakes": Attack(
            Flood(b"", _hello(), again=True), _ACCEPTED, 48, service=TlsService
        ),
        "long refused descriptors": Attack(Flood(described(long, bytes(4))), "512 values"),
        "proofs of overlap": Attack(
            Flood(described(_interlocked(16, 5), bytes(16))), "10,000 steps of NumPy"
        ),
        "backslashes, compressed": Attack(
            Flood(_zipped("/v2/repository/index", _SLASHES)), "linear scanners"
        ),
        "backslashes in a descriptor": Attack(
            Flood(described(_SLASHES[:16_002].decode(), b"")), "linear scanners"
        ),
        "unknown fields of the short form": Attack(
            Flood(_posted("/round", unknown.encode(), _JSON)), "32 faults"
        ),
        "numbers in JSON": Attack(Flood(_zipped("/round", _NUMBERS, _JSON)), _THREADS, 4),
        "comparisons": Attack(
            Flood(_posted("/compare", npy(np.zeros(1 << 20, "<f4")), _NPY)), _THREADS, 4
        ),
        "large outputs, unread": Attack(
            Flood(b"", described(broadcast, bytes(4)), is_deaf=True),
            "64 times the input, or 16 MiB",
            26,
        ),
        "compressed zeros, unread": Attack(Flood(b"", _zeros(), is_deaf=True), "the budget", 4),
        "gRPC watches": Attack(
            Flood(b"", HELLO + calls("/grpc.health.v1.Health/Watch", count=100)),
            "watches of a connection",
            50,
        ),
        "gRPC shapes": Attack(
            Flood(b"", HELLO + calls(_MODEL, _grpc(_SHAPE), count=1), again=True), "68 KiB", 8
        ),
        "coded header blocks": Attack(Flood(_heads(_HUFFMAN), HELLO), "16 KiB"),
        "sizes of the table": Attack(Flood(_heads(b"\x20" * 16_000), HELLO), "16 KiB"),
        "header fields": Attack(Flood(_heads(encoded(*[(b"a", b"b")] * 99)), HELLO), "100 fields"),
        "resets": Attack(
            Flood(
                b"".join(
                    frames.frame(Kind.HEADERS, END_HEADERS, number, block(call_fields(_MODEL)))
                    + frames.rst_stream(number, Code.CANCEL)
                    for number in range(1, 2000, 2)
                ),
                HELLO,
            ),
            "500, 100 a second",
            8,
        ),
        "DATA of a byte": Attack(
            Flood(data(1, b"x"), HELLO + _large_call(256 << 20)), "256 frames a turn", 4
        ),
        "names of regions": Attack(
            Flood(b"".join(_REGIONS) + rounded(X)),
            "256 bytes a name",
            options=("--shared-memory-prefix", _SEGMENT),
        ),
    }


class _Told(threading.Event):
    """Set once the other process has sent anything."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    def is_set(self) -> bool:
        return self._connection.poll()


def _run(flood: Flood, count: int, port: int, told: Connection) -> None:
    """Attack until told to stop; tells how many bytes were sent."""
    tally = Tally(stop=_Told(told))
    told.send(None)
    try:
        flood.run(partial(socket.create_connection, ("127.0.0.1", port), 60), count, tally)
    finally:
        told.send(tally.sent)


@dataclass(frozen=True)
class Cost:
    """What the bytes that were read have cost: a core, memory, the longest step and wait."""

    used: int
    busy: float
    grown: int
    step: float
    waits: list[float]

    def line(self, name: str, bound: str) -> str:
        """The row of the table."""
        kib = self.used / 1024
        return " | ".join(
            (
                f"| {name}",
                f"{kib:,.1f} KiB",
                f"{self.busy / kib * 1e3:.2f} ms",
                milliseconds(self.step),
                f"{max(0, self.grown) / self.used:,.1f}",
                milliseconds(max(self.waits)),
                f"{bound} |",
            )
        )


HEADINGS = (
    "| attack | read | core a KiB | longest step of the event loop | bytes held a byte | "
    "longest `/livez` | bound |\n|---|---|---|---|---|---|---|"
)


@contextlib.contextmanager
def _service(attack: Attack) -> Iterator[tuple[Service, watched.Watch]]:
    with tempfile.TemporaryDirectory() as folder:
        keys, watch = Path(folder, "keys"), Path(folder, "watch")
        keys.write_text(hashlib.sha256(KEY.encode()).hexdigest())
        watch.write_bytes(bytes(watched.SECONDS.size))
        service = attack.service("--api-keys-file", str(keys), *attack.options)
        path = os.pathsep.join(sys.path)  # this package is on it
        service.environment = {watched.VARIABLE: str(watch), "PYTHONPATH": path}
        service.module = "stress.watched"
        segment = Path("/dev/shm", _SEGMENT)
        segment.write_bytes(b"x")
        try:
            with service:
                yield service, watched.Watch(watch)
        finally:
            service.process.kill()
            segment.unlink()


def _busy(service: Service) -> float:
    """Seconds of a core that the process has taken, with its threads that have ended."""
    fields = Path(f"/proc/{service.pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _queued(port: int) -> int:
    """Bytes that the system holds between the service and its callers, unread."""
    queued = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        sent, received = (int(size, 16) for size in queues.split(":"))
        queued += received if local.endswith(f":{port:04X}") else 0
        queued += sent if remote.endswith(f":{port:04X}") else 0
    return queued


def measure(attack: Attack, seconds: float) -> Cost:
    """Run an attack for so long."""
    with _service(attack) as (service, watch), contextlib.ExitStack() as stack:
        ours, theirs = multiprocessing.Pipe()
        attacker = multiprocessing.get_context("spawn").Process(
            target=_run, args=(attack.flood, attack.count, service.port, theirs), daemon=True
        )
        service.rss()  # waits until its kernels are compiled
        attacker.start()
        ours.recv()
        busy, memory, watch.longest = _busy(service), status(service.pid)["RssAnon"], 0
        health = stack.enter_context(service.connect())
        answers = Answers(health)
        waits, peak, ends = [], memory, time.monotonic() + seconds
        while time.monotonic() < ends:
            began = time.monotonic()
            health.sendall(get("/livez"))
            answers.next()
            waits.append(time.monotonic() - began)
            peak = max(peak, status(service.pid)["RssAnon"])
            time.sleep(0.002)
        busy, waiting = _busy(service) - busy, _queued(service.port)
        ours.send(None)
        used = max(1, ours.recv() - waiting)
        attacker.kill()
        attacker.join()
        return Cost(used, busy, (peak - memory) << 10, watch.longest, waits)


def run(seconds: float) -> Report:
    """The row of the table."""
    lines, report = [], Report("")
    for name, attack in attacks().items():
        try:
            cost = measure(attack, seconds)
        except (subprocess.TimeoutExpired, TimeoutError) as error:
            report.faults.append(f"{name}: the service hung: {error}")
            continue
        lines.append(cost.line(name, attack.bound))
        print(lines[-1], flush=True)
        report.expect(f"{name}: a step took longer", cost.step <= STEP_SECONDS)
        report.expect(f"{name}: health took longer", max(cost.waits) <= HEALTH_SECONDS)
    report.figures = "\n".join(("", HEADINGS, *lines))
    return report
