"""The arrows between the modules, as docs/architecture.md draws them."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONTRACT = ROOT / "client" / "tensor_round"
SERVICE = ROOT / "service" / "tensor_round_service"
WEB = {"fastapi", "starlette", "uvicorn"}
IO = {"socket", "asyncio", "httpx2", "http.client", "urllib.request", "threading", "subprocess"}


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, relative ones spelled out."""
    package = path.relative_to(ROOT).parts[1:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *filter(None, [node.module])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def uses(path: Path, forbidden: set[str]) -> set[str]:
    return {
        name
        for name in imports(path)
        if any(name == root or name.startswith(root + ".") for root in forbidden)
    }


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


@pytest.mark.parametrize("path", files(CONTRACT), ids=lambda p: str(p.relative_to(ROOT)))
def test_the_contract_knows_no_service(path: Path) -> None:
    assert not uses(path, {"tensor_round_service", *WEB})


@pytest.mark.parametrize(
    "path",
    [*files(CONTRACT / "wire"), *files(CONTRACT / "operators")],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_wire_and_operators_do_no_io(path: Path) -> None:
    assert not uses(path, IO)


#: What works without HTTP, on the way of a request.
WORKERS = (
    *("engine", "job", "memory", "overlap", "conformance", "models"),
    *("inference", "inference_work", "pieces", "regions", "shared_memory", "cuda_shared_memory"),
)


@pytest.mark.parametrize(
    "path",
    [*(SERVICE / f"{name}.py" for name in WORKERS), *files(SERVICE / "backends")],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_engine_and_backends_know_no_http(path: Path) -> None:
    http = {f"tensor_round_service.{name}" for name in ("routes", "http1", "front", "refusals")}
    assert not uses(path, {*WEB, *http})


@pytest.mark.parametrize("path", files(SERVICE / "http1"), ids=lambda p: p.name)
def test_http1_knows_no_tensor_and_no_framework(path: Path) -> None:
    parts = ("routes", "front", "engine", "backends", "job", "memory", "overlap", "settings")
    assert not uses(path, {*WEB, *(f"tensor_round_service.{part}" for part in parts)})


def test_routes_know_no_server() -> None:
    parts = {f"tensor_round_service.{part}" for part in ("front", "server", "serve", "app")}
    assert not any(uses(path, {"uvicorn", *parts}) for path in files(SERVICE / "routes"))


@pytest.mark.parametrize("path", files(SERVICE / "backends"), ids=lambda p: p.name)
def test_backends_know_no_engine(path: Path) -> None:
    assert not uses(path, {"tensor_round_service.engine", "tensor_round_service.job"})


def test_the_engine_imports_without_a_web_framework() -> None:
    code = (
        "import sys\n"
        f"for name in {sorted(WEB)!r}: sys.modules[name] = None\n"
        "import tensor_round_service.engine, tensor_round_service.backends.choice\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
