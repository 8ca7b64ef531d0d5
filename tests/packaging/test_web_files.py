"""The files of the web page: wheel and sdist have them if they are built."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILT = {"index.html", "page/page.js", "page/page.css", "page/icon.svg"}
BACKEND = """
import sys
from hatchling.build import build_sdist, build_wheel
print(build_wheel(sys.argv[1]), build_sdist(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has the build backend."""
    home = tmp_path_factory.mktemp("backend")
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    python = home / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "hatchling>=1.27,<2"], check=True)
    return python


@pytest.mark.timeout(120)
@pytest.mark.parametrize("is_built", [True, False], ids=["built", "not built"])
def test_packages_have_the_files_that_are_built(
    backend: Path, tmp_path: Path, is_built: bool
) -> None:
    tree = tmp_path / "tree"
    ignored = shutil.ignore_patterns("__pycache__", "web", "dist")
    for folder in ("client", "service"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, tree)
    (tree / "web" / "node_modules" / "vite").mkdir(parents=True)
    (tree / "web" / "node_modules" / "vite" / "index.js").touch()
    (tree / "web" / "package.json").touch()
    files = tree / "service" / "tensor_round_service" / "web"
    for name in BUILT if is_built else ():
        (files / name).parent.mkdir(parents=True, exist_ok=True)
        (files / name).write_text("built")
    done = subprocess.run(
        [backend, "-c", BACKEND, tmp_path], cwd=tree, check=True, capture_output=True, text=True
    )
    wheel, sdist = (tmp_path / name for name in done.stdout.split()[-2:])
    expected = BUILT if is_built else set()
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {n.partition("_service/web/")[2] for n in names if "_service/web/" in n} == expected
    assert not [name for name in names if name.startswith("web/")]
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
    assert {n.partition("_service/web/")[2] for n in names if "_service/web/" in n} == expected
    assert [name for name in names if "/web/package.json" in name]
    assert not [name for name in names if "node_modules" in name]
