"""The examples of docs/open-inference.md, run as they stand."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from support.pages import URL, examples
from support.server import Service

PAGE = "docs/open-inference.md"
#: What the page needs beyond the clients is shown there, and run by `make test-interop`.
RUNNABLE = [code for code in examples(PAGE) if "onnx.backend" not in code]


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service("--shared-memory-prefix", "round_") as running:
        yield running


def spaced(line: str) -> list[str]:
    return line.replace("[", "[ ").split()


@pytest.mark.parametrize("code", RUNNABLE, ids=[str(n) for n in range(len(RUNNABLE))])
def test_python(service: Service, code: str) -> None:
    code = code.replace(URL.removeprefix("http://"), f"127.0.0.1:{service.port}")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    shown = re.findall(r"# (\[.*\])", code)
    printed = ran.stdout.splitlines()
    assert shown
    # A loop prints its line more than once.
    assert [*dict.fromkeys(map(str, map(spaced, printed)))] == [
        *dict.fromkeys(map(str, map(spaced, shown)))
    ]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_shell(service: Service) -> None:
    (script,) = examples(PAGE, "sh")
    script = script.replace("localhost:8000", f"127.0.0.1:{service.port}")
    ran = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == re.findall(r"# (\{.*\})", script)[0]
