"""The reference in docs/sdk.md and the codes in docs/http.md, from the docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import tensor_round as tr
from tensor_round.contract import errors
from tensor_round.contract.operators.registry import OPERATORS

from .marks import between_marks

OBJECTS = tuple(operator.object for operator in OPERATORS.values())
COMPARED = (tr.Differences, tr.Comparison)
OPERATOR_CLASSES = """\
### Operator classes

Each has its operator's attributes; [descriptors](descriptors.md) have the rules. `to` is the target
type. An importer sets `dtype`, `shape` and `tensors`, the layouts that it read.

"""
FUNCTIONS_HEAD = """\
### Functions and their results

`help()` has all that these and the calls in the table above take, raise and return.

| name | meaning |
|---|---|
"""
#: The calls whose arguments those of the others are like.
DESCRIBED = ("round", "cast", "quantize", "execute")
FUNCTIONS = (tr.compare, tr.from_onnx, tr.from_openvino, tr.from_dxdispatch)


def page(current: str) -> str:
    """docs/sdk.md with the reference anew; the text around it is written by hand."""
    return between_marks(current, reference())


def http_page(current: str) -> str:
    """docs/http.md, likewise with the table of codes."""
    return between_marks(current, codes())


def reference() -> str:
    """The whole reference, as Markdown."""
    parts = [_described("###", "Client", tr.Client)]
    calls = dict(_members(tr.Client))
    parts += [_described("####", f"Client.{name}", calls.pop(name)) for name in DESCRIBED]
    short = [
        f"| `Client.{name}{_signature(call)}` | {_summary(call)} |\n"
        for name, call in calls.items()
    ]
    parts += ["| call | meaning |\n|---|---|\n" + "".join(short)]
    parts += [f"### AsyncClient\n\n{_prose(tr.AsyncClient)}\n"]
    parts += [OPERATOR_CLASSES + f"```text\n{_operators()}```\n"]
    parts += [_described("###", "RoundOperator.descriptor", tr.RoundOperator.descriptor)]
    parts += [f"### Output\n\n{_prose(tr.Output)}\n"]
    parts += ["| member | meaning |\n|---|---|\n" + _output()]
    parts += [FUNCTIONS_HEAD + "".join(map(_summed_up, (*FUNCTIONS, *COMPARED)))]
    parts += ["### Errors\n\n| error | meaning |\n|---|---|\n" + _errors()]
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


def _summed_up(thing: Any) -> str:
    """A row with the first sentence; a class, which nobody calls, without its parameters."""
    called = "" if isinstance(thing, type) else _signature(thing)
    return f"| `{thing.__name__}{called}` | {_summary(thing)} |\n"


def _summary(thing: object) -> str:
    """The first paragraph, on one line."""
    return " ".join(_prose(thing).partition("\n\n")[0].split())


def _operators() -> str:
    return "".join(f"{kind.__name__}{_signature(kind)}\n" for kind in OBJECTS)


def _output() -> str:
    members = _members(tr.Output)
    return "".join(f"| `{name}` | {' '.join(_prose(m).split())} |\n" for name, m in members)


def _errors() -> str:
    """The errors without a code, which :func:`codes` has."""
    kinds = [thing for thing in vars(errors).values() if isinstance(thing, type)]
    rows = [kind for kind in kinds if issubclass(kind, tr.TensorRoundError)]
    return "".join(
        f"| `{kind.__name__}` | {_prose(kind).splitlines()[0]} |\n"
        for kind in rows
        if kind not in errors.REFUSALS.values()
    )


def codes() -> str:
    """A row for each code, by status."""
    return "| status | code | meaning |\n|---|---|---|\n" + "".join(
        f"| {kind.status} | `{code}` | {_prose(kind)} |\n"
        for code, kind in sorted(errors.REFUSALS.items(), key=lambda item: item[1].status)
    )


def _prose(thing: object) -> str:
    """A docstring as Markdown: roles and double backticks become plain code."""
    text = inspect.getdoc(thing) or ""
    text = re.sub(r":\w+:`[~.]*(?:[\w.]*\.)?([\w]+)`", r"`\1`", text)
    return text.replace("``", "`")
