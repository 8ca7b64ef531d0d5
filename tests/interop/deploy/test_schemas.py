"""Every resource is as its schema says, and has no field that its schema does not have."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kserve.models
import kubernetes.client
import kubernetes_validate
import pytest

from interop.deploy.manifests import HOME, SCRIPTS, Overlay, Resource

#: Resources without a schema in Kubernetes itself.
CUSTOM = {"InferenceService", "ServiceMonitor", "PrometheusRule", "Gateway", "HTTPRoute"}
#: The least version whose schema has all fields, and the newest here.
VERSIONS = ["1.31", kubernetes_validate.latest_version()]
PRIMITIVES: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "bool": bool,
    "float": (int, float),
    "object": object,
    "ResourceQuantity": (str, int),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_resources_of_kubernetes(overlay: Overlay, version: str) -> None:
    for resource in overlay.resources:
        if resource["kind"] not in CUSTOM:
            kubernetes_validate.validate(resource, version, strict=True)


def faults(value: Any, declared: str, path: str = "") -> Iterator[str]:
    """Where a value is not of a type of KServe's models, as their ``openapi_types`` declare it."""
    if listed := re.fullmatch(r"[Ll]ist\[(.+)\]", declared):
        for index, item in enumerate(value):
            yield from faults(item, listed[1], f"{path}[{index}]")
    elif mapped := re.fullmatch(r"(?:dict\(|Dict\[)str, (.+)[)\]]", declared):
        for key, item in value.items():
            yield from faults(item, mapped[1], f"{path}.{key}")
    elif declared in PRIMITIVES:
        if not isinstance(value, PRIMITIVES[declared]):
            yield f"{path}: not {declared}"
    else:
        model = model_of(declared)
        fields = {key: model.openapi_types[name] for name, key in model.attribute_map.items()}
        for key, item in value.items():
            if key in fields:
                yield from faults(item, fields[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}: unknown"


def model_of(name: str) -> Any:
    """A class of KServe's, or of Kubernetes', which KServe may name with its group."""
    plain = re.sub(r"^K8sIoApi(?:Apps|Core)", "", name)
    return getattr(kserve.models, plain, None) or getattr(kubernetes.client, plain)


def test_the_inference_service(overlays: dict[str, Overlay]) -> None:
    resource = copy.deepcopy(overlays["kserve"].one("InferenceService"))
    assert resource["apiVersion"] == "serving.kserve.io/v1beta1"
    assert not [*faults(resource, "V1beta1InferenceService")]
    resource["spec"]["predictor"] |= {"minReplicas": "2", "readyProbe": {}}
    assert {*faults(resource, "V1beta1InferenceService")} == {
        ".spec.predictor.readyProbe: unknown",
        ".spec.predictor.minReplicas: not int",
    }


def test_the_inference_service_s_pods(overlays: dict[str, Overlay]) -> None:
    """What a predictor has of a pod is strictly a pod's."""
    fields = set(kubernetes.client.V1PodSpec.attribute_map.values())
    spec = {key: value for key, value in overlays["kserve"].pod.items() if key in fields}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
    kubernetes_validate.validate(pod, VERSIONS[-1], strict=True)


def program_of(resource: Resource, folder: Path) -> Path:
    """A program in TypeScript that validates a resource by the schemas of @kubernetes-models."""
    kind = resource["kind"]
    is_route = resource["apiVersion"].startswith("gateway.")
    package = f"@kubernetes-models/{'gateway-api' if is_route else 'prometheus-operator'}"
    source = folder / f"{kind}.ts"
    source.write_text(
        f'import {{ {kind}, type I{kind} }} from "{package}/{resource["apiVersion"]}/{kind}";\n'
        f"const resource: I{kind} = {json.dumps(resource)};\n"
        f"new {kind}(resource).validate();\n"
    )
    (folder / "package.json").write_text('{"type": "module"}')
    modules = folder / "node_modules"
    if not modules.exists():
        modules.symlink_to(HOME / "node" / "node_modules")
    return source


def said(*command: str | Path) -> str:
    """What a failing program says."""
    done = subprocess.run(
        command,
        env={**os.environ, "PATH": f"{SCRIPTS}:{os.environ['PATH']}"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.stdout if done.returncode else ""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("monitoring", "ServiceMonitor"),
        ("monitoring", "PrometheusRule"),
        ("gateway", "Gateway"),
        ("gateway", "HTTPRoute"),
    ],
)
def test_resources_of_the_prometheus_operator_and_the_gateway_api(
    overlays: dict[str, Overlay], name: str, kind: str, tmp_path: Path
) -> None:
    program = program_of(overlays[name].one(kind), tmp_path)
    # The types have no unknown fields, but the schemas allow them.
    tsc = [HOME / "node" / "node_modules" / ".bin" / "tsc", "--noEmit", "--strict"]
    options = ["--skipLibCheck", "--module", "nodenext", "--target", "es2022"]
    assert said(*tsc, *options, program) == ""
    assert said(SCRIPTS / "node", program) == ""
