"""The folders and the arrows between them, as docs/architecture.md draws them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

import pytest

from tensor_round_service.features import FEATURES

ROOT = Path(__file__).parent.parent
CLIENT = ROOT / "client" / "tensor_round"
CONTRACT = CLIENT / "contract"
SERVICE = ROOT / "service" / "tensor_round_service"
VERIFY = ROOT / "verify" / "tensor_round_verify"
CLI = ROOT / "cli" / "tensor_round_cli"
PACKAGES = {"client": CLIENT, "service": SERVICE, "verify": VERIFY, "cli": CLI}
WEB = {"fastapi", "starlette", "uvicorn"}
IO = {"socket", "asyncio", "httpx2", "http.client", "urllib.request", "threading", "subprocess"}

#: No file is longer, and no folder has more files of Python.
MAX_LINES = 500
MAX_FILES = 24

#: What each package may import of the others.
OTHERS: dict[str, set[str]] = {
    "client": set(),
    "service": {"tensor_round.contract"},
    "verify": {"tensor_round.contract"},
    "cli": {"tensor_round", "tensor_round_verify"},
}
#: Files that may import more, by name too: what, and why.
EXCEPTIONS: dict[Path, tuple[str, str]] = {
    CLIENT / "__init__.py": ("tensor_round_verify", "offers compare and OnnxBackend"),
    CLIENT / "conformance.py": ("tensor_round_verify", "offers all of it"),
    CLIENT / "__main__.py": ("tensor_round_cli", "python -m tensor_round runs the command"),
    CLIENT / "clients/own.py": ("tensor_round_service", "looks whether round() has an engine"),
    CLIENT / "transport/local_transport.py": (
        "tensor_round_service.local",
        "local: rounds in this process",
    ),
    VERIFY / "onnx_backend.py": ("tensor_round.clients", "ONNX's suite judges a service"),
    VERIFY / "runtimes/service.py": ("tensor_round.clients", "a service is judged"),
}
#: What must be installed for a package to be imported, of the extras that it needs.
LIBRARIES: dict[str, set[str]] = {
    "client": {"numpy", "ml_dtypes", "pydantic", "pydantic_core", "httpx2"},
    "service": {
        "numpy",
        "pydantic",
        "pydantic_core",
        *WEB,
        "httptools",
        "pydantic_settings",
        "prometheus_client",
        "typing_extensions",
        "llvmlite",
        "cupy",
        "cupyx",
        "opentelemetry",
    },
    "verify": {
        "numpy",
        "onnx",
        "gguf",
        "mlx",
        "tinygrad",
        "torch",
        "triton",
        "jax",
        "jaxlib",
        "ai_edge_litert",
        "flatbuffers",
    },
    "cli": {"numpy", "ml_dtypes", "typer"},
}

#: What features may use.
CORE = {"routes", "metrics", "openapi", "net", "auth", "engine", "backends", "codec"}

#: The rooms of each package, each with those that it may import beside the root's modules.
ARROWS: dict[Path, dict[str, set[str]]] = {
    CLIENT: {
        "clients": {"transport", "arrays", "contract"},
        "transport": {"arrays", "contract"},
        "arrays": {"contract"},
        "contract": set(),
    },
    CONTRACT: {
        "differences": {"operators"},
        "operators": {"wire"},
        "wire": set(),
    },
    SERVICE: {
        "process": {"auth", "engine", "backends", "net", "routes"},
        **{name: set(CORE) for name in FEATURES},
        "grpc": {*CORE, "oip"},
        "routes": CORE - {"routes"},
        "openapi": {"engine", "codec", "routes"},
        "metrics": {"engine"},
        "auth": {"net"},
        "engine": {"backends", "net"},
        "net": set(),
        "backends": set(),
        "codec": set(),
    },
    VERIFY: {
        "graphs": {"checks", "conversions", "runtimes"},
        "checks": {"conversions", "runtimes"},
        "runtimes": {"conversions"},
        "conversions": set(),
    },
    CLI: {},
}
#: Modules at a root that belong to no room: who alone may import them.
TOPS: dict[Path, dict[str, set[str]]] = {
    CLIENT: {name: set() for name in ("__main__", "conformance")},
    CONTRACT: {},
    SERVICE: {
        **{name: set() for name in ("__main__", "dispatcher", "local")},
        "features": {*FEATURES, "process"},
        "gate": {*FEATURES},
        "refusals": set(),
        "app": {"process"},
    },
    VERIFY: {name: set() for name in ("onnx_backend", "specifications", "comparison")},
    CLI: {name.stem: set() for name in CLI.glob("*.py") if name.stem != "__init__"},
}


#: What the product is judged by.
JUDGES = (
    "reference",
    "patterns",
    "conversions/reference",
    "conversions/linear",
    "conversions/patterns",
)
JUDGE_MODULES = tuple(judge.replace("/", ".") for judge in JUDGES)
#: What HTTP stands on; of the wire's modules http1 and native alone.
HTTP_MODULES = (
    "tensor_round_service.net",
    "tensor_round.contract.errors",
    "tensor_round.contract.progress",
    "tensor_round.contract.quoting",
    "tensor_round.contract.wire.http1",
    "tensor_round.contract.wire.http_fields",
)
#: Modules that files in these places must not import.
CLOSED: dict[Path, set[str]] = {
    **{CONTRACT / room: IO for room in ARROWS[CONTRACT]},
    **{VERIFY / f"{judge}.py": {"ml_dtypes", *IO} for judge in JUDGES},
    **{SERVICE / room: WEB for room in ("engine", "backends", "codec")},
    SERVICE / "net": {*WEB, "numpy", "pydantic", "httpx2"},
    SERVICE / "routes": {"uvicorn"},
}
#: Beginnings of the only modules of the product that they may import.
OPEN: dict[Path, tuple[str, ...]] = {
    **{
        VERIFY / f"{judge}.py": tuple(f"tensor_round_verify.{each}" for each in JUDGE_MODULES)
        for judge in JUDGES
    },
    SERVICE / "net": HTTP_MODULES,
}


#: Functions that import a module by its name, or look for it.
BY_NAME = {"import_module", "find_spec", "__import__"}
#: A name that a file may compose or look up: a relative one, or one of the product's packages.
MODULE_NAME = re.compile(r"(\.+|tensor_round)\w*(\.\w+)*")


def called(node: ast.Call) -> str:
    return ast.unparse(node.func).rpartition(".")[2]


def names(argument: ast.expr, tree: ast.AST) -> set[str]:
    """The names that an argument of :data:`BY_NAME` may have.

    One that begins with text stands for its package. One from elsewhere may be any in the file.
    """
    begun = argument.values[0] if isinstance(argument, ast.JoinedStr) else argument
    if isinstance(begun, ast.Constant):
        return {str(begun.value)}
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {text for text in texts if isinstance(text, str) and MODULE_NAME.fullmatch(text)}


@cache
def imports(path: Path, *, loaded: bool = False) -> frozenset[str]:
    """Every module that a file imports, by a statement or by name; relative ones spelled out.

    ``loaded`` are those that it needs when it is loaded: not in functions, nor for types alone.
    """
    package = path.relative_to(ROOT).parts[1:-1]
    tree = ast.parse(path.read_text())
    waiting: list[ast.AST] = [tree]
    found: set[str] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *filter(None, [node.module])])
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Call) and called(node) in BY_NAME:
            found |= {resolve_name(name, ".".join(package)) for name in names(node.args[0], tree)}
        is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        is_later = is_for_types or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if not (loaded and is_later):
            waiting += ast.iter_child_nodes(node)
    return frozenset(found)


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


def named(path: Path) -> str:
    """The dotted name of a package."""
    return ".".join(path.relative_to(ROOT).parts[1:])


@pytest.mark.parametrize(
    ("root", "room"),
    [(root, room) for root, rooms in ARROWS.items() for room in rooms],
    ids=lambda value: value if isinstance(value, str) else named(value),
)
def test_rooms_import_along_their_arrows(root: Path, room: str) -> None:
    """From another room only where there is an arrow; from the root, no module of its top."""
    others = ARROWS[root].keys() - {room} - ARROWS[root][room]
    closed = {name for name, importers in TOPS[root].items() if room not in importers}
    for path in files(root / room):
        assert not uses(path, {f"{named(root)}.{name}" for name in others | closed}), path


def test_every_room_has_its_arrows() -> None:
    for root, arrows in ARROWS.items():
        assert {path.parent.name for path in root.glob("*/__init__.py")} == arrows.keys()


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_only_allowed_packages(package: str) -> None:
    own = named(PACKAGES[package])
    for path in files(PACKAGES[package]):
        may = {own, *OTHERS[package], *EXCEPTIONS.get(path, ())[:1]}
        found = uses(path, {named(other) for other in PACKAGES.values()})
        assert found <= uses(path, may), path


@pytest.mark.parametrize("path", EXCEPTIONS, ids=relative)
def test_each_exception_is_needed(path: Path) -> None:
    module, _ = EXCEPTIONS[path]
    assert uses(path, {module})


def test_the_tables_name_what_is_there() -> None:
    modules = {name for package in PACKAGES.values() for name in modules_of(package)}
    tops = {f"{named(root)}.{name}" for root, names in TOPS.items() for name in names}
    assert {*tops, *HTTP_MODULES} <= modules
    assert all(place.exists() for place in (*CLOSED, *OPEN))
    for package, libraries in LIBRARIES.items():
        paths = files(PACKAGES[package])
        assert not {name for name in libraries if not any(uses(path, {name}) for path in paths)}


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_imported_with_their_own_extras(package: str) -> None:
    for path in files(PACKAGES[package]):
        roots = {name.split(".")[0] for name in imports(path, loaded=True)}
        libraries = {name for name in roots if not name.startswith("tensor_round")}
        assert libraries <= LIBRARIES[package] | sys.stdlib_module_names, path


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_itself_by_way_of_others(package: str) -> None:
    modules = modules_of(PACKAGES[package])
    # A package's __init__ re-exports: it is loaded before its modules, and needs them.
    arrows = {
        name: imports(path, loaded=True) & modules.keys() - {name} for name, path in modules.items()
    }
    for name, path in modules.items():
        if path.name != "__init__.py":
            arrows[name] = {used for used in arrows[name] if not name.startswith(f"{used}.")}
    left = dict(arrows)
    while done := {name for name, used in left.items() if not used & left.keys()}:
        left = {name: used for name, used in left.items() if name not in done}
    assert not left, "circles among " + ", ".join(sorted(left))


@pytest.mark.parametrize(
    "folder", [*PACKAGES, "tools", "bench", "tests"], ids=lambda folder: folder
)
def test_files_are_short_and_folders_small(folder: str) -> None:
    found = files(ROOT / folder)
    long = {relative(p): n for p in found if (n := len(p.read_text().splitlines())) > MAX_LINES}
    assert not long
    folders = {path.parent for path in found}
    full = {relative(f): n for f in folders if (n := len(list(f.glob("*.py")))) > MAX_FILES}
    assert not full


def displays(node: ast.AST) -> list[ast.expr]:
    """The tuples and lists that are written out within a call or another display, to be spread."""
    within = getattr(node, "args", ()) if isinstance(node, ast.Call) else getattr(node, "elts", ())
    spread = [each.value for each in within if isinstance(each, ast.Starred)]
    return [each for each in spread if isinstance(each, ast.Tuple | ast.List)]


@pytest.mark.parametrize("folder", [*PACKAGES, "tests", "tools", "bench"])
def test_no_call_or_display_spreads_a_literal(folder: str) -> None:
    """``Row(*(path, name), order)`` hides which argument is which."""
    found = [
        f"{relative(path)}:{each.lineno}"
        for path in files(ROOT / folder)
        for node in ast.walk(ast.parse(path.read_text()))
        for each in displays(node)
    ]
    assert not found


@pytest.mark.parametrize("place", CLOSED, ids=relative)
def test_closed_modules_are_not_imported(place: Path) -> None:
    for path in files(place) if place.is_dir() else [place]:
        assert not uses(path, CLOSED[place]), path


@pytest.mark.parametrize("place", OPEN, ids=relative)
def test_of_the_product_only_open_modules_are_imported(place: Path) -> None:
    for path in files(place) if place.is_dir() else [place]:
        own = {name for name in imports(path) if name.startswith("tensor_round")}
        packages = {
            name for name in own if any(each.startswith(f"{name}.") for each in OPEN[place])
        }
        assert not {name for name in own - packages if not name.startswith(OPEN[place])}, path


def test_no_protocol_of_uvicorns_is_named() -> None:
    assert not [path for path in files(SERVICE) if "uvicorn.protocols" in path.read_text()]


def test_the_table_of_rooms_has_every_folder() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| `([a-z0-9_/]+)/` \|", page, re.MULTILINE)
    modules = (path for root in PACKAGES.values() for path in files(root))
    assert sorted(rows) == sorted({relative(m.parent).partition("/")[2] for m in modules})


def test_the_engine_imports_without_http() -> None:
    closed = [*sorted(WEB), "httptools", "tensor_round_service.net.http1"]
    closed.append("tensor_round_service.routes")
    code = (
        "import sys\n"
        f"for name in {closed!r}: sys.modules[name] = None\n"
        "import tensor_round_service.engine, tensor_round_service.backends.select\n"
        "import tensor_round_service.local\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
