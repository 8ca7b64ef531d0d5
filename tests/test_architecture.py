"""The folders and the arrows between them, as docs/architecture.md draws them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.cases.every import every

ROOT = Path(__file__).parent.parent
CLIENT = ROOT / "client" / "tensor_round"
SERVICE = ROOT / "service" / "tensor_round_service"
WEB = {"fastapi", "starlette", "uvicorn"}
IO = {"socket", "asyncio", "httpx2", "http.client", "urllib.request", "threading", "subprocess"}

#: No file is longer, and no folder has more files of Python.
MAX_LINES = 300
MAX_FILES = 16

#: The client's packages, each with those that it may import beside the root's modules.
CLIENT_ARROWS: dict[str, set[str]] = {
    "cli": {
        *("bulk", "doctor", "conformance", "sdk", "transport", "messages", "arrays", "operators"),
        "wire",
    },
    "bulk": {"sdk", "arrays", "operators", "wire"},
    "doctor": {"sdk"},
    "conformance": {"sdk", "messages", "arrays", "operators"},
    "sdk": {"cuda", "transport", "messages", "arrays", "operators", "wire"},
    "cuda": {"transport", "messages", "arrays", "operators"},
    "transport": {"messages", "wire"},
    "messages": {"arrays", "operators", "wire"},
    "arrays": {"operators", "wire"},
    "operators": {"wire"},
    "wire": set(),
}
#: A package that belongs to the root, as every package raises its classes.
ERRORS = "errors"
#: The service's packages, likewise.
SERVICE_ARROWS: dict[str, set[str]] = {
    "fleet": {"process", "engine", "http1"},
    "process": {"auth", "engine", "backends", "http1", "routes"},
    "routes": {"metrics", "auth", "openapi", "http1", "inference", "engine", "backends"},
    "openapi": {"inference"},
    "metrics": {"engine", "http1"},
    "auth": {"http1"},
    "inference": {"engine", "backends"},
    "engine": {"backends"},
    "http1": set(),
    "backends": set(),
}
#: Modules at the root that belong to no package: who alone may import them.
CLIENT_TOPS = {"__main__": set[str](), "onnx_backend": set[str]()}
SERVICE_TOPS = {"__main__": set(), "app": {"process"}, "dispatcher": set(), "local": set()}
TOPS = {"refusals": set[str](), **SERVICE_TOPS}


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


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def modules_of(package: Path) -> dict[str, Path]:
    found = {}
    for path in files(package):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@pytest.mark.parametrize(
    ("root", "package", "allowed"),
    [
        *((CLIENT, package, allowed) for package, allowed in CLIENT_ARROWS.items()),
        *((SERVICE, package, allowed) for package, allowed in SERVICE_ARROWS.items()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_packages_import_along_their_arrows(root: Path, package: str, allowed: set[str]) -> None:
    """From another package only where there is an arrow; from the root, no module of its top."""
    arrows = CLIENT_ARROWS if root is CLIENT else SERVICE_ARROWS
    others = arrows.keys() - {package}
    tops = CLIENT_TOPS if root is CLIENT else TOPS
    closed = {name for name, importers in tops.items() if package not in importers}
    for path in files(root / package):
        used = {name.split(".")[1] for name in imports(path) if name.startswith(f"{root.name}.")}
        assert not used & (others - allowed), path
        assert not used & closed, path


def test_every_package_has_its_arrows() -> None:
    for root, arrows in ((CLIENT, CLIENT_ARROWS), (SERVICE, SERVICE_ARROWS)):
        packages = {path.parent.name for path in root.glob("*/__init__.py")} - {ERRORS}
        assert packages == arrows.keys()


@pytest.mark.parametrize("root", [CLIENT, SERVICE], ids=["client", "service"])
def test_no_module_imports_itself_by_way_of_others(root: Path) -> None:
    modules: Mapping[str, Path] = modules_of(root)
    # A package's __init__ re-exports: it is loaded before its modules, and needs them.
    arrows = {name: loaded(path) & modules.keys() - {name} for name, path in modules.items()}
    for name, path in modules.items():
        if path.name != "__init__.py":
            arrows[name] = {used for used in arrows[name] if not name.startswith(f"{used}.")}
    left = dict(arrows)
    while done := {name for name, used in left.items() if not used & left.keys()}:
        left = {name: used for name, used in left.items() if name not in done}
    assert not left, "circles among " + ", ".join(sorted(left))


@pytest.mark.parametrize(
    "folder", ["client", "service", "tools", "bench", "tests"], ids=lambda folder: folder
)
def test_files_are_short_and_folders_small(folder: str) -> None:
    found = files(ROOT / folder)
    long = {relative(p): n for p in found if (n := len(p.read_text().splitlines())) > MAX_LINES}
    assert not long
    folders = {path.parent for path in found}
    full = {relative(f): n for f in folders if (n := len(list(f.glob("*.py")))) > MAX_FILES}
    assert not full


def test_the_client_knows_no_service() -> None:
    every(lambda path: _excluded(path, {"tensor_round_service", *WEB}), files(CLIENT))


def _excluded(path: Path, forbidden: set[str]) -> None:
    assert not uses(path, forbidden)


@pytest.mark.parametrize("package", ["wire", "operators"])
def test_wire_and_operators_do_no_io(package: str) -> None:
    for path in files(CLIENT / package):
        assert not uses(path, IO), path


#: What the product is judged by.
JUDGES = (
    *("reference", "patterns", "classes"),
    *(f"conversions.{name}" for name in ("reference", "patterns", "classes")),
)


@pytest.mark.parametrize("name", JUDGES)
def test_the_reference_shares_nothing_with_the_product(name: str) -> None:
    path = CLIENT / "conformance" / f"{name.replace('.', '/')}.py"
    used = set(imports(path))
    own = {module for module in used if module.startswith("tensor_round")}
    judges = tuple(f"tensor_round.conformance.{judge}" for judge in JUDGES)
    assert {module for module in own if not module.startswith(judges)} == set()
    assert not uses(path, {"ml_dtypes", *IO})


@pytest.mark.parametrize("package", ["engine", "backends", "inference"])
def test_what_rounds_knows_no_http(package: str) -> None:
    for path in files(SERVICE / package):
        assert not uses(path, WEB), path


def test_routes_know_no_server() -> None:
    assert not any(uses(path, {"uvicorn"}) for path in files(SERVICE / "routes"))


def test_http_knows_no_tensor_and_no_framework() -> None:
    every(_knows_http_alone, files(SERVICE / "http1"))


def _knows_http_alone(path: Path) -> None:
    own = ("tensor_round_service.http1", "tensor_round.errors", "tensor_round.wire")
    names = {name for name in imports(path) if name.startswith("tensor_round")}
    assert not {name for name in names if not name.startswith(own)}
    wire = {name for name in names if name.startswith("tensor_round.wire.")}
    assert wire <= uses(path, {"tensor_round.wire.http1", "tensor_round.wire.native"})
    assert not uses(path, {*WEB, "numpy", "pydantic", "httpx2"})


def test_no_protocol_of_uvicorns_is_used() -> None:
    for path in files(SERVICE):
        assert not uses(path, {"uvicorn.protocols"})
        assert "uvicorn.protocols" not in path.read_text()


def test_the_table_of_rooms_has_every_module() -> None:
    """By its own name, in the row of its folder."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| `([a-z0-9_/]+)/` \| (.*) \|$", page, re.MULTILINE)
    rooms = {name: set(re.findall(r"`([a-z0-9_]+)`", files_)) for name, files_ in rows}

    def check(path: Path) -> None:
        room = relative(path.parent).partition("/")[2]
        assert path.stem in rooms[room]

    modules = (path for path in (*files(CLIENT), *files(SERVICE)) if path.name != "__init__.py")
    every(check, modules)


def test_only_the_controller_and_its_actors_know_ray() -> None:
    known = {path.stem for path in files(SERVICE) if uses(path, {"ray"})}
    assert known == {"command", "controller", "leadership", "replica"}


def test_the_engine_imports_without_a_web_framework() -> None:
    code = (
        "import sys\n"
        f"for name in {sorted(WEB)!r}: sys.modules[name] = None\n"
        "import tensor_round_service.engine, tensor_round_service.backends.select\n"
        "import tensor_round_service.local\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
