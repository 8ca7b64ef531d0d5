"""What a few callers can take from all others: memory, and time of the threads that round."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from support.http.native_form import ieee754, post
from support.services.server import Service

from .metrics import MIB, milliseconds
from .report import Report

#: The tensor of the caller who is to be served beside the others, and theirs.
NORMAL_BYTES = 4 * MIB
LARGE_BYTES = 64 * MIB
#: Numbers of which each is nested 32 deep if the response is written.
NESTED = 2_000_000
BUDGET = 300 * MIB
#: Callers who compare, round or send JSON beside the normal one.
CALLERS = 4
#: How much longer a request may take beside comparisons and JSON than beside roundings.
MOST_RATIO = 2.0
#: The most memory of a connection that has begun a control request, its TCP buffers aside.
MOST_CONNECTION_BYTES = 128 << 10
#: A steady reader's bytes a second; MIN_SEND_RATE is two thirds of that.
STEADY_RATE = 96 << 10
#: RECEIVE_TIMEOUT, in which a reader may read nothing, and what checks once a second add.
GRACE, TOLERANCE = 10.0, 15.0


def nesting(callers: float) -> Report:
    """Small requests with responses of a hundred MiB; the callers of the second round hang up."""
    body = gzip.compress(nested(NESTED))
    fields = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    with Service("--max-bytes-in-flight", str(BUDGET)) as service:
        alone = statistics.median(normal(service, 5))
        before, began = service.rss(), time.monotonic()
        reply = service.request("POST", "/round", body, fields)
        seconds = time.monotonic() - began
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        message = f"POST /round HTTP/1.1\r\nHost: x\r\n{head}Content-Length: {len(body)}\r\n\r\n"
        for _ in range(int(callers)):
            with contextlib.closing(service.connect()) as sock:
                sock.sendall(message.encode() + body)
        (beside,) = normal(service, 1)
        grown = service.peak_rss() - before
    report = Report(
        f"{len(body):,} bytes (gzip) for {NESTED:,} numbers of rank 32: {reply.status} with "
        f"{len(reply.content) / MIB:.1f} MiB after {seconds:.1f} s; {callers:g} such callers "
        f"who hang up: the next /round of {NORMAL_BYTES / MIB:g} MiB takes "
        f"{milliseconds(beside)}, {milliseconds(alone)} alone; peak memory +{grown / MIB:.0f} MiB "
        f"on a budget of {BUDGET / MIB:g} MiB"
    )
    report.expect("the response is written", reply.status == 422)
    report.expect("more memory than the budget", grown < BUDGET)
    report.expect("others wait for seconds", beside < 2.0 + 10 * alone)
    return report


def nested(count: int) -> bytes:
    """A request whose numbers are one flat array, and whose response nests each 32 deep."""
    descriptor = ieee754("int8", [count] + [1] * 31)
    return f'{{"descriptor":{descriptor},"data":[{",".join("1" * count)}]}}'.encode()


def lanes(rounds: float) -> Report:
    """A normal caller beside four who round, who compare, and who send JSON."""
    large = bytes(LARGE_BYTES)
    descriptor = {"Operator-Descriptor": ieee754("float32", [LARGE_BYTES // 4])}
    numbers = json.dumps([1.5] * 500_000)
    document = f'{{"descriptor":{ieee754("float32", [500_000])},"data":{numbers}}}'.encode()
    others: dict[str, tuple[str, bytes, dict[str, str]]] = {
        "roundings of 64 MiB": ("/round", large, descriptor),
        "comparisons of 64 MiB": ("/compare", large, descriptor),
        "JSON documents of 2 MiB": ("/round", document, {"Content-Type": "application/json"}),
    }
    with Service() as service:
        seconds = {"nobody": statistics.median(normal(service, int(rounds)))}
        for name, (path, body, fields) in others.items():
            with repeated(partial(service.request, "POST", path, body, fields)):
                time.sleep(1)
                seconds[name] = statistics.median(normal(service, int(rounds)))
    figures = ", ".join(f"{milliseconds(value)} beside {name}" for name, value in seconds.items())
    report = Report(f"a /round of {NORMAL_BYTES / MIB:g} MiB, median of {rounds:g}: {figures}")
    roundings, *slow = list(seconds)[1:]
    for name in slow:
        ratio = seconds[name] / seconds[roundings]
        report.expect(f"{ratio:.1f} times as long beside {name}", ratio < MOST_RATIO)
    return report


def control_bodies(connections: float) -> Report:
    """Callers who begin a control request, send one byte of its body, and wait."""
    head = b"POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n{"
    with Service() as service, contextlib.ExitStack() as stack:
        before = service.rss()
        for _ in range(int(connections)):
            stack.enter_context(contextlib.closing(service.connect())).sendall(head)
        time.sleep(1)
        grown = (service.rss() - before) / connections
        in_flight = bytes_in_flight(service)
    report = Report(
        f"{connections:g} connections that have sent one byte: {grown / 1024:.0f} KiB each, of "
        f"which {in_flight / connections / 1024:.0f} KiB are reserved in the budget"
    )
    report.expect("more memory a connection", grown < MOST_CONNECTION_BYTES)
    report.expect("nothing is reserved", in_flight > 0)
    return report


def slow_readers(mebibytes: float) -> Report:
    """One reads steadily at 1.5 times the minimum rate, one reads nothing; default limits."""
    nbytes = int(mebibytes * MIB)
    with Service("--receive-timeout", str(GRACE)) as service:
        began = time.monotonic()
        ended: list[float] = []
        with contextlib.closing(asked(service, 4 * nbytes)):
            watch = threading.Thread(target=await_cut, args=(service, began, ended))
            watch.start()
            with contextlib.closing(asked(service, nbytes)) as sock:
                got = read_steadily(sock, nbytes)
            seconds = time.monotonic() - began
            watch.join()
    report = Report(
        f"at {STEADY_RATE >> 10} KiB/s a reader got {got / MIB:.2f} of {mebibytes:g} MiB in "
        f"{seconds:.0f} s; one who reads nothing was aborted after "
        + (f"{ended[0]:.1f} s" if ended else "none of these seconds")
    )
    report.expect("the steady reader was aborted", got >= nbytes)
    report.expect("the other was not", bool(ended) and ended[0] < GRACE + TOLERANCE)
    return report


def normal(service: Service, rounds: int) -> list[float]:
    """The seconds of each /round of the normal caller."""
    x = np.full(NORMAL_BYTES // 4, 1.5, "<f4")
    found = []
    for _ in range(rounds):
        began = time.monotonic()
        assert post(service, ieee754("float32", [x.size]), x.tobytes()).status == 200
        found.append(time.monotonic() - began)
    return found


@contextlib.contextmanager
def repeated(call: Callable[[], object]) -> Iterator[None]:
    """Four callers, each of whom calls again and again."""
    ends = threading.Event()

    def call_often() -> None:
        while not ends.is_set():
            call()

    callers = [threading.Thread(target=call_often) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    try:
        yield
    finally:
        ends.set()
        for caller in callers:
            caller.join()


def bytes_in_flight(service: Service) -> float:
    """What the service says of its budget."""
    lines = service.get("/metrics").content.decode().splitlines()
    name = "tensor_round_bytes_in_flight "
    return sum(float(line.split()[1]) for line in lines if line.startswith(name))


def asked(service: Service, nbytes: int) -> socket.socket:
    """A connection on which the response to a /round of this size is due."""
    sock = service.connect()
    head = f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: {nbytes}\r\n"
    described = f"Operator-Descriptor: {ieee754('float32', [nbytes // 4])}\r\n\r\n"
    sock.sendall((head + described).encode() + bytes(nbytes))
    return sock


def read_steadily(sock: socket.socket, nbytes: int) -> int:
    """Read at the steady rate; return the bytes that came."""
    got, began = 0, time.monotonic()
    with contextlib.suppress(ConnectionError):
        while got < nbytes and (piece := sock.recv(STEADY_RATE // 8)):
            got += len(piece)
            time.sleep(max(0.0, began + got / STEADY_RATE - time.monotonic()))
    return got


def await_cut(service: Service, began: float, ended: list[float]) -> None:
    """Note when the service has aborted a reader."""
    while time.monotonic() < began + 2 * (GRACE + TOLERANCE):
        if any("slow reader" in line for line in service.log):
            ended.append(time.monotonic() - began)
            return
        time.sleep(0.1)
