"""Each feature can be taken away: its folder, and its word in ``FEATURES``."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tensor_round as tr
from support.environments import BUILT, copy_sources
from support.services.server import Service, started_plain
from tensor_round_service.features import FEATURES

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
#: The features that stand on another one, and go with it.
ON = {"oip": {"grpc"}}
#: A path of each feature that has one.
PATHS = {"catalog": "/operators", "compare": "/compare", "oip": "/v2", "pages": "/docs"}
X = np.array([-2.5, -0.3, 0.5, 1.5], np.float32)


class Copy(Service):
    """A service of another tree: a process that has not imported this one."""

    launch = staticmethod(started_plain)


def taken_away(feature: str, tree: Path) -> set[str]:
    """Copy the packages into a folder without a feature; the features that are left."""
    copy_sources(tree, compiled=True)
    gone = {feature} | ON.get(feature, set())
    package = tree / "service" / "tensor_round_service"
    for name in gone:
        shutil.rmtree(package / name)
    left = tuple(name for name in FEATURES if name not in gone)
    text, count = re.subn(
        r"^FEATURES = .*$",
        f"FEATURES = {left!r}",
        (package / "features.py").read_text(),
        flags=re.M,
    )
    assert count == 1
    (package / "features.py").write_text(text)
    return {*left}


@pytest.fixture(params=FEATURES)
def without(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[set[str], Service]]:
    left = taken_away(request.param, tmp_path)
    folders = [*(str(tmp_path / name) for name in BUILT), str(ROOT / "tests")]
    with Copy(environment={"PYTHONPATH": os.pathsep.join(folders)}) as service:
        yield left, service


def test_the_rest_serves_without_a_feature(without: tuple[set[str], Service]) -> None:
    left, service = without
    with tr.Client(service.url) as client:
        assert client.round(X).tobytes() == np.rint(X).tobytes()
        assert client.ready()
    document = json.loads(service.get("/openapi.json").content)
    assert "/round" in document["paths"]
    assert b'route="/round"' in service.get("/metrics").content
    links = json.loads(service.get("/").content)["links"]
    for feature, path in PATHS.items():
        found = service.get(path).status != 404
        assert found == (feature in left), path
        assert (path in links.values()) == (feature in left), path


def test_the_application_names_no_feature() -> None:
    """FastAPI has an option of the name of one, as a key."""
    text = (ROOT / "service" / "tensor_round_service" / "app.py").read_text()
    assert not [name for name in FEATURES if re.search(rf'from \.{name}\b|"{name}"(?!:)', text)]
