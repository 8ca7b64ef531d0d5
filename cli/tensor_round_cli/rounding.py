"""``tensor-round round`` and ``cast``."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple, cast

import typer

from tensor_round.clients.client import Client
from tensor_round.contract.dtypes import DTYPES
from tensor_round.contract.errors import InvalidArgument, InvalidDescriptor
from tensor_round.contract.functions import RoundToIntegral
from tensor_round.contract.operators.operator import PreparedDescriptor, as_cast, as_operator
from tensor_round.contract.rounding import Rounding, RoundingName

from . import npy_files
from .connecting import AsJson, Connection, Transfer, connects
from .files import check_npy_target, read_tensor

Source = Annotated[str, typer.Argument(metavar="IN", help="A .npy file, or - for standard input.")]
Target = Annotated[
    str, typer.Argument(metavar="OUT", help="The .npy file to write, or - for standard output.")
]
OperatorOption = Annotated[
    str | None,
    typer.Option(
        metavar="OPERATOR",
        help="The operator, in one of the forms above.",
        show_default="ties_to_even",
    ),
]
RoundingOption = Annotated[
    str | None,
    typer.Option(
        metavar="DIRECTION",
        autocompletion=lambda: [rounding.value for rounding in Rounding],
        help=f"An IEEE 754 rounding direction: {', '.join(Rounding)}.",
    ),
]


@connects
def round_array(
    source: Source,
    target: Target,
    *,
    operator: OperatorOption = None,
    rounding: RoundingOption = None,
    transfer: Transfer,
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """Round a .npy file into another one.

    An OPERATOR is directml:TOWARD_INFINITY (with a feature level,
    directml:TOWARD_ZERO:5_0), openvino:half_away_from_zero, onnx:22,
    onnx:Floor, webnn:ceil, or a DIRECTION of IEEE 754.

    Files are memory-mapped and may be larger than memory. OUT appears when
    it is complete, and may be IN.
    """
    with usage_errors():
        by = as_operator(operator, cast(RoundingName | None, rounding))

    def fill(client: Client, x: Any, **how: Any) -> None:
        client.round(x, by, **how)

    convert(source, target, Conversion(by.prepare, fill), operator, connection, transfer, as_json)


@connects
def cast_array(
    source: Source,
    target: Target,
    to: Annotated[
        str,
        typer.Option(
            metavar="DTYPE",
            autocompletion=lambda: [dtype.name for dtype in DTYPES],
            help="The target type, such as float8_e4m3fn.",
        ),
    ],
    *,
    operator: OperatorOption = None,
    rounding: RoundingOption = None,
    saturate: Annotated[
        bool | None,
        typer.Option(
            help="Whether a result beyond the range is the largest number.",
            show_default="the operator's",
        ),
    ] = None,
    transfer: Transfer,
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """Convert a .npy file to another type, into another file.

    An OPERATOR is onnx:24, openvino, directml:CAST:4_1, webnn, stablehlo,
    array_api, mlir, or a DIRECTION of IEEE 754, which is ties_to_even by
    default.

    Files are memory-mapped and may be larger than memory. OUT appears when
    it is complete, and may be IN. Types that .npy has no name for are
    written as V1 or V2.
    """
    with usage_errors():
        by = as_cast(to, operator, cast(RoundingName | None, rounding), saturate)

    def fill(client: Client, x: Any, **how: Any) -> None:
        client.cast(x, operator=by, **how)

    convert(source, target, Conversion(by.prepare, fill), operator, connection, transfer, as_json)


class Conversion(NamedTuple):
    """What a command does to a file.

    ``prepare`` makes the descriptor of a tensor of a dtype and a shape. ``fill`` has a client make
    the results of an array, in ``out``.
    """

    prepare: Callable[[str, tuple[int, ...]], PreparedDescriptor]
    fill: Callable[..., None]


def convert(
    source: str,
    target: str,
    by: Conversion,
    word: str | None,
    connection: Connection,
    transfer: Transfer,
    as_json: bool,
) -> None:
    """Write the results of an operator on a file; ``word`` is the caller's word for it."""
    given = read_tensor(source, transfer.dtype)
    check_npy_target(target)
    size, name = given.header.data_length, given.dtype.name
    try:
        call = by.prepare(name, given.header.shape).call
    except (InvalidArgument, InvalidDescriptor) as error:
        raise typer.BadParameter(f"{source}: {error.detail}", param_hint="IN") from None
    shows = sys.stderr.isatty() if transfer.progress is None else transfer.progress
    began = time.monotonic()
    with (
        connection.client(
            as_json,
            size,
            digest=transfer.digest,
            connections=transfer.connections,
            tile_bytes=transfer.tile_bytes,
        ) as client,
        npy_files.create_npy(target, given, call.output.dtype) as results,
    ):
        by.fill(client, given.array, out=results, progress=shows)
    if as_json:
        seconds = time.monotonic() - began
        to = call.output.dtype.name
        data = {
            "input": source,
            "output": target,
            "operator": word or call.rounding.value,
            "rounding": call.rounding.value,
            "dtype": name,
            **({} if isinstance(call.function, RoundToIntegral) else {"to": to}),
            "shape": list(given.header.shape),
            "bytes": size,
            "seconds": round(seconds, 6),
            "bytes_per_second": round(size / seconds),
        }
        # Standard output may be the tensor.
        typer.echo(json.dumps(data), err=target == npy_files.PIPE)


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a refused operator into an error of the option that names it."""
    try:
        yield
    except InvalidDescriptor as error:
        fault = error.faults[0]
        raise typer.BadParameter(fault.msg, param_hint=f"--{fault.loc[0]}") from None
    except InvalidArgument as error:
        raise typer.BadParameter(f"{error.detail}: --operator or --rounding") from None
