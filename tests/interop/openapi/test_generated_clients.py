"""Clients generated from the OpenAPI document compile strictly, and round on a real service."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from openapi_spec_validator import validate
from openapi_spec_validator.readers import read_from_filename

from support.keys import needing
from support.services.server import Service

HERE = Path(__file__).parent
#: Where `make test-openapi` has installed what package.json names.
NODE = Path(os.environ["OPENAPI_NODE"]).absolute()
SCRIPTS = Path(sys.executable).parent
GENERATOR = SCRIPTS.parent / "generator" / "bin" / "openapi-python-client"
KEY = "a-key-for-generated-clients"


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    keys = needing(tmp_path_factory.mktemp("keys"), KEY)
    options = (*keys, "--shared-memory-prefix", "openapi")
    with Service("--backend", "numpy", *options) as running:
        yield running


@pytest.fixture(scope="session")
def document(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The service's OpenAPI document, which is open."""
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_bytes(service.get("/openapi.json").content)
    return path


def run(*command: str | Path, cwd: Path) -> str:
    """What a program says; the test fails with it where the program does."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**os.environ, "PATH": f"{SCRIPTS}:{os.environ['PATH']}"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_it_is_openapi(document: Path) -> None:
    validate(read_from_filename(str(document))[0])


@pytest.fixture(scope="module")
def python(document: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package ``rounding``."""
    folder = tmp_path_factory.mktemp("python")
    generate = (GENERATOR, "generate", "--meta", "none")
    said = run(*generate, "--path", document, "--output-path", "rounding", cwd=folder)
    # It knows no other binary form than octet-stream, and leaves nothing else out.
    left_out = re.findall(r"^(?:Unable|WARNING|Unsupported|Could not).*$", said, re.MULTILINE)
    assert left_out == [
        line
        for path in ("/round", "/compare")
        for line in (
            f"WARNING parsing POST {path} within round_.",
            "Unsupported content type application/x-npy",
        )
    ], said
    shutil.copy(HERE / "calls.py", folder)
    return folder


def test_python_is_well_typed(python: Path) -> None:
    run(SCRIPTS / "mypy", "--config-file", HERE / "mypy.ini", ".", cwd=python)


def test_python_rounds(python: Path, service: Service) -> None:
    run(sys.executable, "-W", "error", "calls.py", service.url, KEY, cwd=python)


@pytest.fixture(scope="module")
def typescript(document: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with calls.js, compiled with the generated types."""
    folder = tmp_path_factory.mktemp("typescript")
    (folder / "node_modules").symlink_to(NODE / "node_modules")
    for name in ("calls.ts", "tsconfig.json", "package.json"):
        shutil.copy(HERE / name, folder)
    run("node_modules/.bin/openapi-typescript", document, "--output", "schema.d.ts", cwd=folder)
    run("node_modules/.bin/tsc", cwd=folder)
    return folder


def test_typescript_rounds(typescript: Path, service: Service) -> None:
    run(SCRIPTS / "node", "calls.js", service.url, KEY, cwd=typescript)
