"""The bench's own parts: what it takes apart, what it sends, what it keeps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

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
    return interpreter.build(), interpreter.is_optimized()
image = "'--build=x86_64-linux-gnu' '--enable-optimizations' '--with-lto' 'LDFLAGS=-Wl,-x'"
pyenv = "'--prefix=/root/x' '--enable-shared' '--with-lto=no' 'CPPFLAGS=-I/root/include'"
debian = "'--enable-shared' '--prefix=/usr' 'CFLAGS=-g   -fstack-protector-strong '"
print(json.dumps([built(image), built(pyenv), built(debian, ("deb_system", "venv")), built(None)]))
"""
BESIDE_TRITON = """
from bench.measuring.grpc import SERVICE, TRITON_GRPC, TRITONCLIENT
from bench.measuring.latency import ONE_CORE
from bench.report import goals, tables
def row(target, seconds, cpu):
    about = {"client": TRITONCLIENT, "target": target, "bytes": 1024, "streams": 1}
    about["placement"] = ONE_CORE
    return {**about, "median": seconds, "best": seconds, "server_cpu": cpu, "rounds": [seconds]}
sections = dict.fromkeys(("latency", "deployed", "kernels", "memory", "load"), ())
rows = [row(SERVICE, 3e-4, 4e-4), row(TRITON_GRPC, 1e-3, 8e-4)]
memory = [{"target": SERVICE, "bytes": 100, "growth": 110}]
both = {**sections, "machine": {"cores": 2}, "grpc": rows, "grpc_memory": memory}
alone = {**both, "grpc": rows[:1]}
print(json.dumps([
    [(goal["what"], goal["measured"], goal["met"]) for goal in goals.judged(found)
     if goal["measured"] is not None]
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


def test_build_of_the_interpreter_is_named() -> None:
    without = ["built without PGO and LTO", False]
    debian = ["built by Debian with PGO and LTO", True]
    assert json.loads(told(BUILDS)) == [["built with PGO and LTO", True], without, debian, without]


def test_grpc_is_held_to_triton() -> None:
    both, alone = json.loads(told(BESIDE_TRITON))
    memory = ["the service, gRPC, memory of a large request, over the payload", 1.1, True]
    *goals, line = both
    assert goals == [
        ["gRPC, 1 x 1 KiB, one core, over Triton", 0.3, True],
        ["gRPC, 1 x 1 KiB, one core, over Triton, core time", 0.5, False],
        memory,
    ]
    assert line[:3] == ["tritonclient.grpc", "1 KiB", "one core"]
    assert line[3:] == ["300 us", "1.00 ms", "0.30 x", "0.30 x", "400 us", "800 us", "0.50 x"]
    assert alone == [memory, [*line[:4], "-", "-", "-", "400 us", "-", "-"]]
