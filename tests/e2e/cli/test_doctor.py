"""``tensor-round doctor`` on services that are well, and on some that are not."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from support.command_line import said
from support.http.proxy import Fault, Proxy
from support.services.server import Service
from tensor_round.contract.version import __version__
from tensor_round_cli.doctor import Finding, Level, check_settings, check_version


def doctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    return said("doctor", *arguments)


def test_a_service_that_is_well(service: Service) -> None:
    done = doctor("--json", service.url)
    report = json.loads(done.stdout)
    assert (done.returncode, report["healthy"], report["url"]) == (0, True, service.url)
    levels = {finding["check"]: finding["level"] for finding in report["findings"]}
    exact = ("ready", "version", "conformance", "bits")
    assert {check: levels[check] for check in exact} == dict.fromkeys(exact, "ok")
    assert {"latency", "throughput"} <= levels.keys()
    figures = report["figures"]
    assert figures["small_bytes"] == 1024
    assert all(value > 0 for value in figures.values())


def test_the_engine_in_this_process() -> None:
    # No fork: the engine's threads end at the interpreter's exit, which a forked process skips.
    command = [sys.executable, "-m", "tensor_round", "doctor", "local:"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "ok      ready        The service is reachable and ready."
    assert all(line.startswith(("ok", "advice")) for line in lines)


def test_a_service_with_a_low_limit() -> None:
    """No check sends a tensor that the service must refuse."""
    with Service("--max-tensor-bytes", str(8 << 10)) as service:
        done = doctor("--json", service.url)
    report = json.loads(done.stdout)
    assert (done.returncode, report["healthy"]) == (0, True)
    assert report["figures"]["large_bytes"] == 8 << 10


def test_a_service_that_is_not_there() -> None:
    done = doctor("http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (1, "")
    assert "is a service running at http://127.0.0.1:9?" in done.stderr


@pytest.mark.parametrize("arguments", [("gopher://x",), ("http://x", "http://y")])
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    assert doctor(*arguments).returncode == 2


def settings(url: str, **service: Any) -> dict[str, Finding]:
    limits = {"max_tensor_bytes": 1 << 20, "max_bytes_in_flight": 1 << 30}
    return {
        found.check: found for found in check_settings(url, {"service": service, "limits": limits})
    }


def test_doctor_warns_of_missing_tls_or_keys() -> None:
    found = settings("http://10.0.0.1:8000", api_keys=True, tls=False)
    assert "and API keys with them" in found["encryption"].text
    assert "access" not in found
    assert "access" in settings("https://example.org", api_keys=False, tls=False)
    assert settings("https://example.org", api_keys=True, tls=True).keys() == {"limits"}


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "http://localhost", "http://[::1]:1", "unix:///x", "local:"]
)
def test_on_this_machine_neither_is_needed(url: str) -> None:
    assert settings(url, api_keys=False, tls=False).keys() == {"limits"}


def test_other_versions_are_told() -> None:
    def told(service: dict[str, Any] | None) -> tuple[Level, str]:
        (found,) = check_version(service)
        return found.level, found.text

    assert told({"version": __version__})[0] == told(None)[0] == Level.OK
    assert told({"version": "9.9"})[0] == Level.ADVICE
    assert "9.9" in told({"version": "9.9"})[1]
    assert "(unknown)" in told({})[1]


def test_a_bit_that_changes_on_the_way() -> None:
    """A megabyte into the connection, the tables of float16 and bfloat16 are on their way."""
    with (
        Service("--max-tensor-bytes", str(128 << 10)) as service,
        Proxy(service.port, lambda number: Fault(garble_down=frozenset({1_000_000}))) as proxy,
    ):
        done = doctor(proxy.url)
    assert done.returncode == 1, done.stderr
    assert "FAULT   bits         Results differ on their way here: float16 " in done.stdout
    assert proxy.strikes
