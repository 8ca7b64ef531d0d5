"""What `kubectl kustomize` makes of deploy/kubernetes, and what the tests ask of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.pages import blocks
from tensor_round_service.settings import PREFIX, Settings

Resource = dict[str, Any]

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "kubernetes"
#: Where `make test-deploy` has installed kubectl, Node.js and the modules of package.json.
HOME = Path(os.environ["DEPLOY_HOME"]).absolute()
SCRIPTS = Path(sys.executable).parent

#: The overlays, one as in docs/containers.md: of one's own, with keys and TLS, and those with a
#: component by which others than the cluster's pods reach the service.
OWN = "own"
EDGES = ("gateway", "ingress")
OVERLAYS = [*sorted(path.name for path in (FOLDER / "overlays").iterdir()), OWN, *EDGES]
#: Those that have pods.
SERVING = [name for name in OVERLAYS if name != "monitoring"]

_UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def render(folder: Path) -> list[Resource]:
    """The resources that ``kubectl apply -k`` would send."""
    done = subprocess.run(
        [SCRIPTS / "kubectl", "kustomize", folder], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def own_overlay(folder: Path) -> Path:
    """The overlay whose parts docs/containers.md shows, beside this tree."""
    text = "".join(block.text for block in blocks("docs/containers.md") if block.language == "yaml")
    text = text.replace("../tensor-round", os.path.relpath(ROOT, folder.resolve()))
    (folder / "kustomization.yaml").write_text(text)
    return folder


def edge_overlay(folder: Path, name: str) -> Path:
    """The overlay ``cpu`` with a component."""
    here = os.path.relpath(FOLDER, folder.resolve())
    lists = {"resources": [f"{here}/overlays/cpu"], "components": [f"{here}/components/{name}"]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(lists))
    return folder


def nbytes(quantity: str) -> int:
    """A Kubernetes quantity of memory."""
    found = re.fullmatch(r"(\d+)(\D*)", quantity)
    assert found is not None, quantity
    return int(found[1]) * _UNITS[found[2]]


@dataclass(frozen=True)
class Overlay:
    """The resources of one overlay."""

    resources: list[Resource]

    def of_kind(self, kind: str) -> list[Resource]:
        return [found for found in self.resources if found["kind"] == kind]

    def one(self, kind: str) -> Resource:
        (found,) = self.of_kind(kind)
        return found

    @cached_property
    def is_kserve(self) -> bool:
        return bool(self.of_kind("InferenceService"))

    @cached_property
    def pod(self) -> Resource:
        """The specification of the pods."""
        if self.is_kserve:
            predictor: Resource = self.one("InferenceService")["spec"]["predictor"]
            return predictor
        spec: Resource = self.one("Deployment")["spec"]["template"]["spec"]
        return spec

    @cached_property
    def pod_labels(self) -> dict[str, str]:
        # KServe gives its pods the labels of the InferenceService.
        if self.is_kserve:
            labels: dict[str, str] = self.one("InferenceService")["metadata"]["labels"]
        else:
            labels = self.one("Deployment")["spec"]["template"]["metadata"]["labels"]
        return labels

    @cached_property
    def container(self) -> Resource:
        (found,) = self.pod["containers"]
        return found

    @cached_property
    def ports(self) -> dict[str, int]:
        return {port["name"]: port["containerPort"] for port in self.container["ports"]}

    @cached_property
    def environment(self) -> dict[str, str]:
        """The variables that the container gets."""
        found: dict[str, str] = {}
        for source in self.container.get("envFrom", []):
            name = source["configMapRef"]["name"]
            maps = {each["metadata"]["name"]: each["data"] for each in self.of_kind("ConfigMap")}
            found |= maps[name]
        for variable in self.container["env"]:
            found[variable["name"]] = variable.get("value") or self._field(variable["valueFrom"])
        return found

    def _field(self, source: Resource) -> str:
        kind, name = source["resourceFieldRef"]["resource"].split(".")
        found: str = self.container["resources"][kind][name]
        return found

    @cached_property
    def settings(self) -> Settings:
        """What the service reads from these variables."""
        with pytest.MonkeyPatch.context() as patch:
            for name in [*os.environ]:
                if name.startswith(PREFIX):
                    patch.delenv(name)
            for name, value in self.environment.items():
                patch.setenv(name, value)
            return Settings()
