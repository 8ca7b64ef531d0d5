"""The arrows between the modules, as docs/architecture.md draws them."""

from __future__ import annotations

import ast
import re
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
    yield from _imports(path, ast.walk(ast.parse(path.read_text())))


def loaded(path: Path) -> set[str]:
    """The modules that a file needs when it is loaded: not in functions, nor for types alone."""
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    nodes: list[ast.AST] = []
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not is_for_types and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += ast.iter_child_nodes(node)
    return set(_imports(path, iter(nodes)))


def _imports(path: Path, nodes: Iterator[ast.AST]) -> Iterator[str]:
    package = path.relative_to(ROOT).parts[1:-1]
    for node in nodes:
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


#: What the product is judged by.
JUDGES = ("reference", "patterns", "classes")


@pytest.mark.parametrize("name", JUDGES)
def test_the_reference_shares_nothing_with_the_product(name: str) -> None:
    used = set(imports(CONTRACT / "conformance" / f"{name}.py"))
    own = {module for module in used if module.startswith("tensor_round")}
    judges = tuple(f"tensor_round.conformance.{judge}" for judge in JUDGES)
    assert {module for module in own if not module.startswith(judges)} == set()
    assert not uses(CONTRACT / "conformance" / f"{name}.py", {"ml_dtypes", *IO})


#: The service's packages, each with those that it may import. A root module belongs to all of it:
#: it imports what it likes, but no package imports ``app``, ``front`` or ``local``.
ARROWS: dict[str, set[str]] = {
    "process": {"auth", "engine", "backends", "http1", "routes"},
    "routes": {"auth", "openapi", "http1", "inference", "engine", "backends"},
    "openapi": {"inference"},
    "auth": {"http1"},
    "inference": {"engine", "backends"},
    "engine": {"backends"},
    "http1": set(),
    "backends": set(),
}
ROOT_OF_SERVICE = {"documents", "settings", "deployment", "catalog", "failures"}


def package_of(module: str) -> str:
    """The part of the service in which a module lies; nothing for other packages."""
    root, _, rest = module.partition(".")
    return rest.partition(".")[0] if root == "tensor_round_service" else ""


@pytest.mark.parametrize("package", ARROWS)
def test_packages_import_along_their_arrows(package: str) -> None:
    for path in files(SERVICE / package):
        used = {package_of(name) for name in imports(path)} - {"", package}
        forbidden = used - ARROWS[package] - (ROOT_OF_SERVICE if package != "backends" else set())
        assert not forbidden, path


def test_no_protocol_of_uvicorns_is_used() -> None:
    for path in files(SERVICE):
        assert not uses(path, {"uvicorn.protocols"})
        assert "uvicorn.protocols" not in path.read_text()


def test_no_module_of_the_service_comes_back_to_itself() -> None:
    modules = {module_of(path): path for path in files(SERVICE)}
    arrows = {name: loaded(path) & modules.keys() - {name} for name, path in modules.items()}
    left = dict(arrows)
    while done := {name for name, uses_ in left.items() if not uses_ & left.keys()}:
        left = {name: uses_ for name, uses_ in left.items() if name not in done}
    assert not left, "circles among " + ", ".join(sorted(left))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT / "service").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize(
    "path", [*files(CONTRACT), *files(SERVICE)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_the_table_of_owners_has_every_module(path: Path) -> None:
    """By its own name, or with its folder's."""
    owned = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", owned[owned.index("## Who owns what") :], re.M)
    named = {name.rpartition("/")[2] for row in rows for name in re.findall(r"`([^`]+\.py)`", row)}
    folders = {Path(name).name for row in rows for name in re.findall(r"`([^`]+)/`", row)}
    assert path.name in {*named, "__init__.py"} or path.parent.name in folders


def test_the_engine_imports_without_a_web_framework() -> None:
    code = (
        "import sys\n"
        f"for name in {sorted(WEB)!r}: sys.modules[name] = None\n"
        "import tensor_round_service.engine, tensor_round_service.backends.select\n"
        "import tensor_round_service.local\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
