"""``operators``, ``conformance``, ``ping`` and ``doctor``; services that refuse or are gone."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensor_round as tr
from support.command_line import bad, command, good, said
from support.http.proxy import Fault, Proxy
from support.http.proxy import answer as written
from support.services.server import Service
from support.services.tls import CA, SERVER
from tensor_round.contract.version import __version__
from tensor_round_cli.doctor import Finding, Level, check_settings, check_version


@pytest.mark.parametrize("columns", ["80", "60", "200"])
def test_operators_fit_the_terminal(service: Service, columns: str) -> None:
    shown = good("operators", url=service.url, COLUMNS=columns).stdout.decode().splitlines()
    assert max(map(len, shown)) <= int(columns)
    assert len(shown) < 240
    assert "  3_0 to 6_4, ranks 1 to 8: FLOAT32 FLOAT16" in shown
    assert "(half_to_even by default)" in " ".join(" ".join(shown).split())
    words = {word for line in shown for word in line.split()}
    assert {"half_away_from_zero", "HALVES_TO_NEAREST_EVEN", "float8_e4m3fn"} <= words
    assert all(name in " ".join(shown) for name in ("ieee754", "Round-22", "mlir: "))
    assert {"onnx: Cast", "directml: ELEMENT_WISE_CEIL", "webnn: cast"} <= set(shown)
    assert "open: float to integer, out of range: saturate" in " ".join(" ".join(shown).split())
    assert "dialects" in json.loads(good("operators", "--json", url=service.url).stdout)


def test_conformance(service: Service) -> None:
    shown = good("conformance", url=service.url).stdout.decode()
    assert "bfloat16" in shown
    assert "NO" not in shown
    assert shown.splitlines()[-1].startswith("The service conforms to the digests of tensor-round")
    assert json.loads(good("conformance", "--json", url=service.url).stdout)["matches_this_package"]
    for operator, what, source, target in (
        ("cast", "casts", "float8_e5m2", "uint4"),
        ("dequantize", "dequantizations", "int4", "float16"),
    ):
        asked = ("--operator", operator, "--dtype", source, "--to", target)
        shown = " ".join(good("conformance", *asked, url=service.url).stdout.decode().split())
        assert f"all 1 digests of {what} are as published, of {source}" in shown
    bad(1, "only with operator=cast", "conformance", "--to", "int8", url=service.url)


def answer(document: object, status: str = "200 OK", kind: str = "application/json") -> bytes:
    """A service's response."""
    fields = f"Content-Type: {kind}", "X-Request-ID: abc"
    return written(status, json.dumps(document).encode(), *fields)


def test_conformance_is_computed_here_not_taken_from_the_service(service: Service) -> None:
    row = {"ties_to_even": {"sha256": "0" * 64, "matches_published": True}}
    lie = {"conforms": True, "backends": {"numpy": {"float16": row}}}
    with Proxy(None, lambda _: Fault(answer=answer(lie))) as proxy:
        done = command("conformance", url=proxy.url)
    assert (done.returncode, done.stderr) == (1, b"")
    assert b"NO" in done.stdout


def test_a_service_that_knows_no_digests_of_casts_does_not_conform(service: Service) -> None:
    """It ignores the question, and answers that of before."""
    with tr.Client(service.url) as client:
        old = client.conformance()
    with Proxy(None, lambda _: Fault(answer=answer(old))) as proxy:
        good("conformance", url=proxy.url)
        bad(1, "", "conformance", "--operator", "cast", url=proxy.url)


def test_ping(service: Service) -> None:
    assert b"is ready" in good("ping", url=service.url).stdout
    assert json.loads(good("ping", "--json", url=service.url).stdout)["ready"] is True


