"""The unit files: what the page says of them, and systemd's own checks where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tensor_round_service.process.listener import BACKLOG
from tensor_round_service.process.workers import KILL_AFTER_SECONDS
from tensor_round_service.settings import Settings

ROOT = Path(__file__).parents[2]
UNITS = ROOT / "deploy" / "systemd"
SERVICE, SOCKET = UNITS / "tensor-round.service", UNITS / "tensor-round.socket"


def values(unit: Path) -> dict[str, list[str]]:
    """The assignments of a unit, by name; comments are left out."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", unit.read_text(), re.M):
        found.setdefault(name, []).append(value)
    return found


def test_the_service_has_more_time_than_its_drain_takes() -> None:
    service, defaults = values(SERVICE), Settings()
    drain = defaults.drain_delay + defaults.drain_timeout + KILL_AFTER_SECONDS
    assert float(service["TimeoutStopSec"][0]) > drain
    # Else workers would get the signal twice, and SIGHUP would reach nobody.
    assert service["KillMode"] == ["mixed"]
    assert service["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert service["Type"] == ["notify"]


def test_the_socket_is_that_of_the_defaults() -> None:
    socket, defaults = values(SOCKET), Settings()
    assert socket["ListenStream"] == [f"{defaults.host}:{defaults.port}"]
    assert socket["Backlog"] == [str(BACKLOG)]
    assert SOCKET.name in values(SERVICE)["Requires"]


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
def test_systemd_finds_no_fault(tmp_path: Path) -> None:
    service = tmp_path / SERVICE.name
    program = f"ExecStart={Path(sys.executable).parent}/"
    service.write_text(
        SERVICE.read_text().replace("ExecStart=/opt/tensor-round/current/bin/", program)
    )
    socket = shutil.copy(SOCKET, tmp_path)
    verified = subprocess.run(
        ["systemd-analyze", "verify", service, socket], capture_output=True, text=True, timeout=60
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", service],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert rated.returncode == 0, rated.stdout[-500:]
