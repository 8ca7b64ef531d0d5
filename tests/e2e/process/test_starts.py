"""How a service starts: its settings, what it says of them, and why it does not start."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support.command_line import healthcheck, run
from support.http.native_form import ieee754, post
from support.keys import digest, needing
from support.services.server import Service
from support.services.tls import (
    CA,
    CLIENT,
    ENCRYPTED,
    EXPIRED,
    SERVER,
    TlsService,
    caller_context,
)
from tensor_round.contract.version import __version__
from tensor_round_service.process.command_line import unknown_variables
from tensor_round_service.settings import Settings

MIB = 1 << 20
X = np.array([0.5, 1.5, -2.5], "<f4")


def start(
    options: list[str], environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return run(options, environment or {}, module="tensor_round_service")


def test_help_names_every_setting() -> None:
    shown = start(["--help"])
    assert shown.returncode == 0
    for name, field in Settings.model_fields.items():
        assert f"--{name.replace('_', '-')}" in shown.stdout.decode()
        assert field.description is not None


def test_it_tells_its_version() -> None:
    shown = start(["--version"])
    assert shown.returncode == 0
    assert shown.stdout.decode() == f"tensor-round-service {__version__}\n"


def test_variables_are_settings_or_a_warning_that_names_the_nearest() -> None:
    environment = {
        "TENSOR_ROUND_PROT": "9000",
        "TENSOR_ROUND_MAX_TENSORBYTES": "8",
        # Of the client, of Kubernetes, of others.
        "TENSOR_ROUND_URL": "http://127.0.0.1:8000",
        "TENSOR_ROUND_API_KEY": "secret",
        "TENSOR_ROUND_SERVICE_HOST": "10.0.0.7",
        "TENSOR_ROUND_PORT_8000_TCP_ADDR": "10.0.0.7",
        "TENSOR_ROUND_PODS_PORT": "tcp://10.0.0.7:8000",
        "TENSOR": "round",
        "TENSOR_ROUND_MAX_TENSOR_BYTES": "8",
    }
    with Service(environment=environment) as service:
        reply = post(service, ieee754("float32", [3]), X.tobytes())
        assert (reply.status, reply.json()["limit_bytes"], reply.json()["got_bytes"]) == (
            413,
            8,
            12,
        )
        warnings = [line.split(maxsplit=1)[1] for line in service.log if "WARNING" in line]
    nothing = "is not a setting and has no effect; the nearest is"
    assert warnings == [
        f"TENSOR_ROUND_MAX_TENSORBYTES {nothing} TENSOR_ROUND_MAX_TENSOR_BYTES\n",
        f"TENSOR_ROUND_PROT {nothing} TENSOR_ROUND_PORT\n",
    ]


def test_every_variable_of_the_client_is_known() -> None:
    client = Path(__file__).parents[3] / "client"
    sources = "".join(path.read_text() for path in client.rglob("*.py"))
    read = {*re.findall(r"TENSOR_ROUND_\w+", sources)}
    assert {"TENSOR_ROUND_URL", "TENSOR_ROUND_API_KEY"} <= read
    assert [*unknown_variables(dict.fromkeys(read, "x"))] == []


SETTINGS_OF_KUBERNETES = {
    "MAX_TENSOR_BYTES": ("64Mi", 'as in 512MiB, got "64Mi"; did you mean 64MiB?'),
    "MAX_BYTES_IN_FLIGHT": ("1.5Gi", "did you mean 1.5GiB?"),
    "PORT": ("tcp://10.0.0.7:8000", "set enableServiceLinks: false in the pod, or pass"),
    "METRICS_PORT": ("tcp://10.0.0.7:9100", "set enableServiceLinks: false in the pod, or pass"),
}


@pytest.mark.parametrize("name", SETTINGS_OF_KUBERNETES)
def test_value_of_kubernetes_is_refused_with_what_to_do(name: str) -> None:
    value, says = SETTINGS_OF_KUBERNETES[name]
    variable = f"TENSOR_ROUND_{name}"
    ended = start([], {**os.environ, variable: value})
    (line,) = ended.stderr.decode().splitlines()
    assert (ended.returncode, says in line, f"({variable})" in line) == (2, True, True), line
    option = f"--{name.lower().replace('_', '-')}"
    assert f"{option} " in line


CERTIFICATE = ["--ssl-certfile", str(SERVER)]
TWO = ["--workers", "2"]
#: Options, with places for a folder and a port that is taken; exit code, and what the line says.
REFUSED: dict[str, tuple[list[str], int, str]] = {
    "port": (["--port", "99999"], 2, "--port (TENSOR_ROUND_PORT): must be less than"),
    "workers": (["--workers", "none"], 2, 'WORKERS): must be an integer, got "none"'),
    "size": (
        ["--max-tensor-bytes", "big"],
        2,
        'BYTES): must be a number of bytes, as in 512MiB, got "',
    ),
    "switch": (["--grpc", "maybe"], 2, 'GRPC): must be true or false, got "maybe"'),
    "option": (
        ["--prot", "80"],
        2,
        "arguments: --prot 80; did you mean --port? --help lists the options",
    ),
    "no budget": (["--max-bytes-in-flight", "0"], 2, "(TENSOR_ROUND_MAX_BYTES_IN_FLIGHT): "),
    "argument": (["serve"], 2, "arguments: serve; --help lists the options"),
    "key alone": (
        ["--ssl-keyfile", str(SERVER)],
        2,
        "(TENSOR_ROUND_SSL_KEYFILE): needs TENSOR_ROUND_SSL_CERTFILE",
    ),
    "authority alone": (["--ssl-ca-certs", str(CA)], 2, "TENSOR_ROUND_SSL_CERTFILE"),
    "host with a scheme": (
        ["--allowed-hosts", "http://x"],
        2,
        'must be names, as in x.example, got "http://x"',
    ),
    "host with a port": (["--allowed-hosts", "a,b:8000"], 2, 'got "b:8000"'),
    "port taken": (["--port", "{port}"], 1, "cannot listen on 127.0.0.1:{port}: "),
    "port taken, 2": (["--port", "{port}", *TWO], 1, "cannot listen on 127.0.0.1:{port}: "),
    "no keys": (["--api-keys-file", "{folder}/none"], 1, "no such file"),
    "broken keys": (["--api-keys-file", "{folder}/keys"], 1, "line 1"),
    "broken keys, 2": (["--api-keys-file", "{folder}/keys", *TWO], 1, "line 1"),
    "no certificate": (["--ssl-certfile", "{folder}/none"], 1, "no such file"),
    "certificate: not PEM": (["--ssl-certfile", __file__], 1, "PEM"),
    "certificate: no key": (["--ssl-certfile", str(CA)], 1, "PEM"),
    "another's key": ([*CERTIFICATE, "--ssl-keyfile", str(CLIENT)], 1, "mismatch"),
    "encrypted key": (["--ssl-certfile", str(ENCRYPTED)], 1, "encrypted"),
    "no authority": ([*CERTIFICATE, "--ssl-ca-certs", __file__], 1, "no certificates"),
    # Where there is a device, number 99 is missing.
    "no device": (["--backend", "cupy", "--devices", "99"], 1, "BACKEND=cupy: "),
}


@pytest.fixture(scope="module")
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as plug:
        yield plug.getsockname()[1]


#: One of each kind is in the other tier.
SLOW = {
    "authority alone",
    "port taken, 2",
    "broken keys",
    "no device",
    "certificate: not PEM",
    "certificate: no key",
    "another's key",
    "encrypted key",
    "no authority",
}
CASES = [
    pytest.param(case, id=name, marks=[pytest.mark.slow] * (name in SLOW))
    for name, case in REFUSED.items()
]


@pytest.mark.parametrize("case", CASES)
def test_refused_start_is_one_line(
    tmp_path: Path, taken: int, case: tuple[list[str], int, str]
) -> None:
    options, code, says = case
    (tmp_path / "keys").write_text("s3cret")
    options = [option.format(folder=tmp_path, port=taken) for option in options]
    ended = start(["--port", "0", *options])
    assert ended.returncode == code, ended.stderr
    (line,) = ended.stderr.decode().splitlines()
    assert line.startswith("tensor-round-service: ")
    assert says.format(port=taken).lower() in line.lower()
    assert "s3cret" not in line
    assert "Value error" not in line


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize(
    ("names", "wrong"),
    [("b4", "b4"), ("tracecontext,", ""), ("baggage, tracecontex", "tracecontex")],
)
def test_unknown_propagator_stops_the_start_with_one_line(
    names: str, wrong: str, workers: str
) -> None:
    """Whether traces are exported or not: FastAPI imports OpenTelemetry."""
    ended = start(["--port", "0", "--workers", workers], {"OTEL_PROPAGATORS": names})
    assert ended.returncode == 1
    (line,) = ended.stderr.decode().splitlines()
    assert f'tensor-round-service: OTEL_PROPAGATORS: got "{wrong}"' in line
    assert "none, tracecontext" in line


#: What a program does to its own surroundings before it starts, and what the last line says.
SURROUNDINGS = {
    "no folder": (
        "tempfile.tempdir = '/proc'; sys.argv += ['--workers', '2']",
        "no folder for workers in /proc: ",
    ),
    "no number of sockets": (
        "os.environ |= {'LISTEN_PID': str(os.getpid()), 'LISTEN_FDS': 'none'}",
        "LISTEN_FDS must be the number of sockets, got 'none'",
    ),
    "no socket": (
        "os.environ |= {'LISTEN_PID': str(os.getpid()), 'LISTEN_FDS': '1'}",
        "file descriptor 3 of LISTEN_FDS",
    ),
    "some of the extra": (
        "sys.modules['fastapi'] = None",
        "pip install 'tensor-round[service]' (fastapi is not installed)",
    ),
}


@pytest.mark.parametrize(("program", "says"), SURROUNDINGS.values(), ids=SURROUNDINGS)
def test_refused_surroundings_are_one_line(program: str, says: str) -> None:
    code = "import os, sys, tempfile\nfrom tensor_round_service.__main__ import main\n"
    code += f"sys.argv += ['--port', '0']\n{program}\nmain()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("tensor-round-service")
    assert says in last
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        (["--host", "0.0.0.0"], True),
        (["--host", "0.0.0.0", *TWO], True),
        (["--host", "0.0.0.0", "--api-keys-file", "KEYS"], False),
        (["--host", "127.0.0.1"], False),
        (["--uds", "SOCKET"], False),
    ],
    ids=str,
)
def test_open_address_without_keys_is_a_warning(
    options: list[str], warns: bool, tmp_path: Path
) -> None:
    (tmp_path / "KEYS").write_text(digest("secret") + "\n")
    paths = {name: str(tmp_path / name) for name in ("KEYS", "SOCKET")}
    with Service(*(paths.get(option, option) for option in options)) as service:
        if service.uds:
            assert post(service, ieee754("float32", [3]), X.tobytes()).status == 200
    assert not (tmp_path / "SOCKET").exists()
    found = [each for each in service.log if "set API_KEYS_FILE or" in each]
    assert len(found) == warns
    assert all(each.startswith("WARNING:") and "HOST 0.0.0.0" in each for each in found)


@pytest.mark.parametrize("workers", [1, 2])
def test_expired_certificate_is_a_warning(workers: int) -> None:
    trusting = caller_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    options = ("--workers", str(workers))
    with TlsService(*options, certificate=EXPIRED, caller=trusting) as service:
        pass
    warning = f"WARNING:  TLS: the certificate in {EXPIRED} expired at 2020-01-02 00:00 UTC"
    assert service.counted(warning) == 1


def said(service: Service) -> str:
    """The terms in the line that says where it runs."""
    (line,) = [line for line in service.log if "running on" in line]
    return re.split(" with ", line.strip(), maxsplit=1)[1]


@pytest.mark.parametrize("workers", [1, 2])
def test_limits_in_effect_are_logged_and_listed(workers: int) -> None:
    budget = f"{4 * workers}MiB"
    with Service("--max-bytes-in-flight", budget, "--workers", str(workers)) as service:
        shown = service.get("/operators").json()
        largest = shown["limits"]["max_tensor_bytes"]
        assert shown["limits"]["max_bytes_in_flight"] == 4 * workers * MIB
        assert largest == 4 * MIB - MIB // 4  # a sixteenth is for small requests
        payload = np.full(largest // 4 + 1, 1.5, "<f4").tobytes()
        for _ in range(10):  # each worker has its turn
            assert post(service, ieee754("float32", [largest // 4]), payload[:-4]).status == 200
            assert post(service, ieee754("float32", [largest // 4 + 1]), payload).status == 413
        count = "1 worker" if workers == 1 else f"{workers} workers"
        sizes = f"tensors of up to 3.8 MiB, {4 * workers} MiB in flight"
        assert said(service) == f"{count}, {sizes}, no API keys, no TLS"
        assert shown["service"] == {
            "version": __version__,
            "workers": workers,
            "api_keys": False,
            "tls": False,
        }
        assert shown["execution"] == {"backend": "numpy", "devices": ["CPU"]}


def test_smaller_setting_is_the_limit_and_keys_and_tls_are_listed(tmp_path: Path) -> None:
    options = ("--max-bytes-in-flight", "1GiB", "--max-tensor-bytes", "64MiB", "--backend", "auto")
    with TlsService(*options, *needing(tmp_path, "secret")) as service:
        assert said(service) == (
            "1 worker, tensors of up to 64 MiB, 1 GiB in flight, API keys, TLS"
        )
        shown = service.request("GET", "/operators", headers={"X-API-Key": "secret"}).json()
        assert shown["limits"]["max_tensor_bytes"] == 64 * MIB
        assert shown["service"] | {"workers": 1, "api_keys": True, "tls": True} == shown["service"]
        assert sum("backend: " in line for line in service.log) == 1


OF_TLS = {"SSL_CERTFILE": str(SERVER)}
HOSTS = ("127.0.0.1", "127.0.0.2", "localhost", "0.0.0.0", "::1", "::")


@pytest.mark.parametrize(
    "settings",
    [
        *({"HOST": host, "ALLOWED_HOSTS": "round.example"} for host in HOSTS),
        {"UDS": "http.sock", "HOST": "127.0.0.9"},
        {"API_KEYS_FILE": "keys", "METRICS_PORT": "0"},
        OF_TLS,
        {**OF_TLS, "SSL_CA_CERTS": str(CA)},
        {**OF_TLS, "UDS": "http.sock"},
    ],
    ids=str,
)
def test_healthcheck_of_the_image_asks_as_the_settings_say(
    settings: dict[str, str], tmp_path: Path
) -> None:
    places = {"UDS": str(tmp_path / "http.sock"), "API_KEYS_FILE": needing(tmp_path, "secret")[1]}
    settings = {name: places.get(name, value) for name, value in settings.items()}
    service = (
        TlsService(caller=caller_context(CLIENT))
        if OF_TLS.items() <= settings.items()
        else Service()
    )
    service.environment = {f"TENSOR_ROUND_{name}": value for name, value in settings.items()}
    with service:
        where = {} if service.uds else {"PORT": str(service.port)}
        assert healthcheck(**settings, **where) == 0
    assert healthcheck(**settings, **where) == 1


def test_healthcheck_of_the_image_says_which_port_it_cannot_use() -> None:
    environment = {**os.environ, "TENSOR_ROUND_PORT": "tcp://10.0.0.7:8000"}
    ended = run([], environment, module="tensor_round_service.process.healthcheck")
    (line,) = ended.stderr.decode().splitlines()
    assert (ended.returncode, line) == (1, "no check: TENSOR_ROUND_PORT must be an integer")


def test_healthcheck_of_the_image_finds_a_silent_server_unhealthy() -> None:
    with socket.create_server(("127.0.0.2", 0)) as silent:
        assert healthcheck(HOST="127.0.0.2", PORT=str(silent.getsockname()[1])) == 1
