"""The bench's own parts: what it takes apart, what it sends, what it keeps."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.services.server import Service

ROOT = Path(__file__).parent.parent

MEASURE = """
from bench.measuring import anatomy
anatomy.LARGE, anatomy.BLOCKS = 1 << 20, 4
print(json.dumps(anatomy.measure()))
"""
WIRES = """
from bench.peers import variants
from bench.measuring.client import Arena
arena = Arena(1024)
wires = {row.name: row.wire(arena) for row in variants.ON_ONE_CORE}
print(json.dumps([
    {"name": name, "sent": wire.data.decode("latin-1"), "offsets": wire.offsets}
    for name, wire in wires.items()
]))
"""
WRITTEN = """
from bench.report import results
rows = [{"a": 1.234567e-5, "b": [2.0]}, {"a": 3, "b": []}]
text = results.text({"quick": True, "seconds": 123456, "alike": rows, "others": [*rows, {"a": 1}]})
print(json.dumps([text, results.read(text)]))
"""
BUILDS = """
import sysconfig
from bench.measuring import interpreter
def built(arguments, schemes=("posix_prefix", "venv")):
    sysconfig.get_config_var = lambda name: {"CONFIG_ARGS": arguments}[name]
    sysconfig.get_scheme_names = lambda: schemes
    return interpreter.build(), interpreter.options(), interpreter.is_optimized()
image = "'--build=x86_64-linux-gnu' '--enable-optimizations' '--with-lto' 'LDFLAGS=-Wl,-x'"
pyenv = "'--prefix=/root/x' '--enable-shared' '--with-lto=no' 'CPPFLAGS=-I/root/include'"
debian = "'--enable-shared' '--prefix=/usr' 'CFLAGS=-g   -fstack-protector-strong '"
print(json.dumps([built(image), built(pyenv), built(debian, ("deb_system", "venv")), built(None)]))
"""
TWO_WORKERS = """
from bench.peers import targets
from bench.report import goals
def found(cores, server, generator, one, two):
    def row(target, rate):
        about = {"target": target.name, "bytes": 1024, "connections": 64, "best": rate}
        return {**about, "server_cpu": server, "generator_cpu": generator}
    others = ("latency", "deployed", "kernels", "memory", "grpc", "grpc_memory")
    sections = dict.fromkeys(others, ())
    load = [row(targets.ROUND, one), row(targets.ROUND_TWO, two)]
    judged = goals.judged({**sections, "machine": {"cores": cores}, "load": load})
    (goal,) = [goal for goal in judged if "two workers" in goal["what"]]
    return round(goal["measured"], 3), goal["met"]
print(json.dumps([
    found(2, 43e-6, 19e-6, 10_000, 13_870), found(2, 43e-6, 19e-6, 10_000, 13_000),
    found(8, 43e-6, 19e-6, 10_000, 20_000), found(8, 20e-6, 20e-6, 10_000, 10_000),
]))
"""
GRPC = """
import sys
import numpy as np
from bench.measuring.blocks import block
from bench.measuring.client import Arena
from bench.peers.grpc import over_grpc
port, nbytes, streams = map(int, sys.argv[1:])
arena = Arena(streams * nbytes)
rounded = np.rint(arena.tensor(nbytes)).tobytes()
with over_grpc(port, arena, nbytes, streams) as calls:
    right = bytes(calls())[-nbytes:] == rounded
    arena.response[:] = bytes(len(arena.response))
    seconds, number = block(calls, streams, 0)
    places = [bytes(calls.response(place))[-nbytes:] == rounded for place in range(streams)]
print(json.dumps([right, places, seconds, number]))
"""
BESIDE_TRITON = """
from bench.measuring.grpc import RAW
from bench.measuring.latency import ONE_CORE
from bench.peers import targets
from bench.report import goals, tables
def row(target, seconds, cpu):
    about = {"client": RAW, "target": target.name, "bytes": 1024, "streams": 1}
    about["placement"] = ONE_CORE
    return {**about, "median": seconds, "best": seconds, "server_cpu": cpu, "rounds": [seconds]}
