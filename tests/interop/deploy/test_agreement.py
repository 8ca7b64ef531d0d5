"""What the files of deploy/kubernetes say agrees with the service, the image and each other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product

import pytest
import yaml
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from interop.deploy.manifests import EDGES, FOLDER, OWN, ROOT, SERVING, Overlay, Resource, nbytes
from support.services.server import Service
from tensor_round_service.engine.memory import largest_request
from tensor_round_service.grpc.messages import DESCRIPTORS
from tensor_round_service.settings import PREFIX, Settings

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
#: Seconds that a process needs to exit once its drain is over.
EXIT = 2
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_every_variable_is_a_setting(serving: Overlay) -> None:
    names = {name.removeprefix(PREFIX).lower() for name in serving.environment}
    own = {"protocol"} if serving.is_kserve else set()
    assert names - own <= set(Settings.model_fields)
    assert serving.settings.workers == 2


def test_probes_are_paths_of_the_service(serving: Overlay, service: Service) -> None:
    # A probe can present no client certificate, and the port of the metrics asks for none.
    port, probed = ("http", service) if serving.is_kserve else ("metrics", service.beside)
    for probe in PROBES:
        request = serving.container[probe]["httpGet"]
        assert probed.get(request["path"]).status == 200
        assert request["port"] == port
        assert "scheme" not in request
    readiness = serving.container["readinessProbe"]["httpGet"]["path"]
    assert readiness in ("/readyz", "/v2/health/ready")
    for probe in ("startupProbe", "livenessProbe"):
        assert serving.container[probe]["httpGet"]["path"] in ("/livez", "/v2/health/live")


def test_the_grace_period_is_enough(serving: Overlay) -> None:
    assert "lifecycle" not in serving.container, "count its preStop in"
    needed = serving.settings.drain_delay + serving.settings.drain_timeout + EXIT
    assert serving.pod["terminationGracePeriodSeconds"] >= needed


def test_the_drain_delay_is_long_enough_to_be_noticed(serving: Overlay) -> None:
    """A balancer that probes as Kubernetes does sends no new connections once it is over."""
    probe = serving.container["readinessProbe"]
    assert serving.settings.drain_delay >= probe["periodSeconds"] * probe["failureThreshold"]


def test_resources_fit_the_settings(serving: Overlay) -> None:
    settings, resources = serving.settings, serving.container["resources"]
    memory = resources["limits"]["memory"]
    assert resources["requests"]["memory"] == memory
    assert str(settings.workers) == resources["requests"]["cpu"]
    assert "cpu" not in resources["limits"]
    assert settings.max_bytes_in_flight
    assert 2 * settings.max_bytes_in_flight <= nbytes(memory)
    of_worker = largest_request(settings.max_bytes_in_flight // settings.workers)
    assert 2 * settings.max_tensor_bytes <= of_worker


def test_a_pod_is_confined(serving: Overlay) -> None:
    """As the Pod Security Standard "restricted" has it, and more."""
    pod, container = serving.pod, serving.container
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    user = int(re.findall(r"--uid (\d+)", DOCKERFILE)[0])
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert {kind for v in pod["volumes"] for kind in v if kind != "name"} <= {"emptyDir", "secret"}
    sizes = [v["emptyDir"]["sizeLimit"] for v in pod["volumes"] if "emptyDir" in v]
    assert all(map(nbytes, sizes))


def test_mounts_are_volumes_and_files_are_in_mounts(serving: Overlay) -> None:
    mounts = {mount["name"]: mount["mountPath"] for mount in serving.container["volumeMounts"]}
    assert set(mounts) == {volume["name"] for volume in serving.pod["volumes"]}
    assert mounts["tmp"] == "/tmp"
    settings = serving.settings
    for file in (settings.api_keys_file, settings.ssl_certfile, settings.ssl_keyfile):
        assert file is None or str(file.parent) in mounts.values()
    if "kernels" in mounts:
        assert f"CUPY_CACHE_DIR={mounts['kernels']} " in DOCKERFILE


def test_an_overlay_of_one_s_own_adds_settings_and_components(
    overlays: dict[str, Overlay],
) -> None:
    plain, secured = overlays["cpu"].settings, overlays[OWN].settings
    assert secured.access_log
    assert plain.api_keys_file is plain.ssl_certfile is None
    for file in (secured.api_keys_file, secured.ssl_certfile, secured.ssl_keyfile):
        assert file is not None


def test_images_are_targets_of_the_dockerfile(serving: Overlay) -> None:
    targets = set(re.findall(r"^FROM runtime AS (\w+)$", DOCKERFILE, re.M))
    name, mark, tag = re.split("([@:])", serving.container["image"], maxsplit=1)
    if mark == "@":
        assert name == "registry.example/tensor-round"
        return
    assert name == "tensor-round"
    assert tag in targets
    backend = {"cpu": "numpy", "gpu": "cupy"}[tag]
    assert serving.settings.backend == backend


def test_a_gpu_is_asked_for_where_one_is_needed(serving: Overlay) -> None:
    needed = serving.settings.backend == "cupy"
    assert ("nvidia.com/gpu" in serving.container["resources"]["limits"]) == needed
    assert bool(serving.pod.get("tolerations")) == needed
    assert bool(serving.settings.gpu_memory_limit) == needed


def test_ports_have_one_name(serving: Overlay) -> None:
    assert serving.ports["metrics"] == serving.settings.metrics_port
    image_port = int(re.findall(r"TENSOR_ROUND_PORT=(\d+)", DOCKERFILE)[0])
    assert serving.ports == {"http": image_port, "metrics": serving.settings.metrics_port}
    # KServe's Service leads to the first port.
    assert serving.container["ports"][0]["name"] == "http"
    for found in serving.of_kind("Service"):
        for port in found["spec"]["ports"]:
            # gRPC is on the pods' port of HTTP, and another one of the Service, which has an IP.
            is_grpc = port["name"] == "grpc"
            assert port["targetPort"] == ("http" if is_grpc else port["name"])
            assert is_grpc == (port["port"] not in serving.ports.values())
            assert not (is_grpc and found["spec"].get("clusterIP") == "None")
    for found in serving.of_kind("NetworkPolicy"):
        rules = found["spec"]["ingress"]
        assert {p["port"] for rule in rules for p in rule["ports"]} == set(serving.ports)
        assert found["spec"]["egress"] == []


def test_meshes_and_gateways_know_the_protocols(serving: Overlay) -> None:
    """Of the Service with an IP; they find out those of the other one's pods."""
    if serving.is_kserve:
        return
    balanced, _ = serving.of_kind("Service")
    has_tls = serving.settings.ssl_certfile is not None
    told = {port["name"]: port["appProtocol"] for port in balanced["spec"]["ports"]}
    plain = {"http": "http", "grpc": "kubernetes.io/h2c"}
    assert told == (dict.fromkeys(plain, "https") if has_tls else plain)


