"""What the README and the docs show, run as it stands."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.server import Service
from tensor_round import operators

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "in.npy", np.array([-2.5, 0.5, 1.5], "<f4"))
    (tmp_path / "tensor.bin").write_bytes(np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3], "<f2").tobytes())
    return tmp_path


@pytest.mark.not_behind("unix", reason="the example calls a TCP port")
@pytest.mark.parametrize("code", blocks(README, "python"), ids=["client", "tritonclient"])
def test_the_python_examples(service: Service, code: str) -> None:
    code = code.replace("127.0.0.1:8000", f"127.0.0.1:{service.port}")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    expected = re.findall(r"# (\[.*\])", code)
    assert [line.split() for line in ran.stdout.splitlines()] == [e.split() for e in expected]


@pytest.mark.not_behind("unix", reason="the example calls a TCP port")
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_shell_examples(service: Service, folder: Path) -> None:
    examples = [b for b in blocks(README, "sh") if "curl" in b]
    assert len(examples) == 3
    outputs = []
    for script in examples:
        script = script.replace("localhost:8000", f"127.0.0.1:{service.port}")
        ran = subprocess.run(
            ["bash", "-euc", script], cwd=folder, capture_output=True, text=True, timeout=60
        )
        assert ran.returncode == 0, ran.stderr
        outputs.append(ran.stdout)
    np.testing.assert_array_equal(np.load(folder / "out.npy"), [-3, 1, 2])
    rounded = np.frombuffer((folder / "rounded.bin").read_bytes(), "<f2")
    np.testing.assert_array_equal(rounded, [0, 2, 2, -0.0, -2, 3])
    (shown,) = re.findall(r"# (\{.*\})", examples[-1])
    assert outputs[-1] == shown


@pytest.mark.parametrize("text", blocks((ROOT / "docs/descriptors.md").read_text(), "json"))
def test_the_descriptors_in_the_docs(text: str) -> None:
    operators.parse(text.encode()).resolve()


def test_every_link_leads_to_a_file() -> None:
    for document in (ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("bench/*.md")):
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name}: {target}"
