"""``tensor-round round``."""

from __future__ import annotations

import json
import math
import shlex
import sys
import time
from typing import Annotated

import typer

from tensor_round.contract.errors import InvalidDescriptor
from tensor_round.contract.operators import RoundOperator
from tensor_round.contract.operators.text import operator_from_text
from tensor_round.contract.progress import amount
from tensor_round.contract.quoting import shown
from tensor_round.contract.rounding import Rounding
from tensor_round.transport.address import Address

from .bulk import npy_files
from .bulk.bulk_run import BulkRun, OtherRun
from .bulk.npy_arrays import NpySource
from .bulk.places import Place
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
from .errors import print_file_error
from .files import make_target, open_source

#: The most bytes of a tile by default.
_TILE_BYTES = 64 << 20


@connects
def round_array(
    source: Annotated[
        str,
        typer.Argument(
            metavar="IN", help="A .npy file or Zarr array: a path, a URL, or - for standard input."
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="OUT", help="The .npy file or Zarr array to write, or - for standard output."
        ),
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
    restart: Annotated[
        bool, typer.Option("--restart", help="Discard the finished tiles of an earlier run.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a Zarr array that is there.")
    ] = False,
    digest: Digest = False,
    progress: Progress = None,
    as_json: AsJson = False,
) -> None:
    """Round a .npy file or Zarr array into another one.

    An OPERATOR is directml:TOWARD_INFINITY (with a feature level,
    directml:TOWARD_ZERO:5_0), openvino:half_away_from_zero, onnx:22, or a
    DIRECTION of IEEE 754.

    Arrays may be larger than memory. Those of several tiles are rounded tile by
    tile; if that ends early, the same command continues it. OUT appears when it
    is complete. A .npy file that is there is replaced then, and may be its own
    OUT; a Zarr array is replaced with --overwrite only.
    """
    by = _operator(operator, rounding)
    given = open_source(source, dtype)
    header, name = given.header, given.dtype.name
    goal = make_target(source, target, given, tile_bytes, overwrite=overwrite)
    size = header.data_length
    if goal is not None:  # the limit is that of each tile
        size = max(tile_bytes, math.prod(goal.grid) * header.itemsize)
    shows = sys.stderr.isatty() if progress is None else progress
    began = time.monotonic()
    with connection.client(
        as_json, size, digest=digest, connections=connections, tile_bytes=tile_bytes
    ) as client:
        # Before the file is made, so that a refused tensor leaves none behind.
        direction = by.prepare(name, header.shape).call.rounding
        if goal is None:
            assert isinstance(given, NpySource)
            with npy_files.create_npy(target, given.tensor) as rounded:
                client.round(given.tensor.array, by, out=rounded, progress=shows)
            tiles, resumed = 1, 0
        else:
            # As many for each service; those of a directory are not known here.
            services = len(Address.parse_all(connection.url))
            run = BulkRun(
                name=Place.of(source).name,
                command=_command(
                    source, target, operator or direction, dtype, tile_bytes, overwrite
                ),
                source=given,
                target=goal,
                operator=by,
                client=client,
                tile_bytes=tile_bytes,
                connections=connections * services,
                timeout=connection.timeout,
                restart=restart,
                progress=shows,
                tell=lambda line: None if as_json else typer.echo(line, err=True),
            )
            tiles, resumed = _outcome(run, as_json)
    seconds = time.monotonic() - began
    if goal is not None and not as_json:
        typer.echo(_told(header.data_length, tiles, resumed, seconds), err=True)
    if as_json:
        data = {
            "input": source,
            "output": target,
            "operator": operator or direction.value,
            "rounding": direction.value,
            "dtype": name,
            "shape": list(header.shape),
            "tiles": tiles,
            "tiles_resumed": resumed,
            "bytes": header.data_length,
            "seconds": round(seconds, 6),
            "bytes_per_second": round(header.data_length / seconds),
        }
        # Standard output may be the tensor.
        typer.echo(json.dumps(data), err=target == npy_files.PIPE)


def _outcome(run: BulkRun, as_json: bool) -> tuple[int, int]:
    try:
        return run.run()
    except OtherRun as error:
        rule = "repeat its command to finish it, or add --restart"
        if error.command and as_json:
            rule = f"{rule}: {error.command}"
        elif error.command:
            # Not in the frame of the error, which would break the line.
            typer.echo(f"unfinished: {error.command}", err=True)
        raise typer.BadParameter(f"an unfinished run has tiles there: {error}; {rule}",
            param_hint="OUT") from None  # fmt: skip
    except KeyboardInterrupt as error:
        print_file_error(InterruptedError(": ".join(["interrupted", *error.args])), as_json)
        raise typer.Exit(130) from None


def _command(
    source: str, target: str, operator: str, dtype: str | None, tile_bytes: int, overwrite: bool
) -> str:
    """The command that continues this run, without what is secret and without where it is sent."""
    words = ["tensor-round", "round", Place.of(source).name, Place.of(target).name]
    words += ["--operator", str(operator)]
    words += [] if dtype is None else ["--dtype", dtype]
    words += [] if tile_bytes == _TILE_BYTES else ["--tile-bytes", str(tile_bytes)]
    return shlex.join([*words, *(["--overwrite"] if overwrite else [])])


def _told(size: int, tiles: int, resumed: int, seconds: float) -> str:
    """How a run went: size, tiles, time, and the rate of the tiles that it rounded itself."""
    earlier = f", {resumed} of them earlier" if resumed else ""
    plural = "" if tiles == 1 else "s"
    rate = size * (tiles - resumed) / max(tiles, 1) / max(seconds, 1e-9)
    took = f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{amount(size)} in {tiles} tile{plural}{earlier}, {took}, {amount(rate)}/s"


def _operator(operator: str | None, rounding: str | None) -> RoundOperator:
    if operator is not None and rounding is not None:
        raise typer.BadParameter("--operator has its own rounding: give one of the two")
    if rounding is not None and rounding not in Rounding.__members__.values():
        rule = f"must be one of {', '.join(Rounding)}, got {shown(rounding)}"
        raise typer.BadParameter(rule, param_hint="--rounding")
    if operator is None:
        operator = rounding or Rounding.TIES_TO_EVEN
    try:
        return operator_from_text(operator)
    except InvalidDescriptor as error:
        raise typer.BadParameter(error.faults[0].msg, param_hint="--operator") from None
