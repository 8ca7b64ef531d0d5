"""``make help`` lists every recipe once; workflows call recipes alone, with few permissions."""

from __future__ import annotations

import re
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
    assert "test test-slow" in check
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
