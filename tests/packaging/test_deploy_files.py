"""docker-compose.yml and the units of systemd: settings and files exist, and nothing has rights."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tensor_round_service.process.listener import BACKLOG
from tensor_round_service.process.workers import KILL_AFTER_SECONDS
from tensor_round_service.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OWN = [name for name in SERVICES if name.startswith("tensor-round")]


def test_each_profile_starts_its_containers() -> None:
    profiles = {name: service.get("profiles") for name, service in SERVICES.items()}
    assert profiles == {
        "tensor-round": None,
        "tensor-round-gpu": ["gpu"],
        "prometheus": ["monitoring"],
        "grafana": ["monitoring"],
    }


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_no_rights(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "user", "network_mode", "pid", "ipc"} & set(service)
    assert any(mount.startswith("/tmp:size=") for mount in service["tmpfs"])
    assert {"memory", "pids"} <= set(service["deploy"]["resources"]["limits"])


def test_ports_are_this_machine_s_and_differ() -> None:
    ports = [port for service in SERVICES.values() for port in service["ports"]]
    hosts, published, _ = zip(*(port.split(":") for port in ports), strict=True)
    assert set(hosts) == {"127.0.0.1"}
    assert len(set(published)) == len(published)


@pytest.mark.parametrize("name", OWN)
def test_an_own_service_has_settings_that_exist(name: str) -> None:
    environment = SERVICES[name]["environment"]
    settings = {key.removeprefix(PREFIX).lower(): value for key, value in environment.items()}
    assert all(key.startswith(PREFIX) for key in environment)
    assert set(settings) <= set(Settings.model_fields)
    made = Settings(**settings)
    # By its name in the network Prometheus reaches it.
    assert made.allowed_hosts == name
    grace = int(SERVICES[name]["stop_grace_period"].removesuffix("s"))
    assert grace > made.drain_delay + made.drain_timeout
    assert SERVICES[name]["ports"][0].endswith(":8000")


@pytest.mark.parametrize("name", OWN)
def test_an_own_service_is_a_target_of_the_dockerfile(name: str) -> None:
    target = SERVICES[name]["build"]["target"]
    assert f" AS {target}\n" in (ROOT / "Dockerfile").read_text()
    assert SERVICES[name]["image"] == f"tensor-round:{target}"


def test_mounted_files_exist_and_are_read_only() -> None:
    mounts = [mount for service in SERVICES.values() for mount in service.get("volumes", [])]
    files = [mount.split(":") for mount in mounts if mount.startswith(".")]
    assert len(files) == 4
    for source, _, mode in files:
        assert (ROOT / source).exists(), source
        assert mode == "ro"
    named = {mount.split(":")[0] for mount in mounts if not mount.startswith(".")}
    assert named == set(COMPOSE["volumes"])


def test_prometheus_finds_the_services_and_grafana_finds_prometheus() -> None:
    monitoring = ROOT / "deploy/monitoring"
    scraped = yaml.safe_load((monitoring / "prometheus.yml").read_text())
    (job,) = scraped["scrape_configs"]
    (found,) = job["dns_sd_configs"]
    assert (found["names"], found["port"]) == (OWN, 8000)
    (rules,) = scraped["rule_files"]
    inside = [mount.split(":")[1] for mount in SERVICES["prometheus"]["volumes"]]
    assert f"/etc/prometheus/{rules}" in inside
    assert "--config.file=/etc/prometheus/prometheus.yml" in SERVICES["prometheus"]["command"]

    provisioning = monitoring / "grafana/provisioning"
    (sources,) = (provisioning / "datasources").iterdir()
    (source,) = yaml.safe_load(sources.read_text())["datasources"]
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    (providers,) = (provisioning / "dashboards").iterdir()
    (provider,) = yaml.safe_load(providers.read_text())["providers"]
    mounted = dict(mount.split(":")[1::-1] for mount in SERVICES["grafana"]["volumes"])
    folder = provider["options"]["path"]
    assert mounted[folder] == "./deploy/monitoring/grafana/dashboards"
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home.startswith(f"{folder}/")
    assert json.loads((ROOT / mounted[folder] / Path(home).name).read_text())["panels"]


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


_NAMED = re.compile(r"[\w./-]+\.(?:md|ya?ml|env|cfg|conf|service|socket|sh)\b")


def test_comments_name_files_that_exist() -> None:
    files = [path for path in (ROOT / "deploy").rglob("*") if path.suffix not in (".json", ".pyc")]
    seen = 0
    for path in filter(Path.is_file, files):
        for comment in re.findall(r"^\s*#(.*)", path.read_text(), re.M):
            for name in _NAMED.findall(comment):
                if not name.startswith("/"):
                    seen += 1
                    places = (path.parent, ROOT, ROOT / "deploy" / "kubernetes", *path.parents)
                    assert any((place / name).exists() for place in places), f"{path}: {name}"
    assert seen > 10


def test_unit_lets_the_service_have_as_many_descriptors_as_connections_need() -> None:
    (descriptors,) = values(SERVICE)["LimitNOFILE"]
    assert int(descriptors) > 8 * BACKLOG
