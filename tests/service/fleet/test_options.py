"""The options of the command, and what replicas are made of; without Ray."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tensor_round_service.fleet.options import FleetOptions, read_options
from tensor_round_service.process.command_line import read_settings, unknown_variables

PROGRAM = "tensor-round-service ray"


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--min-replicas", "0"], "--min-replicas (TENSOR_ROUND_RAY_MIN_REPLICAS): must be"),
        (
            ["--min-replicas", "3", "--max-replicas", "2"],
            "--max-replicas (TENSOR_ROUND_RAY_MAX_REPLICAS): must not be below "
            "TENSOR_ROUND_RAY_MIN_REPLICAS",
        ),
        (["--target-utilisation", "60"], "--target-utilisation (TENSOR_ROUND_RAY_TARGET_UTIL"),
        (["--cpus-per-replica", "0"], "--cpus-per-replica (TENSOR_ROUND_RAY_CPUS_PER_REPLICA)"),
        (["--name", "a fleet"], "--name (TENSOR_ROUND_RAY_NAME): "),
    ],
)
def test_a_fault_names_the_option_and_the_rule(
    arguments: list[str], fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_settings(FleetOptions, arguments, PROGRAM)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(f"{PROGRAM}: {fault}")
    assert told.count("\n") == 1


def test_help_describes_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_settings(FleetOptions, ["--help"], PROGRAM)
    told = capsys.readouterr().out
    for name, field in FleetOptions.model_fields.items():
        assert f"--{name.replace('_', '-')} " in told
        assert field.description


def test_replicas_get_the_settings_and_nothing_else() -> None:
    environment = {
        "TENSOR_ROUND_BACKEND": "numpy",
        "tensor_round_log_level": "error",
        "TENSOR_ROUND_HOST": "0.0.0.0",
        "TENSOR_ROUND_PORT": "80",
        "TENSOR_ROUND_METRICS_PORT": "81",
        "TENSOR_ROUND_URL": "http://x",
        "TENSOR_ROUND_API_KEY": "secret",
        "TENSOR_ROUND_RAY_MIN_REPLICAS": "2",
        "OTEL_SERVICE_NAME": "rounding",
        "HOME": "/root",
    }
    specification = FleetOptions(cpus_per_replica=4.0).specification(environment)
    assert specification.environment == {
        "TENSOR_ROUND_WORKERS": "4",
        "TENSOR_ROUND_BACKEND": "numpy",
        "TENSOR_ROUND_LOG_LEVEL": "error",
        "OTEL_SERVICE_NAME": "rounding",
    }
    assert (specification.cpus, specification.gpus) == (4.0, 0.0)


@pytest.mark.parametrize(
    ("cpus", "environment", "workers"),
    [(0.5, {}, "1"), (2.0, {}, "2"), (2.0, {"TENSOR_ROUND_WORKERS": "1"}, "1")],
)
def test_workers(cpus: float, environment: dict[str, str], workers: str) -> None:
    specification = FleetOptions(cpus_per_replica=cpus).specification(environment)
    assert specification.environment["TENSOR_ROUND_WORKERS"] == workers


def test_the_revision_is_that_of_settings_and_resources() -> None:
    def revision(environment: dict[str, str], **options: Any) -> str:
        return FleetOptions(**options).specification(environment).revision

    plain = revision({"TENSOR_ROUND_BACKEND": "numpy"})
    assert revision({"TENSOR_ROUND_BACKEND": "numpy", "HOME": "/"}, min_replicas=3) == plain
    assert revision({"TENSOR_ROUND_BACKEND": "auto"}) != plain
    assert revision({"TENSOR_ROUND_BACKEND": "numpy"}, gpus_per_replica=0.5) != plain


def test_a_misspelled_variable_is_told_of() -> None:
    names = [f"TENSOR_ROUND_RAY_{name}" for name in ("NAME", "MAX_REPLICA", "SERVICE_HOST")]
    (warning,) = unknown_variables([*names, "TENSOR_ROUND_PROT"], FleetOptions)
    assert warning.startswith("TENSOR_ROUND_RAY_MAX_REPLICA is not a setting")
    assert warning.endswith("TENSOR_ROUND_RAY_MAX_REPLICAS")


def test_without_ray_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['ray'] = None; sys.argv = ['x', 'ray']\n"
        "from tensor_round_service.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'tensor-round[service,ray]'" in done.stderr


@pytest.mark.parametrize(("address", "told"), [("local", "0"), ("auto", None), ("h:6379", None)])
def test_a_cluster_of_its_own_is_one_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, address: str, told: str | None
) -> None:
    """Ray reads the variable when it is imported; ``make test-ray`` looks where it listens."""
    name = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
    monkeypatch.setenv(name, "")
    monkeypatch.delenv(name)
    assert read_options(["--address", address]).address == address
    assert os.environ.get(name) == told
