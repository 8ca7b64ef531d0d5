"""``tensor-round compare``: find the operator for two files, or compare operators on one."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Annotated

import typer

from tensor_round.contract.differences.document import Differences
from tensor_round.contract.errors import InvalidArgument, InvalidDescriptor
from tensor_round_verify import Comparison, compare

from .connecting import AsJson, DTypeOption, Progress
from .files import read_tensor


def compare_files(
    first: Annotated[
        str, typer.Argument(metavar="A", help="A .npy file, or - for standard input.")
    ],
    second: Annotated[
        str | None, typer.Argument(metavar="B", help="A .npy file of the same shape.")
    ] = None,
    dtype: DTypeOption = None,
    scale: Annotated[
        float | None,
        typer.Option(help="The scale of a quantization.", show_default="what explains B"),
    ] = None,
    zero_point: Annotated[
        int | None,
        typer.Option(help="The zero point of a quantization.", show_default="what explains B"),
    ] = None,
    operators: Annotated[list[str] | None, typer.Option("--operator", hidden=True)] = None,
    progress: Progress = None,
    as_json: AsJson = False,
) -> None:
    """Find the operator that turned A into B, or compare operators on A.

    With B: the direction, dialect or known deviation that gives B for A,
    exactly or with the fewest differences; if B has another type, the cast or
    the linear quantization. Without B: the number of elements
    in which each pair of directions differs, by class, and the first of them. No
    service is needed. Files are memory-mapped, so they may be larger than memory.

    Exit code 0 if an operator gives exactly B, or without B; 1 if none does;
    2 for wrong usage.
    """
    if operators:
        command = shlex.join(["tensor-round", "compare", first])
        why = f"compare has no operator; to compare all, run {command}"
        raise typer.BadParameter(why, param_hint="--operator")
    a = read_tensor(first, dtype, "A").array
    b = None if second is None else read_tensor(second, dtype, "B").array
    shows = sys.stderr.isatty() if progress is None else progress
    try:
        if b is None:
            result: Differences | Comparison = compare(a, progress=shows)
        else:
            result = compare(a, b, scale=scale, zero_point=zero_point, progress=shows)
        if not isinstance(result, Differences):
            result = result.named(_called(first), _called(second or ""))
    except InvalidArgument as error:
        raise typer.BadParameter(error.detail, param_hint="B") from None
    except InvalidDescriptor as error:
        raise typer.BadParameter(f"{first}: {error.faults[0].msg}", param_hint="A") from None
    typer.echo(json.dumps(result.as_data()) if as_json else str(result))
    if not isinstance(result, Differences) and not result.exact:
        raise typer.Exit(1)


def _called(path: str) -> str:
    return "standard input" if path == "-" else path