sections = dict.fromkeys(("latency", "deployed", "kernels", "memory", "load"), ())
rows = [row(targets.GRPC, 3e-4, 4e-4), row(targets.TRITON_GRPC, 1e-3, 8e-4)]
memory = [{"target": targets.GRPC.name, "bytes": 100, "growth": 110}]
both = {**sections, "machine": {"cores": 2}, "grpc": rows, "grpc_memory": memory}
alone = {**both, "grpc": rows[:1]}
print(json.dumps([
    [(goal["what"], goal["measured"], goal["met"]) for goal in goals.judged(found)
     if goal["what"].startswith("gRPC") and goal["measured"] is not None]
    + tables.beside(found["grpc"])[1:]
    for found in (both, alone)
]))
"""


def told(program: str, *arguments: object) -> str:
    """What a program of the bench prints."""
    command = [sys.executable, "-c", "import json\n" + program, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_parts_of_a_request() -> None:
    rows = json.loads(told(MEASURE))
    assert len({row["layer"] for row in rows if row["bytes"] == 1024}) == 2
    assert all(row["seconds"] > 0 for row in rows)


def test_requests_differ_where_their_rows_say_so() -> None:
    rows = json.loads(told(WIRES))
    assert len(rows) == len({row["name"] for row in rows})
    for row in rows:
        expected = 2 if "traceparent" in row["name"] else 1 if "x-request-id" in row["name"] else 0
        assert len(row["offsets"]) == expected, row["name"]
        for offset in row["offsets"]:
            assert row["sent"][offset:][:16] == "0123456789abcdef"
            assert offset < row["sent"].index("\r\n\r\n")


def test_results_are_json_of_a_line_a_row() -> None:
    text, read = json.loads(told(WRITTEN))
    rows = [{"a": 1.2346e-5, "b": [2.0]}, {"a": 3, "b": []}]
    others = [*rows, {"a": 1}]
    assert read == {"quick": True, "seconds": 123456, "alike": rows, "others": others}
    assert '"columns": ["a", "b"], "rows": [\n[1.2346e-05,[2.0]],\n[3,[]]\n]' in text
    assert '{"a": 3, "b": []},\n{"a": 1}\n]' in text


def test_committed_results_are_read() -> None:
    told(
        "from bench.report import results\nfrom pathlib import Path\n"
        "for path in Path('bench/results').glob('[0-9]*.json'):\n"
        "    assert results.read(path.read_text())['latency'][0]['rounds']\n"
    )


def test_the_build_of_the_interpreter_is_told_without_paths() -> None:
    image, pyenv, debian, unknown = json.loads(told(BUILDS))
    optimized = ["--build=x86_64-linux-gnu", "--enable-optimizations", "--with-lto"]
    assert image == ["built with PGO and LTO", optimized, True]
    without = "built without PGO and LTO"
    assert pyenv == [without, ["--enable-shared", "--with-lto=no"], False]
    assert debian == ["built by Debian with PGO and LTO", ["--enable-shared"], True]
    assert unknown == [without, [], False]


def test_two_workers_are_held_to_what_the_cores_leave_them() -> None:
    """Two cores, beside the generator; with many the workers, or the generator, are the limit."""
    found = json.loads(told(TWO_WORKERS))
    assert found == [[1.0, True], [0.937, False], [1.0, True], [1.0, True]]


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service("--max-tensor-bytes", "8MiB") as running:
        yield running


@pytest.mark.parametrize(("nbytes", "streams"), [(1 << 10, 1), (8 << 20, 1), (1 << 20, 16)])
def test_the_bare_client_speaks_grpc(service: Service, nbytes: int, streams: int) -> None:
    right, places, seconds, number = json.loads(told(GRPC, service.port, nbytes, streams))
    assert right
    assert places == [True] * streams
    assert seconds > 0
    assert number == (streams if streams > 1 else 3)


def test_the_bare_client_tells_a_refusal(service: Service) -> None:
    with pytest.raises(AssertionError, match="Refused: a call over gRPC was refused"):
        told(GRPC, service.port, 9 << 20, 1)


def test_grpc_is_held_to_triton_s() -> None:
    both, alone = json.loads(told(BESIDE_TRITON))
    memory = ["gRPC, memory of a call of 64 MiB, over the tensor", 1.1, True]
    *goals, line = both
    assert goals == [
        ["gRPC, raw client, 1 KiB, one core, over Triton's", 0.3, True],
        ["gRPC, raw client, 1 KiB, the server's core time over Triton's", 0.5, False],
        memory,
    ]
    assert line[:3] == ["raw client", "1 KiB", "one core"]
    assert line[3:] == ["300 us", "1.00 ms", "0.30 x", "0.30 x", "400 us", "800 us", "0.50 x"]
    assert alone == [memory, [*line[:4], "-", "-", "-", "400 us", "-", "-"]]
