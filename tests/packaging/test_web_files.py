"""The files of the web page: wheel and sdist have them as they are, and what is made beside not."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACE = "service/tensor_round_service/pages/web"
MADE = ("client/types/index.d.ts", "client/tensor-round-0.2.0.tgz", "client/node_modules/x/x.js")
BACKEND = """
import sys
from hatchling.build import build_sdist, build_wheel
print(build_wheel(sys.argv[1]), build_sdist(sys.argv[1]))
"""


@pytest.mark.timeout(120)
def test_packages_have_the_page_as_it_is_in_the_repository(
    backend: dict[str, str], tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    ignored = shutil.ignore_patterns("__pycache__", "types", "node_modules", "*.tgz")
    for folder in ("client", "service", "verify", "cli"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, tree)
    files = tree / PLACE
    contents = {
        path.relative_to(files).as_posix(): path.read_bytes()
        for path in files.rglob("*")
        if path.is_file()
    }
    assert {"index.html", "page.css", "main.js", "client/index.js"} <= contents.keys()
    for name in (*(f"{PLACE}/{name}" for name in MADE), "web/node_modules/axe-core/axe.js"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    (tree / "web" / "package.json").touch()
    build = [sys.executable, "-c", BACKEND, str(tmp_path)]
    done = subprocess.run(build, cwd=tree, env=backend, check=True, capture_output=True, text=True)
    wheel, sdist = (tmp_path / name for name in done.stdout.split()[-2:])
    with zipfile.ZipFile(wheel) as archive:
        place = PLACE.removeprefix("service/") + "/"
        packed = {n.removeprefix(place): archive.read(n) for n in archive.namelist() if place in n}
        assert not [name for name in archive.namelist() if name.startswith("web/")]
    assert packed == contents
    with tarfile.open(sdist) as source:
        names = source.getnames()
    assert {n.partition(f"{PLACE}/")[2] for n in names if f"{PLACE}/" in n} == contents.keys()
    assert [name for name in names if name.endswith("/web/package.json")]
    assert not [name for name in names if "node_modules" in name]
