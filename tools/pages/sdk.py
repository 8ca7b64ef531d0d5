"""The reference in docs/sdk.md, from the docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import tensor_round as tr
import tensor_round_verify as conformance
from tensor_round.contract import errors
from tensor_round.contract.operators.registry import DIALECTS, MODULES

BEGIN, END = "<!-- reference: begin -->\n", "<!-- reference: end -->\n"

OPERATORS = tuple(dialect.object for dialect in DIALECTS.values())
#: Each dialect's descriptor, and then its parts.
DESCRIPTORS = tuple(
    kind
    for module in MODULES
    for kind in dict.fromkeys(
        [module.DIALECT.descriptor, *(getattr(module, name) for name in module.__all__)]
    )
    if kind not in OPERATORS
)
_WITHOUT_STATUS = (errors.RequestRefused, errors.UnknownRefusal)
COMPARED = (tr.Differences, conformance.Comparison)
FUNCTIONS = (tr.compare, tr.from_onnx, tr.from_openvino, tr.from_dxdispatch)


def page(current: str) -> str:
    """The page with the reference anew; what stands around it is written by hand."""
    before, rest = current.split(BEGIN)
    after = rest.split(END)[1]
    return before + BEGIN + reference() + END + after


def reference() -> str:
    """The whole reference, as Markdown."""
    parts = [_described("###", "Client", tr.Client)]
    parts += [_described("####", f"Client.{name}", member) for name, member in _members(tr.Client)]
    parts += [_described("###", "AsyncClient", tr.AsyncClient)]
    parts += [
        "### Operator classes\n\n| operator | meaning |\n|---|---|\n" + _rows(OPERATORS, whole=True)
    ]
    parts += [_described("###", "RoundOperator.descriptor", tr.RoundOperator.descriptor)]
    parts += [
        "### Descriptor classes\n\n| descriptor | meaning |\n|---|---|\n" + _rows(DESCRIPTORS)
    ]
    parts += [f"### Output\n\n{_prose(tr.Output)}\n"]
    parts += ["| member | meaning |\n|---|---|\n" + _output()]
    parts += [f"### {kind.__name__}\n\n{_prose(kind)}\n" for kind in COMPARED]
    parts += [_described("###", function.__name__, function) for function in FUNCTIONS]
    parts += ["### Errors\n\n| error | status | what it means |\n|---|---|---|\n" + _errors()]
    return "\n".join(parts)


def _members(kind: type) -> list[tuple[str, Callable[..., Any]]]:
    return [(name, member) for name, member in vars(kind).items() if not name.startswith("_")]


def _described(level: str, name: str, thing: Callable[..., Any]) -> str:
    return f"{level} {name}\n\n```text\n{name}{_signature(thing)}\n```\n\n{_prose(thing)}\n"


def _signature(thing: Callable[..., Any]) -> inspect.Signature:
    """The parameters with their defaults, without types."""
    signature = inspect.signature(thing)
    return signature.replace(
        parameters=[
            p.replace(annotation=p.empty)
            for p in signature.parameters.values()
            if p.name not in ("self", "cls")
        ],
        return_annotation=signature.empty,
    )


def _rows(kinds: Sequence[type], *, whole: bool = False) -> str:
    """A row for each class: the call, and the docstring's first line or all of it."""
    rows = []
    for kind in kinds:
        first, *further = filter(None, _prose(kind).splitlines())
        text = " ".join([first, *further] if whole else [first])
        rows.append(f"| `{kind.__name__}{_signature(kind)}` | {text} |\n")
    return "".join(rows)


def _output() -> str:
    members = _members(tr.Output)
    return "".join(f"| `{name}` | {' '.join(_prose(m).split())} |\n" for name, m in members)


def _errors() -> str:
    kinds = [thing for thing in vars(errors).values() if isinstance(thing, type)]
    exported = {thing for name in tr.__all__ if isinstance(thing := getattr(tr, name), type)}
    rows = [kind for kind in kinds if issubclass(kind, Exception) and kind in exported]
    return "".join(
        f"| `{kind.__name__}` | {_status(kind)} | {_prose(kind).splitlines()[0]} |\n"
        for kind in rows
    )


def _status(kind: type[Exception]) -> str:
    """Its own; the classes above all have none, and one has the response's."""
    is_one = issubclass(kind, errors.RequestRefused) and kind not in _WITHOUT_STATUS
    return str(kind.status) if is_one else ""


def _prose(thing: object) -> str:
    """A docstring as Markdown: roles and double backticks become plain code."""
    text = inspect.getdoc(thing) or ""
    text = re.sub(r":\w+:`[~.]*(?:[\w.]*\.)?([\w]+)`", r"`\1`", text)
    return text.replace("``", "`")
