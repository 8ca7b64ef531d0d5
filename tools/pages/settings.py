"""docs/settings.md, from settings.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import ByteSize
from pydantic.fields import FieldInfo

from tensor_round_service.settings import PREFIX, Settings

HEAD = f"""\
# Settings

Each setting is an option and an environment variable, here `--workers` and `{PREFIX}WORKERS`; the
option wins. Other pages name it WORKERS.

```sh
{PREFIX}WORKERS=2 tensor-round-service --max-tensor-bytes 256MiB
```

A size is a number of bytes, or has a unit: `64MiB`, `1GiB`. Separate the items of a list by commas.
The line `running on ...` of the log and `GET /operators` show the effective limits, which may be
lower.

An unknown variable with the prefix `{PREFIX}` gives a warning that names the nearest setting.
With an unusable setting the service prints one line and exits: with 2 for an invalid value, with 1
if the file, address or device cannot be used.

In Kubernetes, a Service named `tensor-round` sets `{PREFIX}PORT` to a URL: set
`enableServiceLinks: false` in the pod, or pass `--port`.

| option | type | default | meaning |
|---|---|---|---|
"""

_NAMES = {str: "text", int: "integer", float: "number", Path: "path", ByteSize: "size"}


def page() -> str:
    """The whole page, as Markdown."""
    return HEAD + "".join(_row(*item) for item in Settings.model_fields.items())


def _row(name: str, field: FieldInfo) -> str:
    cells = (
        f"`--{name.replace('_', '-')}`",
        _type(field),
        _default(field),
        " ".join(str(field.description).split()),
    )
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |\n"


def _type(field: FieldInfo) -> str:
    (kind,) = [kind for kind in _members(field.annotation) if kind is not NoneType]
    if get_origin(kind) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(kind))
    if kind is bool:
        return "`true`, `false`"
    if get_origin(kind) is Annotated:
        kind, field = get_args(kind)
    return ", ".join([_NAMES[kind], *_bounds(field)])


def _members(annotation: Any) -> tuple[Any, ...]:
    """A union's members; anything else is its own."""
    is_union = get_origin(annotation) not in (None, Literal)
    return get_args(annotation) if is_union else (annotation,)


def _bounds(field: FieldInfo) -> Iterator[str]:
    for rule in field.metadata:
        match rule:
            case Ge(least):
                yield f"≥ {least}"
            case Gt(under):
                yield f"> {under}"
            case Le(most):
                yield f"≤ {most}"


def _default(field: FieldInfo) -> str:
    match field.default:
        case None:
            return "not set"
        case bool(value):
            return f"`{str(value).lower()}`"
        case ByteSize() as size:
            return f"`{size.human_readable().replace('.0', '')}`"
        case value:
            return f"`{value}`"
