"""``tensor-round round``."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated

import typer

from tensor_round.contract.errors import InvalidDescriptor
from tensor_round.contract.operators.operator import RoundOperator
from tensor_round.contract.operators.registry import operator_from_text
from tensor_round.contract.quoting import not_accepted
from tensor_round.contract.rounding import Rounding

from . import npy_files
from .connecting import (
    AsJson,
    Connection,
    Connections,
    Digest,
    DTypeOption,
    Progress,
    TileBytes,
    connects,
)
from .files import check_target, read_tensor

#: The most bytes of a tile by default.
_TILE_BYTES = 64 << 20


@connects
def round_array(
    source: Annotated[
        str,
        typer.Argument(metavar="IN", help="A .npy file, or - for standard input."),
    ],
    target: Annotated[
        str,
        typer.Argument(metavar="OUT", help="The .npy file to write, or - for standard output."),
    ],
    *,
    operator: Annotated[
        str | None,
        typer.Option(
            metavar="OPERATOR",
            help="The operator, in one of the forms above.",
            show_default="ties_to_even",
        ),
    ] = None,
    rounding: Annotated[
        str | None,
        typer.Option(
            metavar="DIRECTION",
            autocompletion=lambda: [rounding.value for rounding in Rounding],
            help=f"An IEEE 754 rounding direction: {', '.join(Rounding)}.",
        ),
    ] = None,
    dtype: DTypeOption = None,
    connection: Connection,
    connections: Connections = 4,
    tile_bytes: TileBytes = _TILE_BYTES,
    digest: Digest = False,
    progress: Progress = None,
    as_json: AsJson = False,
) -> None:
    """Round a .npy file into another one.

    An OPERATOR is directml:TOWARD_INFINITY (with a feature level,
    directml:TOWARD_ZERO:5_0), openvino:half_away_from_zero, onnx:22, or a
    DIRECTION of IEEE 754.

    Files are memory-mapped and may be larger than memory. OUT appears when
    it is complete, and may be IN.
    """
    by = _operator(operator, rounding)
    given = read_tensor(source, dtype)
    check_target(target)
    size, name = given.header.data_length, given.dtype.name
    shows = sys.stderr.isatty() if progress is None else progress
    began = time.monotonic()
    with connection.client(
        as_json, size, digest=digest, connections=connections, tile_bytes=tile_bytes
    ) as client:
        # Before the file is made, so that a rejected tensor leaves none behind.
        direction = by.prepare(name, given.header.shape).call.rounding
        with npy_files.create_npy(target, given) as rounded:
            client.round(given.array, by, out=rounded, progress=shows)
    if as_json:
        seconds = time.monotonic() - began
        data = {
            "input": source,
            "output": target,
            "operator": operator or direction.value,
            "rounding": direction.value,
            "dtype": name,
            "shape": list(given.header.shape),
            "bytes": size,
            "seconds": round(seconds, 6),
            "bytes_per_second": round(size / seconds),
        }
        # Standard output may be the tensor.
        typer.echo(json.dumps(data), err=target == npy_files.PIPE)


def _operator(operator: str | None, rounding: str | None) -> RoundOperator:
    if operator is not None and rounding is not None:
        raise typer.BadParameter("--operator has its own rounding: give one of the two")
    if rounding is not None and rounding not in Rounding.__members__.values():
        raise typer.BadParameter(not_accepted(rounding, Rounding), param_hint="--rounding")
    if operator is None:
        operator = rounding or Rounding.TIES_TO_EVEN
    try:
        return operator_from_text(operator)
    except InvalidDescriptor as error:
        raise typer.BadParameter(error.faults[0].msg, param_hint="--operator") from None
