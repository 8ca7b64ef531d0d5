"""The ways to ask for a rounded float32 tensor, as bytes on a wire."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from mmap import mmap
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..measuring.client import Address, Arena, Connection
from ..servers.floor import LENGTH

#: Asks once; what it returns ends with the response's bytes.
Call: TypeAlias = Callable[[], Any]
#: A connection, or whatever it takes, for tensors of one size.
Connect: TypeAlias = Callable[[Address, Arena, int], AbstractContextManager[Call]]

#: What the shared memory of a run is called; the service gives out nothing without a prefix.
PREFIX = "tensor_round_bench"
MODEL = "/v2/models/round/infer"
REGIONS = "/v2/systemsharedmemory"

_region_numbers = itertools.count()


def head(path: str, length: int | None, fields: Mapping[str, str]) -> bytes:
    """The head of a POST request; one of no length is chunked."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", framing]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join((*lines, "", "")).encode()


def native_fields(nbytes: int) -> dict[str, str]:
    """What ``POST /round`` has to be told; other servers do not mind the descriptor."""
    descriptor = {"dialect": "ieee754", "input": {"dtype": "float32", "shape": [nbytes // 4]}}
    return {
        "Content-Type": "application/octet-stream",
        "Operator-Descriptor": json.dumps(descriptor, separators=(",", ":")),
    }


def native_head(nbytes: int) -> bytes:
    """``POST /round`` with the tensor's bytes."""
    return head("/round", nbytes, native_fields(nbytes))


def binary_head(nbytes: int) -> bytes:
    """The Open Inference Protocol's binary form: a JSON head, the tensor's bytes."""
    body = inference(nbytes, {"binary_data_size": nbytes}, {"binary_data": True})
    length = {"Inference-Header-Content-Length": str(len(body))}
    return head(MODEL, len(body) + nbytes, length) + body


def inference(nbytes: int, source: Mapping[str, Any], target: Mapping[str, Any]) -> bytes:
    tensor = {"name": "X", "datatype": "FP32", "shape": [nbytes // 4], "parameters": source}
    request = {"inputs": [tensor], "outputs": [{"name": "Y", "parameters": target}]}
    return json.dumps(request, separators=(",", ":")).encode()


@contextmanager
def raw(address: Address, arena: Arena, nbytes: int) -> Iterator[Call]:
    """The floor's way: a length once, then tensors."""
    connection = Connection(address, arena)
    connection.send(LENGTH.pack(nbytes))
    request = arena.request(b"", nbytes)

    def call() -> memoryview:
        connection.send(request)
        return connection.receive(nbytes)

    try:
        yield call
    finally:
        connection.close()


def over_http(make_head: Callable[[int], bytes]) -> Connect:
    """A request over one kept connection, always the same bytes."""

    @contextmanager
    def opened(address: Address, arena: Arena, nbytes: int) -> Iterator[Call]:
        connection = Connection(address, arena)
        request = arena.request(make_head(nbytes), nbytes)
        try:
            yield lambda: connection.exchange(request)
        finally:
            connection.close()

    return opened


@contextmanager
def shared_memory(address: Address, arena: Arena, nbytes: int) -> Iterator[Call]:
    """The tensor lies in memory that both sides see; only its name goes over the wire."""
    name = f"{PREFIX}_{next(_region_numbers)}"
    path = Path("/dev/shm", name)
    with path.open("w+b") as file:
        file.truncate(2 * nbytes)
        memory = np.frombuffer(mmap(file.fileno(), 2 * nbytes), np.uint8)
    memory[:nbytes] = arena.tensor(nbytes).view(np.uint8)
    connection = Connection(address, arena)

    def post(path: str, document: Mapping[str, Any]) -> None:
        body = json.dumps(document).encode()
        connection.exchange(arena.request(head(path, len(body), {}) + body, 0))

    try:
        region = {"key": f"/{name}", "offset": 0, "byte_size": 2 * nbytes}
        post(f"{REGIONS}/region/{name}/register", region)
        source = {"shared_memory_region": name, "shared_memory_byte_size": nbytes}
        body = inference(nbytes, source, {**source, "shared_memory_offset": nbytes})
        request = arena.request(head(MODEL, len(body), {}) + body, 0)
        response = memory[nbytes:].data

        def call() -> memoryview:
            connection.exchange(request)
            return response

        yield call
        post(f"{REGIONS}/region/{name}/unregister", {})
    finally:
        connection.close()
        path.unlink()


@contextmanager
def sdk(address: Address, arena: Arena, nbytes: int, *, into: bool) -> Iterator[Call]:
    """This project's client; ``into`` an array that is already there, or a new one."""
    import tensor_round

    tensor = arena.tensor(nbytes)
    out = np.empty_like(tensor) if into else None
    with tensor_round.Client(f"http://127.0.0.1:{address}") as client:
        yield lambda: client.round(tensor, out=out).view(np.uint8)


@contextmanager
def sdk_by_httpx2(address: Address, arena: Arena, nbytes: int) -> Iterator[Call]:
    """The same by httpx2's own transport."""
    import httpx2

    import tensor_round

    tensor = arena.tensor(nbytes)
    url = f"http://127.0.0.1:{address}"
    with tensor_round.Client(url, transport=httpx2.HTTPTransport()) as client:
        yield lambda: client.round(tensor).view(np.uint8)