def test_refusals_are_exit_code_1_and_name_a_remedy(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("s3cret\nsecond line\n")
    refusal = {"code": "unauthorized", "detail": "no valid key", "status": 401, "errors": []}
    unauthorized = answer(refusal, "401 Unauthorized", "application/problem+json")
    with Proxy(None, lambda _: Fault(answer=unauthorized)) as proxy:
        shown = bad(1, "no valid key", "operators", "--api-key-file", key, url=proxy.url)
        assert "--api-key-file" in shown
        assert "request abc" in shown
        told = command("ping", "--json", url=proxy.url, TENSOR_ROUND_API_KEY="other").stderr
        error = json.loads(told)["error"]
        assert (error["code"], error["status"], error["request_id"]) == ("unauthorized", 401, "abc")
        assert proxy.seen[0].headers()["authorization"] == "Bearer s3cret"
        assert proxy.seen[1].headers()["authorization"] == "Bearer other"


#: What would name, colour and clear a terminal, and 5,000 characters.
HOSTILE = "a\x1b]0;owned\x07b\r\nc\x9b2Jd\u202e" + "x" * 5000


VERSION = {"name": HOSTILE, "dtypes": [HOSTILE], "min_rank": 0, "max_rank": HOSTILE}
CATALOG = {
    "dialects": {
        HOSTILE: {
            "operator": HOSTILE,
            "versions": [VERSION],
            "default_rounding": HOSTILE,
            "modes": {HOSTILE: HOSTILE},
        }
    },
    "limits": {"max_tensor_bytes": HOSTILE},
}
REFUSED = {"code": HOSTILE, "detail": HOSTILE, "errors": [{"loc": [HOSTILE], "msg": HOSTILE}]}
ANSWERS = {
    "refused": ("operators", answer(REFUSED, "418 No", "application/problem+json")),
    "ping": ("ping", answer(REFUSED, "418 No", "application/problem+json")),
    "of-v2": ("ping", answer({"error": HOSTILE}, "418 No")),
    "elsewhere": ("operators", answer({}, "301 No\r\nLocation: http://\x9b2J")),
    "of-another-type": ("operators", answer({}, kind="text/\x9bhtml")),
    "operators": ("operators", answer(CATALOG)),
    "conformance": ("conformance", answer({"backends": {HOSTILE: {}}})),
}


@pytest.mark.parametrize(("verb", "response"), ANSWERS.values(), ids=ANSWERS)
def test_no_server_writes_to_the_terminal(verb: str, response: bytes) -> None:
    hostile = response.replace(b"abc", b"i\x9bd")
    with Proxy(None, lambda _: Fault(answer=hostile)) as proxy:
        done = command(verb, url=proxy.url)
    printed = (done.stdout + done.stderr).decode()
    assert printed
    assert "Traceback" not in printed
    assert all(line.isprintable() for line in printed.split("\n"))
    assert "x" * 1001 not in printed


def test_certificates_that_are_not_trusted_are_told_of(service: Service) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(SERVER)
    with Proxy(service.address, tls=context) as proxy:
        bad(1, "pass the certificates to trust with --ca-file", "ping", url=proxy.url)
        good("ping", "--ca-file", CA, url=proxy.url)


def test_another_server_is_told_of() -> None:
    with Proxy(None, lambda _: Fault(answer=written("404 Not Found"))) as proxy:
        bad(1, f"no tensor-round service answers at {proxy.url}", "operators", url=proxy.url)


@pytest.mark.not_behind("unix", reason="a socket's URL has no path behind it")
def test_a_path_of_the_service_is_not_where_it_begins(service: Service) -> None:
    url = f"{service.url}/round"
    assert f"does the service begin at {url}?" in bad(1, "not_found", "operators", url=url)


def test_nobody_there_is_exit_code_1() -> None:
    with Proxy(None) as gone:
        url = gone.url
    shown = bad(1, "cannot connect", "ping", url=url)
    assert "is a service running" in shown


@pytest.mark.parametrize(
    "arguments",
    [("operators",), ("operators", "--json"), ("round", "in.npy", "-", "--json")],
    ids=" ".join,
)
def test_a_reader_that_has_had_enough_is_no_error(
    service: Service, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    np.save(tmp_path / "in.npy", np.zeros(1 << 20, "<f4"))
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "tensor_round", *arguments],
            cwd=tmp_path,
            env={**os.environ, "TENSOR_ROUND_URL": service.url, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (1, b"")


def doctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    return said("doctor", *arguments)


def test_doctor_of_a_service_that_is_well(service: Service) -> None:
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


def test_doctor_of_the_engine_in_this_process() -> None:
    # No fork: the engine's threads end at the interpreter's exit, which a forked process skips.
    command = [sys.executable, "-m", "tensor_round", "doctor", "local:"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "ok      ready        The service is reachable and ready."
    assert all(line.startswith(("ok", "advice")) for line in lines)


def test_doctor_of_a_service_with_a_low_limit() -> None:
    """No check sends a tensor that the service must refuse."""
    with Service("--max-tensor-bytes", str(8 << 10)) as service:
        done = doctor("--json", service.url)
    report = json.loads(done.stdout)
    assert (done.returncode, report["healthy"]) == (0, True)
    assert report["figures"]["large_bytes"] == 8 << 10


def test_doctor_of_a_service_that_is_not_there() -> None:
    done = doctor("http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (1, "")
    assert "is a service running at http://127.0.0.1:9?" in done.stderr


@pytest.mark.parametrize("arguments", [("gopher://x",), ("http://x", "http://y")])
def test_wrong_usage_of_doctor_is_2(arguments: tuple[str, ...]) -> None:
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
