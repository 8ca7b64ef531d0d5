"""The service's own code beside a library in one process, without I/O: HTTP/2, and counting.

``python -m bench.libraries.inside ROUNDS`` prints the rows as JSON. PROMETHEUS_MULTIPROC_DIR has to
name a folder, in which both count.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import hpack
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived
from h2.settings import SettingCodes
from prometheus_client import CollectorRegistry, Counter, Histogram

from tensor_round_service.app import create_app
from tensor_round_service.engine.job import PHASES, Job
from tensor_round_service.metrics.counts import BUCKETS, Metrics
from tensor_round_service.net.http2 import frames
from tensor_round_service.net.http2.fields import encoded
from tensor_round_service.net.http2.frames import Kind, Setting
from tensor_round_service.net.http2.limits import SessionLimits
from tensor_round_service.net.http2.session import Session
from tensor_round_service.net.http2.stream import Stream
from tensor_round_service.settings import Settings

from ..measuring.blocks import in_turn
from ..peers.targets import KIB, MIB

#: Some seconds of work, and how many requests it was.
Block = Callable[[], tuple[float, int]]

#: Bytes that a server reads at a time, and of a frame of DATA.
READ_BYTES = 64 * KIB
FRAME_BYTES = 16 * KIB

REQUEST = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/inference.GRPCInferenceService/ModelInfer"),
    (":authority", "127.0.0.1:8000"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
    ("user-agent", "grpc-python/1.76.0 grpc-c/51.0.0 (linux; chttp2)"),
    ("grpc-accept-encoding", "identity, deflate, gzip"),
]
HEAD = [(":status", "200"), ("content-type", "application/grpc")]
TRAILERS = [("grpc-status", "0")]


def opening() -> bytes:
    """What a client says first; its windows are never in the way."""
    values = {Setting.INITIAL_WINDOW_SIZE: frames.MAX_WINDOW}
    more = frames.window_update(0, frames.MAX_WINDOW - frames.DEFAULT_WINDOW)
    acknowledged = frames.frame(Kind.SETTINGS, frames.ACK, 0, b"")
    return frames.PREFACE + frames.settings(values) + more + acknowledged


@cache
def calls(nbytes: int, count: int) -> list[list[bytes]]:
    """The bytes of calls on one connection, in reads; heads repeat as clients write them."""
    encoder, content = hpack.Encoder(), bytes(nbytes)
    found = []
    for number in range(1, 2 * count, 2):
        parts = [frames.headers(number, encoder.encode(REQUEST), ends=False)]
        for at in range(0, nbytes, FRAME_BYTES):
            piece = content[at : at + FRAME_BYTES]
            flags = frames.END_STREAM if at + FRAME_BYTES >= nbytes else 0
            parts.append(frames.frame(Kind.DATA, flags, number, piece))
        sent = b"".join(parts)
        found.append([sent[at : at + READ_BYTES] for at in range(0, len(sent), READ_BYTES)])
    return found


def by_session(nbytes: int, response: bytes, count: int) -> tuple[float, int]:
    """Calls of a fresh connection by the service's session."""
    head = b"\x88" + encoded((b"content-type", b"application/grpc"))
    trailers = encoded((b"grpc-status", b"0"))
    target = memoryview(bytearray(nbytes))
    session: Session[Stream] = Session(Stream, SessionLimits(), time.monotonic)
    session.receive(memoryview(opening()))
    session.outbox.take(READ_BYTES)
    sent = calls(nbytes, count)
    began = time.perf_counter()
    for reads in sent:
        stream = None
        for read in reads:
            session.receive(memoryview(read))
            if stream is None:
                stream = session.streams[session.last]
                if not stream.fill(target):
                    session.open_window(stream)
            session.events.clear()
            session.outbox.take(READ_BYTES)
        assert stream is not None
        assert stream.filled == nbytes
        session.begin(stream, head)
        session.send(stream, [response], trailers)
        session.outbox.take(READ_BYTES)
        session.release(stream)
    return (time.perf_counter() - began) / count, count


