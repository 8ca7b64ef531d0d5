"""``make help`` lists every recipe once, and each expands as it is documented.

Workflows call recipes alone, with few permissions.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RECIPES = re.findall(r"^([a-z][a-z-]*):.*##", (ROOT / "Makefile").read_text(), re.M)


def test_help_lists_every_recipe_once() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")]
    assert Counter(listed) == Counter(RECIPES)
    assert len(listed) <= 38


def test_both_tiers_run_before_a_change_lands() -> None:
    text = (ROOT / "Makefile").read_text()
    check = text[text.index("\ncheck:") :].partition("\n\n")[0]
    assert "lint types collected kernels site" in check
    assert "-m 'not sweep'" in check
    assert "make check LOCKED=1" in (ROOT / ".ci/run").read_text()


FILES = sorted((ROOT / ".github/workflows").glob("*.yml"))
WORKFLOWS: dict[str, dict[Any, Any]] = {
    path.stem: yaml.safe_load(path.read_text()) for path in FILES
}
JOBS = [
    pytest.param(workflow, job, id=f"{name}-{key}")
    for name, workflow in WORKFLOWS.items()
    for key, job in workflow["jobs"].items()
]
CALLABLE = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.M))
#: What a job may do beside reading the tree, and why.
ALLOWED = {
    ("release", "images"): {"packages"},  # pushes images
    ("release", "publish"): {"packages", "id-token", "attestations"},
}


def commands(job: dict[str, Any]) -> list[str]:
    """What a job runs, for each value of its matrix."""
    lines = [step["run"] for step in job["steps"] if "run" in step]
    values: dict[str, list[str]] = job.get("strategy", {}).get("matrix", {})

    def expanded(line: str) -> list[str]:
        found = re.search(r"\${{ matrix\.(\w+) }}", line)
        return [line.replace(found[0], value) for value in values[found[1]]] if found else [line]

    return list(chain.from_iterable(map(expanded, lines)))


PAGES = (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md"), ROOT / ".ci/run")
_GIVEN = r"""[A-Z_]+=(?:"[^"]*"|'[^']*'|[\w/.-]+)"""
#: Recipes with the variables that their help names, and as pages and workflows have them.
DOCUMENTED = {
    *RECIPES,
    *(
        f"{recipe} {given}"
        for recipe, about in re.findall(r"^(\S+):.*## (.*)", (ROOT / "Makefile").read_text(), re.M)
        for given in re.findall(_GIVEN, about)
    ),
    *(
        command
        for page in PAGES
        for command in re.findall(rf"\bmake ([a-z-]+(?: {_GIVEN})+)", page.read_text())
    ),
    *(
        command.removeprefix("make ")
        for workflow in WORKFLOWS.values()
        for job in workflow["jobs"].values()
        for command in commands(job)
        if command.startswith("make ")
    ),
    " ".join([*RECIPES, "LOCKED=1"]),
}
#: What a caller may set; the Makefile itself sets any other variable before it is used.
OPTIONAL = {"ARGS", "BUILD_ARGS", "EVERY", "IMAGE", "MANIFESTS", "PEERS", "PYTHONS", "REGISTRY"}


@pytest.mark.parametrize("command", sorted(DOCUMENTED))
def test_a_recipe_expands_as_documented(command: str, tmp_path: Path) -> None:
    # Where podman is, there are further recipes. A dry run starts none of it. This test's own make,
    # if there is one, hands its variables on in the environment.
    podman = tmp_path / "podman"
    podman.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    podman.chmod(0o755)
    done = subprocess.run(
        ["make", "--dry-run", "--warn-undefined-variables", *shlex.split(command)],
        cwd=ROOT,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert set(re.findall(r"undefined variable '(\w+)'", done.stderr)) <= OPTIONAL
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(("workflow", "job"), [job for job in JOBS if job.id != "ci-client"])
def test_a_job_runs_recipes_alone(workflow: dict[Any, Any], job: dict[str, Any]) -> None:
    ran = commands(job)
    assert ran
    for command in ran:
        if command != ".ci/run":
            make, recipe, *rest = command.split()
            assert make == "make"
            assert recipe in CALLABLE, command
            assert all(re.fullmatch(r"[A-Z_]+=\w+", word) for word in rest), command


def test_where_there_is_no_make_pytest_runs_folders_of_the_suite() -> None:
    _, pytest_command = commands(WORKFLOWS["ci"]["jobs"]["client"])
    folders = re.findall(r"tests/\S+", pytest_command)
    assert len(folders) == 3
    assert all((ROOT / folder).is_dir() for folder in folders)


@pytest.mark.parametrize(("workflow", "job"), JOBS)
def test_a_job_ends_and_keeps_no_credentials(workflow: dict[Any, Any], job: dict[str, Any]) -> None:
    assert 0 < job["timeout-minutes"] <= 180
    used = {step["uses"].partition("@")[0]: step for step in job["steps"] if "uses" in step}
    assert used["actions/checkout"]["with"]["persist-credentials"] is False
    versions = [step["uses"].partition("@")[2] for step in used.values()]
    assert all(re.fullmatch(r"v\d+|release/v\d+|[0-9a-f]{40}", version) for version in versions)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_permissions_are_the_least(name: str) -> None:
    workflow = WORKFLOWS[name]
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["group"]
    for key, job in workflow["jobs"].items():
        beyond = set(job.get("permissions", {})) - {"contents"}
        assert beyond == ALLOWED.get((name, key), set())


def test_ci_is_run_on_both_processors() -> None:
    matrix = WORKFLOWS["ci"]["jobs"]["check"]["strategy"]["matrix"]
    assert {runner["runner"] for runner in matrix["include"]} == {"ubuntu-24.04-arm"}
