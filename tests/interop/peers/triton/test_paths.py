"""Paths of Triton and of the service: status codes, and the members of documents."""

from __future__ import annotations

from typing import Any

import pytest

from support.services.triton import Both


@pytest.mark.parametrize(
    ("method", "path", "theirs", "ours"),
    [
        ("GET", "/v2/health/live", 200, 200),
        ("GET", "/v2/health/ready", 200, 200),
        ("GET", "/v2/models/round/ready", 200, 200),
        ("GET", "/v2/models/none/ready", 400, 404),
        ("GET", "/v2/models/none", 404, 404),
        ("GET", "/v2/models/round/versions/9", 404, 404),
        ("GET", "/v2/", 404, 200),
        ("GET", "/v2/nowhere", 404, 404),
        ("GET", "/v2/models/round/infer", 405, 405),
        ("POST", "/v2/repository/index", 200, 200),
        ("GET", "/v2/systemsharedmemory/status", 200, 200),
        ("GET", "/v2/systemsharedmemory/region/q/status", 404, 404),
        ("POST", "/v2/systemsharedmemory/region/q/unregister", 200, 200),
        ("POST", "/v2/systemsharedmemory/unregister", 200, 200),
        ("POST", "/v2/systemsharedmemory/region/q/register", 500, 400),
        ("GET", "/v2/cudasharedmemory/status", 200, 501),
        ("GET", "/v2/logging", 200, 200),
        ("GET", "/v2/trace/setting", 200, 200),
    ],
)
def test_paths(both: Both, method: str, path: str, theirs: int, ours: int) -> None:
    body = b"" if method == "POST" else None
    assert [server.request(method, path, body).status for server in both] == [theirs, ours]


def members(document_: Any, prefix: str = "") -> set[str]:
    """The paths of all members, of lists those of the first entry."""
    if isinstance(document_, list):
        return members(document_[0], prefix + "[]") if document_ else set()
    if not isinstance(document_, dict):
        return set()
    own = {f"{prefix}.{name}" for name in document_}
    return own.union(*(members(value, f"{prefix}.{name}") for name, value in document_.items()))


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("/v2", set()),
        ("/v2/models/round", set()),
        ("/v2/logging", set()),
        ("/v2/trace/setting", set()),
        (
            "/v2/models/round/stats",
            {".model_stats[].response_stats", ".model_stats[].memory_usage"},
        ),
    ],
)
def test_documents_have_the_same_members(both: Both, path: str, missing: set[str]) -> None:
    theirs, ours = (server.request("GET", path).json() for server in both)
    assert members(theirs) - members(ours) == missing
    assert members(ours) <= members(theirs)


def test_metadata_is_equal(both: Both) -> None:
    theirs, ours = (server.request("GET", "/v2/models/round").json() for server in both)
    assert theirs | {"platform": ""} == ours | {"platform": ""}
