"""The images: hardened, healthy behind every protection, complete in spite of what was removed."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from support.containers import Container, engine, started
from support.keys import needing
from support.pages import ROOT
from support.services.tls import CA, SERVER

DOCKERFILE = ROOT / "Dockerfile"
KEY = "the only key"
CERTIFICATE = {"SSL_CERTFILE": f"/mnt/{SERVER.name}"}
MUTUAL = {**CERTIFICATE, "SSL_CA_CERTS": f"/mnt/{CA.name}"}

#: Bytecode of every module that a start has imported; others are compiled when they are needed.
IMPORTED = """
import os, signal, sys, threading
from tensor_round_service.__main__ import main
from tensor_round_service.process import healthcheck
def finish():
    end = threading.Event()
    while healthcheck.main():
        end.wait(0.1)
    cached = {m.__name__: getattr(m, "__cached__", None) for m in list(sys.modules.values())}
    print(*[n for n, path in cached.items() if path and not os.path.exists(path)], flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
os.environ.update(TENSOR_ROUND_UDS="/tmp/second.sock", TENSOR_ROUND_BACKEND="numpy")
threading.Thread(target=finish).start()
main()
"""


def test_its_python_is_the_dockerfile_s(container: Container) -> None:
    (version,) = re.findall(r"^ARG BASE=python:(\d+\.\d+)-slim$", DOCKERFILE.read_text(), re.M)
    assert container.python("import sys; print('%d.%d' % sys.version_info[:2])").strip() == version


def test_it_tells_the_version_that_its_label_has(container: Container, image: str) -> None:
    label = '{{index .Config.Labels "org.opencontainers.image.version"}}'
    shown = engine("inspect", "--format", label, image).stdout
    assert container.run("tensor-round-service", "--version").stdout.split()[-1] == shown.strip()


def test_it_has_no_rights(container: Container) -> None:
    status = container.python("print(open('/proc/1/status').read())")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["Uid"].split() == ["10001"] * 4
    assert {fields[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd")} == {"0" * 16}
    assert fields["NoNewPrivs"] == "1"


def test_it_can_write_nothing_but_its_tmpfs(container: Container) -> None:
    found = container.python(
        "import os, pathlib\n"
        "for folder in ('/', '/opt/tensor-round', '/etc', '/var/tmp', '/home', '/tmp'):\n"
        "    try: pathlib.Path(folder, 'written').touch(); print(folder)\n"
        "    except OSError: pass"
    )
    assert found.split() == ["/tmp"]


def test_every_result_is_the_published_one(container: Container) -> None:
    found = container.python(
        "import tensor_round as tr\n"
        "from tensor_round.contract.digests import differing\n"
        "with tr.Client('http://127.0.0.1:8000') as client:\n"
        "    for rows in client.conformance()['backends'].values(): print(differing(rows))"
    )
    assert set(found.splitlines()) == {"[]"}


def test_a_start_finds_the_bytecode_of_its_imports(container: Container) -> None:
    missing = set(container.python(IMPORTED).split())
    assert missing <= {"fastapi.telemetry._runtime"}  # FastAPI's own, and private


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"HOST": "127.0.0.1", "PORT": "8443", "WORKERS": "2", **CERTIFICATE},
        {"ALLOWED_HOSTS": "round.example", "API_KEYS_FILE": "/mnt/keys", **MUTUAL},
        {"UDS": "/tmp/http.sock", "API_KEYS_FILE": "/mnt/keys", **MUTUAL},
    ],
    ids=["plain", "tls", "mutual-tls-and-keys", "uds-and-all"],
)
def test_the_health_check_behind_every_protection(
    image: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    keys = Path(needing(tmp_path, KEY)[1])
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(0o755)
    settings = {"BACKEND": "numpy", **environment}
    with started(image, keys, SERVER, CA, **settings) as container:
        container.wait()
        elsewhere = {"UDS": "/tmp/none"} if "UDS" in environment else {"PORT": "9"}
        assert not container.is_healthy(**elsewhere)


def test_the_gpu_image_tells_in_one_line_that_there_is_no_gpu() -> None:
    with started("tensor-round:gpu") as container:
        end = time.monotonic() + 30
        while container.state()["Running"]:
            assert time.monotonic() < end
            time.sleep(0.2)
        assert container.state()["ExitCode"] == 1
        (line,) = container.log().strip().splitlines()
        assert "BACKEND=cupy" in line


@pytest.mark.timeout(600)
def test_the_gpu_image_compiles_every_kernel() -> None:
    with started("tensor-round:gpu", ROOT / "tools", BACKEND="numpy") as container:
        container.wait()
        done = container.run("env", "HOME=/tmp", "python3", "/mnt/tools/compile_kernels.py")
        assert done.returncode == 0, done.stdout + done.stderr
        assert ", 0 faults, " in done.stdout