def test_routes_lead_to_ports_of_the_service_that_speak_their_protocol(
    overlays: dict[str, Overlay],
) -> None:
    for name in EDGES:
        service, _ = overlays[name].of_kind("Service")
        ports = {port["name"]: port["port"] for port in service["spec"]["ports"]}
        if name == "ingress":
            (rule,) = overlays[name].one("Ingress")["spec"]["rules"]
            (path,) = rule["http"]["paths"]
            backend = path["backend"]["service"]
            assert (backend["name"], path["path"]) == (service["metadata"]["name"], "/")
            assert backend["port"]["name"] in ports
            continue
        calls, others = overlays[name].one("HTTPRoute")["spec"]["rules"]
        assert [backend["port"] for backend in others["backendRefs"]] == [ports["http"]]
        assert [backend["port"] for backend in calls["backendRefs"]] == [ports["grpc"]]
        prefixes = {match["path"]["value"] for match in calls["matches"]}
        assert prefixes == {*services()}


def test_a_pod_has_an_account_without_rights(serving: Overlay) -> None:
    if serving.is_kserve:
        return
    account = serving.one("ServiceAccount")
    assert serving.pod["serviceAccountName"] == account["metadata"]["name"]
    assert account["automountServiceAccountToken"] is False


def test_pods_are_spread_by_version(serving: Overlay) -> None:
    for spread in serving.pod.get("topologySpreadConstraints", []):
        assert spread["matchLabelKeys"] == ["pod-template-hash"]


def test_every_name_of_a_service_is_allowed(serving: Overlay) -> None:
    allowed = serving.settings.allowed_hosts
    if serving.is_kserve:
        assert allowed is None
        return
    names = {
        ".".join([each["metadata"]["name"], each["metadata"]["namespace"], "svc", "cluster.local"])
        for each in serving.of_kind("Service")
    }
    short = (".".join(name.split(".")[:count]) for name, count in product(names, (1, 2, 3, 5)))
    assert allowed is not None
    assert set(allowed.split(",")) == set(short)