def by_h2(nbytes: int, response: bytes, count: int) -> tuple[float, int]:
    """The same by h2."""
    target = memoryview(bytearray(nbytes))
    connection = H2Connection(H2Configuration(client_side=False, header_encoding=None))
    connection.initiate_connection()
    connection.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: frames.MAX_WINDOW})
    connection.increment_flow_control_window(frames.MAX_WINDOW - frames.DEFAULT_WINDOW)
    connection.receive_data(opening() + frames.frame(Kind.SETTINGS, frames.ACK, 0, b""))
    connection.data_to_send()
    sent = calls(nbytes, count)
    began = time.perf_counter()
    for number, reads in zip(range(1, 2 * count, 2), sent, strict=True):
        filled = 0
        for read in reads:
            for event in connection.receive_data(read):
                if isinstance(event, DataReceived):
                    target[filled : filled + len(event.data)] = event.data
                    filled += len(event.data)
                    connection.acknowledge_received_data(event.flow_controlled_length, number)
            connection.data_to_send()
        assert filled == nbytes
        connection.send_headers(number, HEAD)
        connection.send_data(number, response)
        connection.send_headers(number, TRAILERS, end_stream=True)
        connection.data_to_send()
    return (time.perf_counter() - began) / count, count


def by_counters(count: int) -> tuple[float, int]:
    """Count requests as a worker does, in a file that the other workers read."""
    metrics, job = own_counters()
    began = time.perf_counter()
    for _ in range(count):
        job.request_began = job.sending_since = time.perf_counter()
        metrics.job_ended(job)
    return (time.perf_counter() - began) / count, count


@cache
def own_counters() -> tuple[Metrics, Job]:
    app = create_app(Settings(), worker_folder=Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]))
    metrics, job = app.gate.metrics, Job(app.context.engine.memory)
    assert metrics is not None
    job.is_sent, job.executed_by = True, "numpy"
    job.route, job.request_bytes, job.response_bytes, job.dialect = "/round", KIB, KIB, "ieee754"
    return metrics, job


def by_prometheus(count: int) -> tuple[float, int]:
    """The same by prometheus_client, whose processes share a folder, too."""
    requests, received, sent, phases = theirs()
    labels = ("/round", "ieee754", "float32", "numpy", "200", "")
    began = time.perf_counter()
    for _ in range(count):
        since = time.perf_counter()
        requests.labels(*labels).inc()
        received.labels(*labels).inc(KIB)
        sent.labels(*labels).inc(KIB)
        for phase in phases[:-1]:
            phase.labels("4KiB").observe(0.0)
        phases[-1].labels("4KiB").observe(time.perf_counter() - since)
    return (time.perf_counter() - began) / count, count


@cache
def theirs() -> tuple[Counter, Counter, Counter, list[Histogram]]:
    labels = ("route", "dialect", "dtype", "backend", "status", "code")
    registry = CollectorRegistry()
    requests, received, sent = (
        Counter(name, name, labels, registry=registry) for name in ("requests", "received", "sent")
    )
    phases = [
        Histogram(f"{phase}_seconds", phase, ["size"], registry=registry, buckets=BUCKETS)
        for phase in PHASES
    ]
    return requests, received, sent, phases


def pairs() -> Iterator[tuple[str, str, Block, Block]]:
    """A library, what both do, and a block of each: the service's own first."""
    for what, nbytes, response, count in (
        ("a call of 1 KiB, without I/O", KIB, bytes(KIB), 200),
        ("an upload of 16 MiB, without I/O", 16 * MIB, b"", 1),
    ):
        own, others = (partial(by, nbytes, response, count) for by in (by_session, by_h2))
        yield "h2", what, own, others
    own, others = partial(by_counters, 2000), partial(by_prometheus, 2000)
    yield "prometheus_client, several processes", "counting a request", own, others


def rows(rounds: int) -> list[dict[str, Any]]:
    """The medians of blocks in turn."""
    found = []
    for library, what, own, others in pairs():
        blocks: Mapping[str, Block] = {"own": own, "theirs": others}
        medians = {
            name: statistics.median(seconds for seconds, _ in figures)
            for name, figures in in_turn(blocks, rounds, {}).items()
        }
        found.append({"library": library, "what": what, **medians})
    return found


if __name__ == "__main__":
    print(json.dumps(rows(int(sys.argv[1]))))
