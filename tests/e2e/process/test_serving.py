"""The process: its options, its signals, its sockets, its memory."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from support.command_line import run
from support.http.native_form import ieee754, post
from support.services.server import Reply, Service
from tensor_round.contract.operators import registry
from tensor_round_service.process.command_line import unknown_variables

X = np.array([0.5, 1.5, -2.5], "<f4")


def start(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tensor_round_service", *options],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", **environment},
    )


def test_help_names_every_setting() -> None:
    from tensor_round_service.settings import Settings

    shown = start("--help")
    assert shown.returncode == 0
    for name, field in Settings.model_fields.items():
        assert f"--{name.replace('_', '-')}" in shown.stdout
        assert field.description is not None


def test_version() -> None:
    shown = start("--version")
    assert (shown.returncode, shown.stdout) == (
        0,
        f"tensor-round-service {version('tensor-round')}\n",
    )


def test_an_unknown_variable_is_a_warning_that_names_the_nearest_setting() -> None:
    environment = {
        "TENSOR_ROUND_PROT": "9000",
        "TENSOR_ROUND_MAX_TENSORBYTES": "8",
        # Of the client, of Kubernetes, of others.
        "TENSOR_ROUND_URL": "http://127.0.0.1:8000",
        "TENSOR_ROUND_API_KEY": "secret",
        "TENSOR_ROUND_SERVICE_HOST": "10.0.0.7",
        "TENSOR_ROUND_PORT_8000_TCP_ADDR": "10.0.0.7",
        "TENSOR": "round",
    }
    with Service(environment=environment) as service:
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
    assert [*unknown_variables(read)] == []


@pytest.mark.parametrize(
    ("options", "environment", "says"),
    [
        (["--port", "99999"], {}, "--port (TENSOR_ROUND_PORT): must be less than"),
        ([], {"TENSOR_ROUND_WORKERS": "none"}, 'WORKERS): must be an integer, got "none"'),
        (
            ["--max-tensor-bytes", "big"],
            {},
            'BYTES): must be a number of bytes, as in 512MiB, got "',
        ),
        (["--grpc", "maybe"], {}, '(TENSOR_ROUND_GRPC): must be true or false, got "maybe"'),
        (
            ["--prot", "80"],
            {},
            "arguments: --prot 80; did you mean --port? --help lists the options",
        ),
        (["serve"], {}, "arguments: serve; --help lists the options"),
        (
            ["--ssl-keyfile", "/none"],
            {},
            "(TENSOR_ROUND_SSL_KEYFILE): needs TENSOR_ROUND_SSL_CERTFILE",
        ),
        (["--allowed-hosts", "http://x"], {}, 'must be names, as in x.example, got "http://x"'),
        (["--allowed-hosts", "a,b:8000"], {}, 'must be names, as in x.example, got "b:8000"'),
    ],
)
def test_a_wrong_setting_is_named(
    options: list[str], environment: dict[str, str], says: str
) -> None:
    ended = run(options, environment, module="tensor_round_service")
    shown = ended.stderr.decode()
    assert ended.returncode == 2
    assert says in shown
    assert "Traceback" not in shown
    assert "Value error" not in shown


@pytest.mark.slow
def test_cupy_without_a_device_is_one_clear_line() -> None:
    ended = start("--backend", "cupy")
    if ended.returncode == 0:  # there is a device, and the port was free
        pytest.skip("this machine has a usable GPU")
    assert ended.returncode == 1
    (line,) = ended.stderr.strip().splitlines()
    assert "cupy" in line.lower()


@pytest.mark.slow
@pytest.mark.usefixtures("each_started")
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_exit_code_0(signum: signal.Signals) -> None:
    with Service() as service:
        service.process.send_signal(signum)
        assert service.process.wait(30) == 0


def test_a_request_under_way_is_finished_before_leaving() -> None:
    with Service() as service, contextlib.closing(service.connection()) as connection:
        connection.putrequest("POST", "/round")
        connection.putheader("Operator-Descriptor", ieee754("float32", [3]))
        connection.putheader("Content-Length", "12")
        connection.endheaders(X.tobytes()[:5])
        time.sleep(0.3)
        service.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        connection.send(X.tobytes()[5:])
        assert Reply.read(connection).content == np.rint(X).tobytes()
        assert service.process.wait(30) == 0


def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "round.sock"
    with Service("--uds", str(path)) as service:
        assert post(service, ieee754("float32", [3]), X.tobytes()).status == 200
    assert not path.exists()


def test_settings_from_the_environment() -> None:
    with Service(environment={"TENSOR_ROUND_MAX_TENSOR_BYTES": "8"}) as service:
        assert service.get("/operators").json()["limits"]["max_tensor_bytes"] == 8
        reply = post(service, ieee754("float32", [3]), X.tobytes())
        assert reply.status == 413
        assert reply.json()["limit_bytes"] == 8
        assert reply.json()["got_bytes"] == 12
        assert post(service, ieee754("float32", [2]), X.tobytes()[:8]).status == 200


@pytest.mark.usefixtures("each_started")
def test_several_workers_serve_one_port() -> None:
    with Service("--workers", "2", "--max-tensor-bytes", "12") as service:
        for _ in range(20):
            assert post(service, ieee754("float32", [3]), X.tobytes()).status == 200
            assert post(service, ieee754("float32", [4]), X.tobytes()).status == 413


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")
def test_service_is_imported_once_for_all_workers() -> None:
    """Each process that imports by itself says so: Python's variable has it."""
    with Service("--workers", "3", environment={"PYTHONPROFILEIMPORTTIME": "1"}) as service:
        while sum("serves" in line for line in service.log) < 3:
            time.sleep(0.02)
    imported = [line.split("|")[-1].strip() for line in service.log if "import time:" in line]
    assert imported.count("tensor_round_service.app") == 1
    assert imported.count("numpy") == 1


