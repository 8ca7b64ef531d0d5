"""The bench's own parts: what it takes apart, what it sends, what it keeps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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


def told(program: str) -> str:
    """What a program of the bench prints."""
    command = [sys.executable, "-c", "import json\n" + program]
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
