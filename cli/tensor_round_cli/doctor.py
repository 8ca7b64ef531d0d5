"""``tensor-round doctor``: checks of a service from its caller's side.

Results, versions, settings and times: :func:`examine` runs every check, one function for each; its
:class:`Report` has findings as sentences, and figures.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

import ml_dtypes
import numpy as np
import numpy.typing as npt
import typer

from tensor_round.clients.client import Client
from tensor_round.contract.digests import DIGESTS, differing
from tensor_round.contract.quoting import one_line, printable
from tensor_round.contract.rounding import Rounding
from tensor_round.contract.version import __version__

from .connecting import DEFAULT_URL, AsJson, Connection, UrlArgument, connects


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    #: The service works, but is probably not configured as intended.
    ADVICE = "advice"
    #: Results or requests are wrong, or will be.
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: its name, its level, and a sentence."""

    check: str
    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class Figures:
    """Times of rounding through a service, and of the same bytes on this host's loopback.

    Latencies are medians in milliseconds, for ``small_bytes`` each way. Throughputs are the best
    in bytes per second, for ``large_bytes`` each way.
    """

    small_bytes: int
    large_bytes: int
    latency_ms: float
    loopback_latency_ms: float
    throughput: float
    loopback_throughput: float


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of an examination of the service at ``url``, and its figures."""

    url: str
    findings: tuple[Finding, ...]
    figures: Figures

    @property
    def is_healthy(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.level is not Level.FAULT for finding in self.findings)

    def as_data(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {**asdict(self), "healthy": self.is_healthy}

    def __str__(self) -> str:
        width = max(len(finding.check) for finding in self.findings)
        marks = {Level.OK: "ok    ", Level.ADVICE: "advice", Level.FAULT: "FAULT "}
        return "\n".join(f"{marks[f.level]}  {f.check:<{width}}  {f.text}" for f in self.findings)


#: The most bytes of one call on a socket.
_PIECE = 256 << 10


@contextlib.contextmanager
def echoing() -> Iterator[socket.socket]:
    """Yield a loopback connection to a thread that returns every byte."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        here = socket.create_connection(listener.getsockname())
        there, _ = listener.accept()
    for end in (here, there):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    thread = threading.Thread(target=_echo, args=(there,), daemon=True)
    thread.start()
    try:
        yield here
    finally:
        here.close()
        thread.join()


def round_trip(sock: socket.socket, source: memoryview, target: memoryview) -> None:
    """Send ``source`` to the other end, and receive as many bytes into ``target``."""
    sender = threading.Thread(target=sock.sendall, args=(source,))
    is_large = len(source) > _PIECE
    if is_large:
        sender.start()
    else:
        sock.sendall(source)
    got = 0
    while got < len(target):
        got += sock.recv_into(target[got:])
    if is_large:
        sender.join()


def _echo(sock: socket.socket) -> None:
    piece = memoryview(bytearray(_PIECE))
    with sock:
        while count := sock.recv_into(piece):
            sock.sendall(piece[:count])


SMALL_BYTES = 1 << 10
LARGE_BYTES = 64 << 20
#: Round trips: the median of the small ones and the best of the large ones are reported.
SMALL_ROUNDS, LARGE_ROUNDS = 50, 3
#: A service that takes this many times as long as the loopback gets advice.
SLOW = 20.0

#: Dtypes whose results for all patterns are compared, to find proxies that change bytes.
_TABLES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def examine(client: Client, url: str) -> Report:
    """Run every check on the service of ``client``; ``url`` names it in the report.

    This takes about a second and some 500 MiB of traffic, less with lower limits of the service.
    Raises the client's errors if the service is not reachable.
    """
    catalog = printable(client.operators())
    limit = catalog["limits"]["max_tensor_bytes"]
    figures = measure(client, limit)
    findings = (
        *check_readiness(client),
        *check_version(catalog.get("service")),
        *check_digests(client),
        *check_bits(client, limit),
        *check_settings(url, catalog),
        *check_speed(figures),
    )
    return Report(url, findings, figures)


