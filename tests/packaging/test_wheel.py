"""The wheel, without extras, in an empty environment: the client works, commands explain."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.environments import Environment, build_wheel

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("wheel")
    made = Environment(folder / "venv")
    made.install(str(build_wheel(folder / "wheels")), "--group", "test-client")
    return made


@pytest.mark.timeout(300)
def test_the_client_is_the_installed_one(environment: Environment) -> None:
    found = environment.python("import tensor_round; print(tensor_round.__file__)")
    assert found.stdout.startswith(str(environment.home)), found.stderr
    assert (Path(found.stdout.strip()).parent / "py.typed").exists()


def test_the_client_s_tests_pass(environment: Environment) -> None:
    folders = [f"tests/client/{name}" for name in ("clients", "arrays", "transport")]
    done = environment.run("python", "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *folders)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (["tensor-round", "--help"], "cli"),
        (["python", "-m", "tensor_round"], "cli"),
        (["python", "-m", "tensor_round_cli", "--help"], "cli"),
        (["tensor-round-service"], "service"),
        (["python", "-m", "tensor_round_service", "--help"], "service"),
    ],
    ids=" ".join,
)
def test_a_command_names_the_extra_to_install(
    environment: Environment, command: list[str], extra: str
) -> None:
    done = environment.run(*command)
    assert done.returncode == 1
    assert f"pip install 'tensor-round[{extra}]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_requirements_are_for_no_terminal_and_no_server(environment: Environment) -> None:
    absent = ("typer", "rich", "click", "fastapi", "starlette", "uvicorn", "httptools")
    for name in absent:
        assert environment.python(f"import {name}").returncode == 1, name


def test_verification_needs_no_extra(environment: Environment) -> None:
    done = environment.python(
        "import numpy as np\n"
        "from tensor_round import compare, conformance\n"
        "report = conformance.verify(lambda x: np.rint(x), dtypes=['float16'],"
        " roundings=['ties_to_even'], nans='any', progress=True)\n"
        "x = np.array([0.5, 1.5])\n"
        "print(report.right, compare(x, np.rint(x)).rounding)"
    )
    assert done.stdout == "True ties_to_even\n", done.stderr


def test_rounding_needs_no_server(environment: Environment) -> None:
    done = environment.python(
        "import numpy as np, tensor_round as tr\n"
        "with tr.Client('local:') as client: print(client.round(np.array([0.5, 1.5, -2.5])))"
    )
    assert done.stdout == "[ 0.  2. -2.]\n", done.stderr