def test_a_supervisor_needs_no_framework() -> None:
    program = "import sys, tensor_round_service.process.serve; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert {"pydantic", "tensor_round_service.process.workers"} <= {*done.stdout.split()}
    assert not {"fastapi", "uvicorn", "tensor_round_service.app"} & {*done.stdout.split()}


@pytest.mark.slow
def test_a_large_tensor_is_held_once(service: Service) -> None:
    # The service was used before: what it loads lazily is loaded.
    payload = np.full(64 << 20, 1.5, "<f4")
    post(service, ieee754("float32", [3]), X.tobytes())
    before = service.rss()
    reply = post(service, ieee754("float32", [payload.size]), payload.data.cast("B"))
    assert reply.status == 200
    assert bytes(reply.content[:4]) == np.float32(2).tobytes()
    assert (np.frombuffer(reply.content, "<f4") == 2).all()
    grown = service.peak_rss() - before
    assert grown <= 1.15 * payload.nbytes, f"grew by {grown / payload.nbytes:.2f} payloads"


@pytest.mark.slow
def test_a_long_request_does_not_hold_up_the_others(service: Service) -> None:
    # A transposing copy of 256 MiB takes a second or so; health is asked meanwhile.
    side = 8192
    descriptor = ieee754("float32", [side, side], strides=[1, side])
    payload = np.zeros(side * side, "<f4")
    replies: list[Reply] = []
    worker = threading.Thread(
        target=lambda: replies.append(post(service, descriptor, payload.data.cast("B")))
    )
    slowest = 0.0
    worker.start()
    while worker.is_alive():
        began = time.monotonic()
        assert service.get("/livez").status == 200
        slowest = max(slowest, time.monotonic() - began)
    worker.join()
    assert replies[0].status == 200
    assert slowest < 1, f"health waited {slowest:.2f} s"


def test_operators_are_the_catalog_and_the_limits(service: Service) -> None:
    told = service.get("/operators").json()
    assert told["dialects"] == json.loads(json.dumps(registry.catalog()))
    assert set(told) == {"dialects", "roundings", "dtypes", "execution", "limits", "service"}


def test_docs_need_no_other_host(service: Service) -> None:
    page = service.get("/docs")
    assert page.status == 200
    text = page.content.decode()
    for outside in ("https://", "http://", "//cdn"):
        assert outside not in text
    for name in ("swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png"):
        assert f"docs/{name}" in text
        assert service.get(f"/docs/{name}").status == 200
    assert service.get("/docs/../settings.py").status == 404


def test_the_log_says_which_backend_serves() -> None:
    with Service("--backend", "auto") as service:
        assert sum("backend: " in line for line in service.log) == 1


@pytest.mark.slow
def test_idle_connections_are_closed_after_keep_alive() -> None:
    with Service("--keep-alive", "0.4") as service, kept(service) as caller:
        began = time.monotonic()
        assert caller.sock.recv(1) == b""
        assert time.monotonic() - began < 4.5
    with Service("--keep-alive", "60") as service, kept(service) as caller:
        caller.sock.settimeout(6)  # more than the default
        with pytest.raises(TimeoutError):
            caller.sock.recv(1)


@contextlib.contextmanager
def kept(service: Service) -> Iterator[HTTPConnection]:
    """A connection on which a request was served."""
    with contextlib.closing(service.connection(timeout=20)) as caller:
        caller.request("GET", "/livez")
        assert Reply.read(caller).status == 200
        yield caller