def measure(client: Client, max_tensor_bytes: int) -> Figures:
    """Measure latency and throughput of ``client``, and of the loopback."""
    small = np.linspace(-9.0, 9.0, min(SMALL_BYTES, max_tensor_bytes) // 4, dtype=np.float32)
    large = np.resize(small, min(LARGE_BYTES, max_tensor_bytes) // 4)
    target = np.empty_like(large)
    with echoing() as sock:
        floor = _times(_loopback(sock, small), SMALL_ROUNDS)
        large_floor = _times(_loopback(sock, large), LARGE_ROUNDS)
    taken = _times(lambda: client.round(small), SMALL_ROUNDS)
    large_taken = _times(lambda: client.round(large, out=target), LARGE_ROUNDS)
    return Figures(
        small.nbytes,
        large.nbytes,
        latency_ms=statistics.median(taken) * 1e3,
        loopback_latency_ms=statistics.median(floor) * 1e3,
        throughput=large.nbytes / min(large_taken),
        loopback_throughput=large.nbytes / min(large_floor),
    )


def _loopback(sock: socket.socket, x: npt.NDArray[Any]) -> Callable[[], None]:
    source, target = x.data.cast("B"), np.empty_like(x).data.cast("B")
    return lambda: round_trip(sock, source, target)


def _times(work: Callable[[], Any], rounds: int) -> list[float]:
    """Seconds of each call, after a first one that opens connections and fills caches."""
    work()
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return taken


def check_readiness(client: Client) -> Iterator[Finding]:
    """Check that the service is ready."""
    if client.ready():
        yield Finding("ready", Level.OK, "The service is reachable and ready.")
    else:
        yield Finding("ready", Level.FAULT, "The service is reachable, but not ready.")


def check_version(service: dict[str, Any] | None) -> Iterator[Finding]:
    """Compare the version in ``GET /operators``, if there is a service, with this package's."""
    theirs = __version__ if service is None else service.get("version")
    if theirs == __version__:
        yield Finding("version", Level.OK, f"Service and client have version {__version__}.")
    else:
        text = (
            f"The service has version {theirs or '(unknown)'}, the client {__version__}: "
            "one of them may not know all that the other does."
        )
        yield Finding("version", Level.ADVICE, text)


def check_digests(client: Client) -> Iterator[Finding]:
    """Compare the digests of each backend with the published ones."""
    backends = client.conformance()["backends"]
    for name, rows in backends.items():
        if wrong := differing(rows):
            text = f"{one_line(name)} rounds wrong: {', '.join(wrong)}."
            yield Finding("conformance", Level.FAULT, text)
        else:
            text = f"{one_line(name)}: all {len(DIGESTS)} digests are as published."
            yield Finding("conformance", Level.OK, text)


def check_bits(client: Client, max_tensor_bytes: int) -> Iterator[Finding]:
    """Round all patterns of some dtypes through the service, and compare the digests."""
    wrong = []
    most = max_tensor_bytes // 2
    for (dtype, rounding), published in DIGESTS.items():
        if dtype in _TABLES:
            table = np.arange(1 << 16, dtype="<u2").view(_TABLES[dtype])
            digest = hashlib.sha256()
            for start in range(0, table.size, most):
                result = client.round(table[start : start + most], Rounding(rounding))
                digest.update(np.ascontiguousarray(result).view("<u2").tobytes())
            if digest.hexdigest() != published:
                wrong.append(f"{dtype} {rounding}")
    if wrong:
        text = f"Results differ on their way here: {', '.join(wrong)}."
        yield Finding("bits", Level.FAULT, text)
    else:
        text = "Every pattern of float16 and bfloat16 comes back right, in all five roundings."
        yield Finding("bits", Level.OK, text)


def check_settings(url: str, catalog: dict[str, Any]) -> Iterator[Finding]:
    """Look for settings that are probably mistakes."""
    service, limits = catalog.get("service", {}), catalog["limits"]
    if not _is_local(url):
        if urlsplit(url).scheme == "http":
            keys = ", and API keys with them" if service.get("api_keys") else ""
            text = f"Tensors{keys} are sent to another host without TLS."
            yield Finding("encryption", Level.ADVICE, text)
        if not service.get("api_keys") and not service.get("tls"):
            text = "Every host that reaches the service may use it: no API key is required."
            yield Finding("access", Level.ADVICE, text)
    most, in_flight = limits["max_tensor_bytes"], limits["max_bytes_in_flight"]
    if in_flight < 2 * most:
        text = (
            f"One tensor of the largest size ({most} bytes) takes more than half of "
            f"MAX_BYTES_IN_FLIGHT ({in_flight}): others are refused meanwhile."
        )
        yield Finding("limits", Level.ADVICE, text)
    else:
        text = f"At most {most} bytes a tensor, {in_flight} bytes in flight."
        yield Finding("limits", Level.OK, text)


def _is_local(url: str) -> bool:
    """Whether the service is on this host."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return parts.hostname == "localhost"


def check_speed(figures: Figures) -> Iterator[Finding]:
    """Compare the service's times with the loopback's."""
    ratio = figures.latency_ms / figures.loopback_latency_ms
    text = (
        f"{figures.small_bytes} bytes are rounded in {figures.latency_ms:.3f} ms; "
        f"the loopback here alone takes {figures.loopback_latency_ms:.3f} ms."
    )
    yield Finding("latency", Level.ADVICE if ratio > SLOW else Level.OK, text)
    ratio = figures.loopback_throughput / figures.throughput
    text = (
        f"{figures.large_bytes >> 20} MiB are rounded at {figures.throughput / 1e6:.0f} MB/s; "
        f"the loopback here alone has {figures.loopback_throughput / 1e6:.0f} MB/s."
    )
    yield Finding("throughput", Level.ADVICE if ratio > SLOW else Level.OK, text)


@connects
def doctor(
    url: UrlArgument = DEFAULT_URL,
    *,
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """Check a service: readiness, version, results, settings, latency and throughput.

    The exit code is 1 if a check fails.
    """
    with connection.client(as_json) as client:
        report = examine(client, url)
    typer.echo(json.dumps(report.as_data()) if as_json else str(report))
    if not report.is_healthy:
        raise typer.Exit(1)