def test_selectors_select_the_pods(serving: Overlay) -> None:
    selectors = [found["spec"]["selector"] for found in serving.of_kind("Service")]
    for kind in ("Deployment", "PodDisruptionBudget"):
        selectors += [found["spec"]["selector"]["matchLabels"] for found in serving.of_kind(kind)]
    for found in serving.of_kind("NetworkPolicy"):
        selectors.append(found["spec"]["podSelector"]["matchLabels"])
    for spread in serving.pod.get("topologySpreadConstraints", []):
        selectors.append(spread["labelSelector"]["matchLabels"])
    assert len(selectors) == (0 if serving.is_kserve else 7)
    for selector in selectors:
        assert selector.items() <= serving.pod_labels.items()


def test_a_node_can_be_drained_and_one_pod_stays(serving: Overlay) -> None:
    if serving.is_kserve:
        assert serving.pod["minReplicas"] > 1
        return
    replicas = serving.one("HorizontalPodAutoscaler")["spec"]["minReplicas"]
    assert 1 <= serving.one("PodDisruptionBudget")["spec"]["maxUnavailable"] < replicas
    assert "replicas" not in serving.one("Deployment")["spec"]


def test_the_autoscaler_s_metric_is_the_service_s(serving: Overlay, service: Service) -> None:
    if serving.is_kserve:
        return
    autoscaler = serving.one("HorizontalPodAutoscaler")["spec"]
    target, deployment = autoscaler["scaleTargetRef"], serving.one("Deployment")
    assert (target["kind"], target["name"]) == ("Deployment", deployment["metadata"]["name"])
    metric = autoscaler["metrics"][0]["pods"]
    name = metric["metric"]["name"]
    assert re.search(rf"^{name} ", service.beside.get("/metrics").content.decode(), re.M)
    budget = serving.settings.max_bytes_in_flight or 0
    assert 2 * nbytes(metric["target"]["averageValue"]) == budget
    adapter = yaml.safe_load(
        (FOLDER / "overlays" / "monitoring" / "prometheus-adapter.yaml").read_text()
    )
    (rule,) = adapter["rules"]["custom"]
    assert rule["seriesQuery"].partition("{")[0] == name


@pytest.mark.parametrize("name", SERVING)
def test_prometheus_scrapes_every_pod_once(overlays: dict[str, Overlay], name: str) -> None:
    if overlays[name].is_kserve:
        annotations = overlays[name].one("InferenceService")["metadata"]["annotations"]
        assert annotations["prometheus.io/port"] == str(overlays[name].settings.metrics_port)
        return
    monitor = overlays["monitoring"].one("ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    services = [s for s in overlays[name].of_kind("Service") if wanted <= labels(s).items()]
    ports = [port["name"] for found in services for port in found["spec"]["ports"]]
    assert ports.count(endpoint["port"]) == 1
    assert {namespace(found) for found in (monitor, *services)} == {"tensor-round"}


def services() -> Iterator[str]:
    """Paths of gRPC's services, without a method."""
    for file in FileDescriptorSet.FromString(DESCRIPTORS).file:
        yield from (f"/{file.package}.{service.name}" for service in file.service)


def labels(resource: Resource) -> dict[str, str]:
    found: dict[str, str] = resource["metadata"]["labels"]
    return found


def namespace(resource: Resource) -> str:
    found: str = resource["metadata"]["namespace"]
    return found


def test_rules_and_dashboard_are_those_of_deploy_monitoring(overlays: dict[str, Overlay]) -> None:
    monitoring = ROOT / "deploy" / "monitoring"
    rules = yaml.safe_load((monitoring / "alerts.yml").read_text())
    assert overlays["monitoring"].one("PrometheusRule")["spec"] == rules
    # The job of a scraped pod is the value of this label of its Service.
    job_label = overlays["monitoring"].one("ServiceMonitor")["spec"]["jobLabel"]
    jobs = set(re.findall(r'job="([^"]*)"', json.dumps(rules).replace("\\", "")))
    assert jobs == {labels(found)[job_label] for found in overlays["cpu"].of_kind("Service")}
    (dashboard,) = overlays["monitoring"].of_kind("ConfigMap")
    assert labels(dashboard)["grafana_dashboard"] == "1"
    (content,) = dashboard["data"].values()
    source = monitoring / "grafana" / "dashboards" / "tensor-round.json"
    assert json.loads(content) == json.loads(source.read_text())


def test_overlay_with_pods_has_their_namespace(serving: Overlay) -> None:
    name = serving.one("Namespace")["metadata"]["name"]
    others = [each for each in serving.resources if each["kind"] != "Namespace"]
    assert {namespace(each) for each in others} == {name}


def test_common_labels(overlay: Overlay) -> None:
    for resource in overlay.resources:
        assert labels(resource)["app.kubernetes.io/name"] == "tensor-round"
