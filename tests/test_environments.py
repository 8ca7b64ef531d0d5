"""How the Makefile makes its environments, and what it says where it cannot; `make serve`'s end.

Each test works in a folder that has the Makefile and what its first recipes need.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
NEEDED = ("Makefile", "pyproject.toml", "tools/environment.sh", "tools/cuda_extra.py")

#: This interpreter, outside of its environment.
BASE = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
NAMES = ("python2.7", *(f"python3.{minor}" for minor in range(6, 15)))


@cache
def interpreters() -> dict[tuple[int, int], str]:
    """One of each version, of those of the PATH and of pyenv that run."""
    found = {}
    of_pyenv = sorted(Path("~/.pyenv/versions").expanduser().glob("*/bin/python"))
    ask = "import sys; print('%d %d' % sys.version_info[:2])"
    for name in filter(None, (*map(shutil.which, NAMES), *map(str, of_pyenv))):
        done = subprocess.run([name, "-c", ask], capture_output=True, text=True)
        if done.returncode == 0:
            major, minor = done.stdout.split()
            found[int(major), int(minor)] = name
    return found


def too_old() -> list[str]:
    """Interpreters that the service does not run on, the newest last."""
    found = [name for version, name in sorted(interpreters().items()) if version < (3, 11)]
    if not found:
        pytest.skip("there is no Python older than 3.11 on this machine")
    return found


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for name in NEEDED:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def hasten(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str | Path], Path]:
    """An interpreter; but pip in the environments that it makes is a link to the tests' own.

    Installing it there takes seconds.
    """

    def hastened(python: str | Path) -> Path:
        script = tmp_path_factory.mktemp("quick") / "python3"
        pip = Path(sysconfig.get_path("purelib")) / "pip"
        script.write_text(
            "#!/bin/sh\n"
            f'[ "$1 $2 $3" = "-m venv --clear" ] || exec {python} "$@"\n'
            f'{python} "$@" --without-pip && ln -s {pip} "$4"/lib/python3*/site-packages/\n'
        )
        script.chmod(0o755)
        return script

    return hastened


@pytest.fixture
def quick(hasten: Callable[[str | Path], Path]) -> Path:
    return hasten(BASE)


def clean(path: Sequence[Path] = ()) -> dict[str, str]:
    """The environment without the variables of a make around the tests; these folders first.

    Without pyenv's shims, too: each takes a third of a second to run what `interpreters` finds.
    """
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    others = [each for each in os.environ["PATH"].split(os.pathsep) if Path(each).name != "shims"]
    return {**kept, "PATH": os.pathsep.join([*map(str, path), *others])}


def make(clone: Path, *arguments: str, path: Sequence[Path] = ()) -> str:
    """What make says on standard error; nothing if all is well."""
    done = subprocess.run(
        ["make", *arguments], cwd=clone, env=clean(path), capture_output=True, text=True
    )
    assert (done.returncode == 0) == (not done.stderr), done
    return done.stderr


def ran_by(environment: Path) -> str:
    """The version and the base of the environment's interpreter."""
    ask = "import pip, sys; print(sys.version_info[:2], sys.base_prefix)"
    done = subprocess.run([environment / "bin/python", "-c", ask], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


HERE = f"{sys.version_info[:2]} {sys.base_prefix}"
ENVIRONMENT = ".venv/pyvenv.cfg"


def test_an_old_python_is_refused_before_anything_is_made(clone: Path) -> None:
    before = sorted(clone.rglob("*"))
    goals = ("test", "check", "bench", "lint", "site", "lock")
    for goal, name in [*product(["serve"], too_old()), *product(goals, too_old()[-1:])]:
        said = make(clone, goal, f"PYTHON={name}", path=[BASE.parent]).splitlines()
        assert said[0].startswith(f"{name} is Python "), said
        assert "needs 3.11 or newer: add PYTHON=python3." in said[0]
        assert [line for line in said[1:] if not line.startswith("make")] == []
        assert sorted(clone.rglob("*")) == before


def test_a_python_that_is_not_there_is_named(clone: Path) -> None:
    """And none is named that is there and does not run, as pyenv's shims of other versions."""
    shim = clone / f"shims/{BASE.name}"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    said = make(clone, "serve", "PYTHON=python3.99", path=[BASE.parent])
    assert said.startswith("python3.99 does not run: add PYTHON=python3.")
    assert f" {BASE.name}" in said
    said = make(clone, "serve", "PYTHON=python3.99", path=[shim.parent, BASE.parent])
    assert said.startswith("python3.99 does not run: add PYTHON=python3")
    assert BASE.name not in said
    assert not (clone / ".venv").exists()


def test_python_without_venv_names_the_package_to_install(clone: Path) -> None:
    """As Debian's without python3-venv: its library has no ensurepip."""
    home = clone / "debian"
    library = home / "lib" / f"python3.{sys.version_info.minor}"
    library.mkdir(parents=True)
    for part in Path(sysconfig.get_path("stdlib")).iterdir():
        if part.name != "ensurepip":
            (library / part.name).symlink_to(part)
    python = home / "python3"
    python.write_text(f'#!/bin/sh\nPYTHONHOME={home} exec {BASE} "$@"\n')
    python.chmod(0o755)
    said = make(clone, "serve", path=[home])
    assert said.startswith("python3 cannot make virtual environments; on Debian and Ubuntu: ")
    assert said.splitlines()[0].endswith(": apt-get install python3-venv")
    assert not (clone / ".venv").exists()


def of_an_old_python(folder: Path) -> None:
    subprocess.run([too_old()[-1], "-m", "venv", "--without-pip", folder], check=True)


def without_its_base(folder: Path) -> None:
    venv.create(folder)
    for name in ("python", "python3", BASE.name):
        (folder / "bin" / name).unlink()
        (folder / "bin" / name).symlink_to("/of/an/interpreter/that/is/gone")


@pytest.mark.parametrize("left", [of_an_old_python, without_its_base, venv.create])
def test_unusable_environment_is_replaced(
    clone: Path, quick: Path, left: Callable[[Path], None]
) -> None:
    """The last is one that was interrupted before it had pip."""
    left(clone / ".venv")
    (clone / ".venv/.service").touch()
    make(clone, ENVIRONMENT, f"PYTHON={quick}")
    assert ran_by(clone / ".venv") == HERE
    assert not (clone / ".venv/.service").exists()


def test_an_environment_stays_until_another_python_is_named(
    clone: Path, hasten: Callable[[str | Path], Path], quick: Path
) -> None:
    able = {version: name for version, name in interpreters().items() if version >= (3, 11)}
    others = [name for version, name in able.items() if version != sys.version_info[:2]]
    if not others:
        pytest.skip("there is one Python from 3.11 on, and no other, on this machine")
    another = hasten(others[0])
    make(clone, ENVIRONMENT, f"PYTHON={another}")
    made, other = (clone / ENVIRONMENT).stat().st_mtime_ns, ran_by(clone / ".venv")
    assert other != HERE
    make(clone, ENVIRONMENT, path=[BASE.parent])
    make(clone, ENVIRONMENT, f"PYTHON={another}")
    make(clone, ENVIRONMENT, f"PYTHON={clone}/.venv/bin/python")
    assert (ran_by(clone / ".venv"), (clone / ENVIRONMENT).stat().st_mtime_ns) == (other, made)
    make(clone, ENVIRONMENT, f"PYTHON={quick}")
    assert ran_by(clone / ".venv") == HERE


def test_the_bench_takes_an_interpreter_with_pgo_unless_one_is_named(
    clone: Path, quick: Path
) -> None:
    (clone / "bench/measuring").mkdir(parents=True)
    program = shutil.copy(ROOT / "bench/measuring/interpreter.py", clone / "bench/measuring")
    make(clone, ".venvs/bench/pyvenv.cfg", path=[BASE.parent])
    able = (BASE, "/usr/bin/python3", *(f"python3.{minor}" for minor in range(11, 15)))
    path = clean([BASE.parent])["PATH"]
    found = [name for each in able if (name := shutil.which(each, path=path))]
    is_optimized = any(exits(name, program) == 0 for name in found)
    assert (exits(clone / ".venvs/bench/bin/python", program) == 0) == is_optimized
    shutil.rmtree(clone / ".venvs")
    make(clone, ".venvs/bench/pyvenv.cfg", f"PYTHON={quick}")
    assert ran_by(clone / ".venvs/bench") == HERE


def exits(*command: str | Path) -> int:
    return subprocess.run(command, capture_output=True).returncode


def test_folder_that_is_not_an_environment_is_left_alone(clone: Path) -> None:
    (clone / "work").mkdir()
    (clone / "work/thesis").touch()
    said = make(clone, "work/pyvenv.cfg", f"PYTHON={BASE}")
    assert said.startswith("work is there and is no virtual environment: remove it\n")
    assert [path.name for path in (clone / "work").iterdir()] == ["thesis"]


@pytest.fixture
def installed(clone: Path) -> Path:
    """A clone whose environment has the service, as `make serve` would have installed it."""
    venv.create(clone / ".venv")
    (packages,) = (clone / ".venv").glob("lib/python3*/site-packages")
    here = sysconfig.get_path("purelib")
    (packages / "here.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    script = clone / ".venv/bin/tensor-round-service"
    # Without llvmlite, for which a start takes a second of a core.
    code = "import sys; sys.modules['llvmlite'] = None"
    code += "; from tensor_round_service.__main__ import main; main()"
    script.write_text(f'#!/bin/sh\nexec .venv/bin/python -c "{code}" "$@"\n')
    # The machine's own GPU is none of these tests' business.
    (clone / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    for program in (script, clone / "nvidia-smi"):
        program.chmod(0o755)
    (clone / ".venv/.service").touch()
    return clone


def test_serve_on_a_port_in_use_names_the_variable(installed: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        said = make(installed, "serve", f"PORT={port}", path=[installed])
    assert said.startswith(f"127.0.0.1:{port} is in use; for another port: make serve PORT=8901\n")


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_serve_stops_with_make(installed: Path, stop: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    process = subprocess.Popen(
        ["make", "serve", f"PORT={port}"],
        cwd=installed,
        env=clean([installed]),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        end = time.monotonic() + 60
        while not listens(port):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
        # Ctrl-C goes to the whole group of the terminal, SIGTERM to make alone.
        os.killpg(process.pid, stop) if stop == signal.SIGINT else process.send_signal(stop)
        said, _ = process.communicate(timeout=60)
        assert not listens(port), said
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        time.sleep(0.05)
        return False
    return True
