"""Mutants of the modules, judged by the tests beside them: mutmut, in ``build/mutants``.

    python tools/mutants.py [PART OF A PATH]...

Ends with 1 if the tests notice less than 90 % of them. ``mutmut show NAME`` and ``mutmut browse``,
in that folder, show more.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "mutants"
#: Folders of the modules whose mutants are judged.
SELECTED = (
    "client/tensor_round/contract",
    *(f"service/tensor_round_service/{name}" for name in ("codec", "engine", "net")),
)
#: What tests need beside the packages.
BESIDE = ("tests", "tools", "bench", "docs")
#: The share that tests must notice. Some of the others give the same results.
NOTICED = 0.9
CONFIGURATION = """
[tool.mutmut]
source_paths = ["src"]
also_copy = ["tools", "bench", "docs"]
only_mutate = {modules}
do_not_mutate_patterns = ["strict=True"]
pytest_add_cli_args_test_selection = {tests}
"""


def beside(module: Path) -> list[Path]:
    """The tests in the folder that mirrors a module's, or in the nearest one above it."""
    package, _, *rest = module.parent.parts
    folder = ROOT.joinpath("tests", package, *rest)
    while not (found := list(folder.glob("test_*.py"))):
        folder = folder.parent
    return [file.relative_to(ROOT) for file in found]


def lay_out(modules: list[Path]) -> None:
    """Copy the packages into one folder, as mutmut names modules by their place below ``src``."""
    shutil.rmtree(BUILD, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    for package in ("client", "service", "verify", "cli"):
        shutil.copytree(ROOT / package, BUILD / "src", ignore=ignored, dirs_exist_ok=True)
    for name in BESIDE:
        shutil.copytree(ROOT / name, BUILD / name, ignore=ignored)
    places = [str(Path("src", *module.parts[1:])) for module in modules]
    tests = sorted({str(test) for module in modules for test in beside(module)})
    configuration = CONFIGURATION.format(modules=json.dumps(places), tests=json.dumps(tests))
    (BUILD / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text() + configuration)


def main(parts: list[str]) -> int:
    """Judge the modules whose paths have one of these parts, or all."""
    folders = [ROOT / each for each in SELECTED]
    if missing := [folder for folder in folders if not folder.is_dir()]:
        sys.exit(f"there is no folder {missing[0]}")
    files = (file.relative_to(ROOT) for folder in folders for file in folder.rglob("*.py"))
    modules = [file for file in files if not parts or any(part in str(file) for part in parts)]
    if not modules:
        sys.exit(f"no module has {' or '.join(parts)} in its path")
    lay_out(modules)
    for command in ("run", "results", "export-cicd-stats"):
        subprocess.run([sys.executable, "-m", "mutmut", command], cwd=BUILD, check=True)
    counts = json.loads((BUILD / "mutants" / "mutmut-cicd-stats.json").read_text())
    noticed = counts["killed"] + counts["timeout"] + counts["segfault"]
    judged = counts["total"] - counts["skipped"]
    print(f"{noticed:,} of {judged:,} mutants noticed: {noticed / judged:.1%}")
    return 0 if noticed >= NOTICED * judged else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
