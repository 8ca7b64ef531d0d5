"""What is measured: servers, and the ways of asking each."""

from __future__ import annotations

import hashlib
import secrets
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..measuring.client import Arena, Refused
from ..measuring.processes import LOGS, NotStarted, Server, started
from . import protocols
from .protocols import Connect

KIB = 1 << 10
MIB = 1 << 20

HERE = Path(__file__).parent.parent
TRITON = Path(".venvs/triton")
#: What the service does without, of bench/libraries/requirements.txt.
LIBRARIES = Path(".venvs/libraries/bin/python")
#: The tests' own: an authority, and of it a server called localhost.
CERTIFICATES = HERE.parent / "tests" / "support" / "services" / "certificates"
#: Of this run alone; the service has no more than its digest.
API_KEY = secrets.token_urlsafe(32)
DIGEST = hashlib.sha256(API_KEY.encode()).hexdigest()
KEYS = LOGS / "api-keys"


@dataclass(frozen=True)
class Program:
    """A server to start; ``{port}`` in its command is its port."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    #: What must be there; `make bench` sees to it, for peers with PEERS=1.
    needs: Path = HERE
    #: Files to write before it is started.
    files: Mapping[Path, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """A row of the tables: a way of asking a server."""

    name: str
    program: str
    connect: Connect
    #: What the load generator is to send, where this can be asked by it.
    head: Callable[[int], bytes] | None = None
    #: The largest tensor that it is measured with.
    to_bytes: int = sys.maxsize
    #: Whether it is measured for its memory.
    for_memory: bool = False


def service(*options: str, files: Mapping[Path, str] | None = None) -> Program:
    where = () if "--uds" in options else ("--port", "{port}")
    command = (sys.executable, "-m", "tensor_round_service", "--backend=numpy", *where, *options)
    return Program(command, files=files or {})


def script(name: str) -> Program:
    return Program((sys.executable, str(HERE / "servers" / name), "{port}"))


def triton(*options: str) -> Program:
    packages = next(TRITON.glob("lib/python3*/site-packages"), TRITON)
    binary = packages / "pytriton/tritonserver/bin/tritonserver"
    command = (
        str(binary),
        f"--model-repository={HERE / 'servers' / 'triton'}",
        f"--backend-directory={TRITON / 'backends'}",
        "--allow-metrics=false",
        *options,
    )
    # Its backend is a process with a Python of its own, started with this environment.
    libraries = (packages.absolute() / "nvidia_pytriton.libs", sysconfig.get_config_var("LIBDIR"))
    environment = {
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        "TRITON_SITE_PACKAGES": str(packages.absolute()),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return Program(command, environment, TRITON / "backends")


PROGRAMS = {
    "floor": script("floor.py"),
    "loop": script("loop.py"),
    "asgi": script("asgi.py"),
    "fastapi": script("fastapi_route.py"),
    "service": service(f"--shared-memory-prefix={protocols.PREFIX}"),
    "service-two": service("--workers=2"),
    "service-keys": service(f"--api-keys-file={KEYS}", files={KEYS: f"{DIGEST} bench\n"}),
    "service-tls": service(f"--ssl-certfile={CERTIFICATES / 'server.pem'}"),
    "service-unix": service("--uds", "{uds}"),
    "grpcio": Program(
        (str(LIBRARIES), "-m", "bench.libraries.grpcio_server", "{uds}"), needs=LIBRARIES
    ),
    "triton": triton("--http-port={port}", "--allow-grpc=false"),
    "triton-grpc": triton("--grpc-port={port}", "--allow-http=false"),
}


def http(name: str, program: str, head: Callable[[int], bytes], **about: Any) -> Target:
    """A server that is asked over HTTP, also with many connections."""
    return Target(name, program, protocols.over_http(head), head, **about)


NATIVE, BINARY = protocols.native_head, protocols.binary_head
FLOOR = Target("floor: a bare socket server", "floor", protocols.raw, for_memory=True)
ROUND = http("POST /round", "service", NATIVE, for_memory=True)
ROUND_TWO = http("POST /round, WORKERS=2", "service-two", NATIVE)
INFER = http("POST /v2/.../infer, binary", "service", BINARY, for_memory=True)
SHARED = Target("/v2, shared memory", "service", protocols.shared_memory)
SDK = Target("SDK: client.round(x)", "service", partial(protocols.sdk, into=False))
SDK_OUT = Target("SDK: client.round(x, out=y)", "service", partial(protocols.sdk, into=True))
LOOP = http("uvloop alone, no HTTP server", "loop", NATIVE, to_bytes=64 * KIB)
ASGI = http("a bare ASGI callable under uvicorn", "asgi", NATIVE)
FASTAPI = http("a FastAPI route, await request.body()", "fastapi", NATIVE, for_memory=True)
TRITON_INFER = http("Triton 2.51, Python backend, binary", "triton", BINARY, for_memory=True)
TRITON_SHARED = Target("Triton, shared memory", "triton", protocols.shared_memory)

#: With one connection, each in its turn.
TARGETS = (
    FLOOR,
    ROUND,
    INFER,
    SHARED,
    SDK,
    SDK_OUT,
    LOOP,
    ASGI,
    FASTAPI,
    TRITON_INFER,
    TRITON_SHARED,
)
#: With many.
UNDER_LOAD = (ROUND, ROUND_TWO, INFER, LOOP, ASGI, FASTAPI, TRITON_INFER)


@contextmanager
def servers(names: Collection[str]) -> Iterator[tuple[dict[str, Server], dict[str, str]]]:
    """The servers of these names, running; and why others are not."""
    running: dict[str, Server] = {}
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        for name, program in PROGRAMS.items():
            if name not in names:
                continue
            if not program.needs.exists():
                missing[name] = "not installed: make bench PEERS=1"
                continue
            for path, text in program.files.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            try:
                running[name] = stack.enter_context(
                    started(name, program.command, program.environment)
                )
            except NotStarted as fault:
                missing[name] = str(fault)
        yield running, missing


def available(
    targets: Iterable[Target],
    running: Mapping[str, Server],
    not_running: Mapping[str, str],
    arena: Arena,
) -> tuple[set[Target], dict[str, str]]:
    """Those that give right responses, and why the others do not."""
    found: set[Target] = set()
    missing: dict[str, str] = {}
    for target in dict.fromkeys(targets):
        if target.program not in running:
            missing[target.name] = not_running[target.program]
            continue
        try:
            with target.connect(running[target.program].address, arena, KIB) as call:
                response = np.frombuffer(call(), np.uint8)[-KIB:]
        except (Refused, ConnectionError) as refusal:
            missing[target.name] = str(refusal)
            continue
        if response.tobytes() != np.rint(arena.tensor(KIB)).tobytes():
            raise SystemExit(f"{target.name} gives wrong responses")
        found.add(target)
    return found, missing
