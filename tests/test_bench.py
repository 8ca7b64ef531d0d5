"""The bench's own parts: what it takes apart, what it sends, what it keeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from bench.measuring import interpreter
from bench.measuring.client import Arena
from bench.measuring.grpc import SERVICE, TRITON_GRPC, TRITONCLIENT
from bench.measuring.latency import ONE_CORE
from bench.peers import variants
from bench.report import goals, results, tables

RESULTS = Path(__file__).parent.parent / "bench" / "results"


def test_requests_differ_where_their_rows_say_so() -> None:
    arena, names = Arena(1024), [row.name for row in variants.ON_ONE_CORE]
    assert len(names) == len(set(names))
    for row in variants.ON_ONE_CORE:
        wire = row.wire(arena)
        expected = 2 if "traceparent" in row.name else 1 if "x-request-id" in row.name else 0
        assert len(wire.offsets) == expected, row.name
        for offset in wire.offsets:
            assert wire.data[offset:][:16] == b"0123456789abcdef"
            assert offset < wire.data.index(b"\r\n\r\n")


def test_results_are_json_of_a_line_a_row() -> None:
    rows = [{"a": 1.234567e-5, "b": [2.0]}, {"a": 3, "b": []}]
    section: dict[str, Any] = {"alike": rows, "others": [*rows, {"a": 1}]}
    text = results.text({"quick": True, "seconds": 123456, **section})
    rows[0]["a"] = 1.2346e-5
    section["others"] = [*rows, {"a": 1}]
    assert results.read(text) == {"quick": True, "seconds": 123456, **section}
    assert '"columns": ["a", "b"], "rows": [\n[1.2346e-05,[2.0]],\n[3,[]]\n]' in text
    assert '{"a": 3, "b": []},\n{"a": 1}\n]' in text


def test_committed_results_are_read() -> None:
    for path in RESULTS.glob("[0-9]*.json"):
        assert results.read(path.read_text())["latency"][0]["rounds"]


IMAGE = "'--build=x86_64-linux-gnu' '--enable-optimizations' '--with-lto' 'LDFLAGS=-Wl,-x'"
PYENV = "'--prefix=/root/x' '--enable-shared' '--with-lto=no' 'CPPFLAGS=-I/root/include'"
DEBIAN = "'--enable-shared' '--prefix=/usr' 'CFLAGS=-g   -fstack-protector-strong '"


@pytest.mark.parametrize(
    ("arguments", "scheme", "build", "is_optimized"),
    [
        (IMAGE, "posix_prefix", "built with PGO and LTO", True),
        (PYENV, "posix_prefix", "built without PGO and LTO", False),
        (DEBIAN, "deb_system", "built by Debian with PGO and LTO", True),
        (None, "posix_prefix", "built without PGO and LTO", False),
    ],
    ids=["image", "pyenv", "debian", "unknown"],
)
def test_build_of_the_interpreter_is_named(
    monkeypatch: pytest.MonkeyPatch,
    arguments: str | None,
    scheme: str,
    build: str,
    is_optimized: bool,
) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", {"CONFIG_ARGS": arguments}.__getitem__)
    monkeypatch.setattr(sysconfig, "get_scheme_names", lambda: (scheme, "venv"))
    assert (interpreter.build(), interpreter.is_optimized()) == (build, is_optimized)


def row(target: str, seconds: float, cpu: float) -> dict[str, Any]:
    about = {"client": TRITONCLIENT, "target": target, "bytes": 1024, "streams": 1}
    times = {"median": seconds, "best": seconds, "server_cpu": cpu, "rounds": [seconds]}
    return {**about, "placement": ONE_CORE, **times}


def test_grpc_is_held_to_triton() -> None:
    sections = dict.fromkeys(("latency", "deployed", "kernels", "memory", "load"), ())
    rows = [row(SERVICE, 3e-4, 4e-4), row(TRITON_GRPC, 1e-3, 8e-4)]
    memory = [{"target": SERVICE, "bytes": 100, "growth": 110}]
    found: dict[str, Any] = {**sections, "machine": {"cores": 2}, "grpc_memory": memory}

    def judged(rows: list[dict[str, Any]]) -> list[tuple[str, float, bool]]:
        told = goals.judged({**found, "grpc": rows})
        return [
            (goal["what"], goal["measured"], goal["met"])
            for goal in told
            if goal["measured"] is not None
        ]

    of_memory = ("the service, gRPC, memory of a large request, over the payload", 1.1, True)
    assert judged(rows) == [
        ("gRPC, 1 x 1 KiB, one core, over Triton", 0.3, True),
        ("gRPC, 1 x 1 KiB, one core, over Triton, core time", 0.5, False),
        of_memory,
    ]
    assert judged(rows[:1]) == [of_memory]
    about = ["tritonclient.grpc", "1 KiB", "one core", "300 us"]
    both, alone = (tables.beside(some)[1:] for some in (rows, rows[:1]))
    assert both == [[*about, "1.00 ms", "0.30 x", "0.30 x", "400 us", "800 us", "0.50 x"]]
    assert alone == [[*about, "-", "-", "-", "400 us", "-", "-"]]


def test_own_code_and_libraries_do_the_same_work(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.libraries.inside", "1"],
        cwd=RESULTS.parent.parent,
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
        capture_output=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert [row["library"] for row in found] == ["h2", "h2", "prometheus_client, several processes"]
    told = {path.name.partition("_")[0].partition("-")[0] for path in tmp_path.iterdir()}
    assert told >= {"metrics", "counter", "histogram"}
    for row, shown in zip(found, tables.by_hand(found)[1:], strict=True):
        assert shown[-1] == f"{row['theirs'] / row['own']:.1f} x"
