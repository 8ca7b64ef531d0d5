"""Each package does its first job where only its own extra is installed; README's line for uvx.

The environments have the wheel of this tree, one extra each, and the locked versions of what that
requires. The service of one is asked by the others.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support.environments import Environment, build_wheel, commands, locked, make_repository
from support.services.server import Service
from tensor_round.contract.version import of_tree

pytestmark = pytest.mark.timeout(600)

#: The most distributions that a client brings, pip and the package itself apart.
MOST_REQUIRED = 14

X = np.array([0.5, 1.5, -2.5], np.float32)
EVEN, DESCRIPTOR = X.round(), '{"operator":"ties_to_even","dtype":"float32","shape":[3]}'
#: Modules that an extra alone brings.
OF_EXTRAS = {"service": "fastapi", "cli": "typer", "compiled": "llvmlite"}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def made(folder: Path, wheel: Path, extra: str = "") -> Environment:
    environment = Environment(folder / "venv")
    requirement = f"tensor-round{f'[{extra}]' if extra else ''} @ {wheel.as_uri()}"
    environment.install(requirement, "-c", str(locked(folder)))
    for name, module in OF_EXTRAS.items():
        is_there = environment.python(f"import {module}").returncode == 0
        assert is_there == (name == extra), module
    return environment


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    return made(tmp_path_factory.mktemp("plain"), wheel)


@pytest.fixture(scope="session")
def cli(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    return made(tmp_path_factory.mktemp("cli"), wheel, "cli")


@pytest.fixture(scope="session")
def service_alone(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    return made(tmp_path_factory.mktemp("service"), wheel, "service")


@pytest.fixture(scope="session")
def service(service_alone: Environment) -> Iterator[Service]:
    def launch(
        _: str, options: list[str], environment: dict[str, str], errors: int
    ) -> subprocess.Popen[bytes]:
        program = service_alone.home / "bin" / "tensor-round-service"
        return subprocess.Popen([program, *options], stderr=errors, env=environment)

    class Installed(Service):
        pass

    Installed.launch = staticmethod(launch)
    with Installed(environment={"PYTHONPATH": None}) as running:
        yield running


def test_the_client_rounds_over_the_wire(plain: Environment, service: Service) -> None:
    done = plain.python(
        "import numpy as np, tensor_round as tr\n"
        f"with tr.Client({service.url!r}) as client:\n"
        f"    print(client.round(np.array({X.tolist()}, np.float32)).tolist())"
    )
    assert done.stdout == f"{EVEN.tolist()}\n", done.stderr


def test_the_client_requires_few_distributions(plain: Environment) -> None:
    done = plain.python(
        "from importlib.metadata import distributions\n"
        "print(*sorted({found.name for found in distributions()}))"
    )
    required = set(done.stdout.split()) - {"pip", "tensor-round"}
    assert 0 < len(required) <= MOST_REQUIRED, required


def test_the_service_is_ready_and_rounds(service: Service) -> None:
    assert service.get("/readyz").status == 200
    fields = {"Operator-Descriptor": DESCRIPTOR, "Content-Type": "application/octet-stream"}
    reply = service.request("POST", "/round", X.tobytes(), fields)
    assert (reply.status, reply.content) == (200, EVEN.tobytes())


def test_the_command_line_rounds_a_file(cli: Environment, service: Service, tmp_path: Path) -> None:
    source, target = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(source, X)
    done = cli.run("tensor-round", "round", str(source), str(target), "--url", service.url)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(target), EVEN)


@pytest.mark.parametrize("command", ["tensor-round", "tensor-round-service"])
def test_one_command_does_not_bring_the_other(
    command: str, cli: Environment, service_alone: Environment
) -> None:
    extra, without = ("cli", service_alone) if command == "tensor-round" else ("service", cli)
    done = without.run(command, "--help")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert f"pip install 'tensor-round[{extra}]'" in done.stderr


def test_the_readme_s_line_runs_the_service_with_all_extras(tmp_path: Path) -> None:
    make_repository(tmp_path / "clone")
    (line,) = (line for line in commands(tmp_path / "clone") if line.startswith("uvx "))
    words = shlex.split(line)
    assert words[-1] == "tensor-round-service"
    uvx = [os.environ["UVX"], *words[1:-1]]

    def said(*command: str) -> str:
        done = subprocess.run(
            [*uvx, *command], capture_output=True, text=True, cwd=tmp_path, check=True
        )
        return done.stdout.strip()

    version = of_tree(tmp_path / "clone")
    assert said("tensor-round-service", "--version").split()[-1] == version
    assert said("tensor-round", "--version") == version
    extras = "import fastapi, llvmlite, opentelemetry, typer; print('all')"
    assert said("python", "-c", extras) == "all"
