"""What the package shows, and what importing it costs."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from typing import get_type_hints

import pydantic
import pytest

import tensor_round as tr
from tensor_round.contract.errors import REFUSALS
from tensor_round.contract.operators.registry import DIALECTS
from tensor_round.contract.version import of_tree

HEAVY = {
    "fastapi",
    "starlette",
    "uvicorn",
    "uvloop",
    "pydantic_settings",
    "tensor_round_service",
    "cupy",
    "torch",
    "typer",
    "rich",
    "httpx2",
    "opentelemetry",
}


#: What takes long to import, and is needed by some calls only.
LATE = {
    "pydantic",
    "pydantic_core",
    "asyncio",
    "importlib.metadata",
    "tensor_round_verify",
    "tensor_round.contract.operators.registry",
    "tensor_round.contract.operators.model",
    *(f"tensor_round.contract.operators.dialects.{name}" for name in DIALECTS),
}
#: The package's own modules that an import loads: without a call, a reader needs no more.
MOST_MODULES = 35


def loaded_after(code: str) -> set[str]:
    """The modules that a fresh process has loaded after the code."""
    code = f"import sys; {code}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_importing_loads_nothing_that_a_caller_may_not_need() -> None:
    found = loaded_after("import tensor_round")
    assert not found & (HEAVY | LATE)
    own = {name for name in found if name.split(".")[0] == "tensor_round"}
    assert len(own) <= MOST_MODULES, sorted(own)


def test_a_proof_of_overlap_loads_nothing() -> None:
    """A service proves on its event loop, and an import would take 10 ms of it."""
    proof = "from tensor_round.contract.layout import are_distinct"
    assert loaded_after(f"{proof}; are_distinct([3, 3], [2, 3])") == loaded_after(proof)


def test_a_client_loads_neither_the_service_nor_the_command_line() -> None:
    found = loaded_after("import tensor_round as tr; tr.Client('http://x').close()")
    assert not found & (HEAVY | LATE - {"importlib.metadata"})


def test_the_first_descriptor_loads_its_own_dialect_alone() -> None:
    found = loaded_after(
        "from tensor_round.contract.operators.operator import as_operator; as_operator(None)"
    )
    dialects = {name for name in found if ".operators.dialects." in name}
    assert dialects == {"tensor_round.contract.operators.dialects.ieee754"}


def test_the_whole_error_tree_is_at_the_top() -> None:
    kinds = {tr.TensorRoundError, tr.UnknownRefusal, *tr.TensorRoundError.__subclasses__()}
    for kind in kinds | {*REFUSALS.values()}:
        assert getattr(tr, kind.__name__) is kind


def test_it_tells_its_version() -> None:
    assert tr.__version__ == of_tree()


def test_all_is_sorted_and_there() -> None:
    assert dir(tr) == tr.__all__ == sorted(tr.__all__)
    assert all(hasattr(tr, name) for name in tr.__all__)


@pytest.mark.parametrize("name", tr.__all__)
def test_every_public_name_has_a_docstring_of_its_own(name: str) -> None:
    first = pydoc.getdoc(getattr(tr, name)).split("\n\n")[0].replace("\n", " ")
    assert first.endswith(".") or ":" in first


@pytest.mark.parametrize("name", tr.__all__)
def test_every_public_class_shows_the_name_that_callers_write(name: str) -> None:
    value = getattr(tr, name)
    assert not isinstance(value, type) or f"{value.__module__}.{value.__name__}" == (
        f"tensor_round.{name}"
    )


def test_annotations_of_public_classes_can_be_read() -> None:
    """By what looks names up in the module that a class shows, as pydantic does."""
    for kind in (tr.OnnxRound, tr.Comparison, tr.Differences):
        assert not any(isinstance(hint, str) for hint in get_type_hints(kind).values())
    pydantic.TypeAdapter(tr.Differences).json_schema()


def test_a_traceback_shows_the_public_name_and_a_remedy() -> None:
    code = "import tensor_round as tr; tr.Client('http://127.0.0.1:1', retries=0).round([0.5])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    error, remedy = done.stderr.splitlines()[-2:]
    assert error.startswith("tensor_round.ConnectionFailed: cannot connect to 127.0.0.1:1")
    assert remedy.endswith("Pass its URL, or set TENSOR_ROUND_URL.")


@pytest.mark.parametrize("kind", [tr.Client, tr.AsyncClient])
def test_a_client_is_made_as_published(kind: type) -> None:
    parameters = list(inspect.signature(kind).parameters.values())
    assert parameters[0].name == "url"
    assert {p.name: p.default for p in parameters[1:]} == {
        "api_key": None,
        "verify": True,
        "cert": None,
        "timeout": 30.0,
        "retries": 3,
        "connections": 4,
        "tile_bytes": 64 << 20,
        "headers": None,
        "transport": None,
        "digest": False,
    }
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters[1:])


def test_both_clients_have_the_same_calls() -> None:
    def calls(kind: type) -> dict[str, list[str]]:
        return {
            name: [f"{p.name}={p.default!r}" for p in inspect.signature(member).parameters.values()]
            for name, member in vars(kind).items()
            if not name.startswith("_")
        }

    assert calls(tr.Client) == calls(tr.AsyncClient)
