"""``tensor-round specs``: rounding operators in other specifications."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tensor_round_verify.specifications import SPECIFICATIONS, find

from .options import AsJson

_NAMES = list(dict.fromkeys(row.name.partition(".")[0] for row in SPECIFICATIONS))


def specs(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=lambda: [row.name for row in SPECIFICATIONS],
            help="An operator (stablehlo.round_nearest_afz) or all of one family (stablehlo).",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List how specifications round halves; with NAME print all rules of one operator or family."""
    rows = SPECIFICATIONS if name is None else find(name)
    if not rows:
        raise typer.BadParameter(f"must be one of {', '.join(_NAMES)}", param_hint="NAME")
    if as_json:
        typer.echo(json.dumps([row.as_data() for row in rows]))
        return
    if name is None:
        width = max(len(row.name) for row in rows)
        for row in rows:
            typer.echo(f"{row.name:<{width}}  {row.ties}")
        return
    for row in rows:
        typer.echo(row.name)
        for field, value in row.as_data().items():
            if field != "name" and value:
                typer.echo(f"  {field}: {value}")
