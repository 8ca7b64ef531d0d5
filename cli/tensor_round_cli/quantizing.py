"""``tensor-round quantize``, ``dequantize`` and ``fake-quantize``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from tensor_round.clients.client import Client
from tensor_round.clients.quantization import Quantization, dequantizing, faking, quantizing
from tensor_round.contract.dtypes import DTYPES
from tensor_round.contract.errors import TensorRoundError

from . import npy_files
from .connecting import AsJson, Connection, Transfer, connects
from .files import read_tensor
from .rounding import Conversion, Source, Target, convert, usage_errors

Scale = Annotated[
    str, typer.Option(metavar="S", help="The scale: a number, or a .npy file of several.")
]
ZeroPoint = Annotated[
    str | None, typer.Option(metavar="Z", help="The zero point, likewise.", show_default="0")
]
Axis = Annotated[
    int | None,
    typer.Option(metavar="N", help="The dimension along which scales differ.", show_default="1"),
]
BlockSize = Annotated[
    int | None,
    typer.Option(metavar="N", help="Elements of a block along --axis.", show_default="no blocks"),
]
Operator = Annotated[
    str, typer.Option(metavar="OPERATOR", help="The operator's dialect, such as onnx:21.")
]


def _type(name: str, what: str, default: str) -> Any:
    return typer.Option(
        f"--{name}",
        metavar="DTYPE",
        autocompletion=lambda: [dtype.name for dtype in DTYPES],
        help=what,
        show_default=default,
    )


Codes = Annotated[str | None, _type("to", "The type of the integers.", "Z's in a file, else int8")]
Numbers = Annotated[str | None, _type("to", "The type of the results.", "float32")]
Through = Annotated[str | None, _type("through", "The integers' type.", "Z's in a file, else int8")]


@connects
def quantize_array(
    source: Source,
    target: Target,
    scale: Scale,
    *,
    zero_point: ZeroPoint = None,
    to: Codes = None,
    axis: Axis = None,
    block_size: BlockSize = None,
    operator: Operator = "onnx",
    transfer: Transfer,
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """Quantize a .npy file into another one.

    Each element becomes saturate(round(x / S) + Z), as the operator's
    specification says.

    Files are as for cast. A file of S or Z that .npy has no type's name
    for has the type of IN, or of --to.
    """
    given = _parameters(scale, zero_point, transfer.dtype, to)
    named = {"to": to, "axis": axis, "block_size": block_size, "operator": operator}
    by = _conversion(quantizing, Client.quantize, given, named)
    convert(source, target, by, operator, connection, transfer, as_json)


@connects
def dequantize_array(
    source: Source,
    target: Target,
    scale: Scale,
    *,
    zero_point: ZeroPoint = None,
    to: Numbers = None,
    axis: Axis = None,
    block_size: BlockSize = None,
    operator: Operator = "onnx",
    transfer: Transfer,
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """Dequantize a .npy file into another one.

    Each element becomes (x - Z) * S, rounded once.

    Files are as for quantize.
    """
    given = _parameters(scale, zero_point, to, transfer.dtype)
    named = {"to": to, "axis": axis, "block_size": block_size, "operator": operator}
    by = _conversion(dequantizing, Client.dequantize, given, named)
    convert(source, target, by, operator, connection, transfer, as_json)


@connects
def fake_quantize_array(
    source: Source,
    target: Target,
    scale: Scale,
    *,
    zero_point: ZeroPoint = None,
    through: Through = None,
    axis: Axis = None,
    block_size: BlockSize = None,
    operator: Operator = "onnx",
    transfer: Transfer,
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """Quantize a .npy file and dequantize it, into another one.

    Files are as for quantize.
    """
    given = _parameters(scale, zero_point, transfer.dtype, through)
    named = {"through": through, "axis": axis, "block_size": block_size, "operator": operator}
    by = _conversion(faking, Client.fake_quantize, given, named)
    convert(source, target, by, operator, connection, transfer, as_json)


#: The scale and the zero point.
_Given = tuple[Any, Any]


def _conversion(
    make: Callable[..., Quantization],
    method: Callable[..., Any],
    given: _Given,
    named: Mapping[str, Any],
) -> Conversion:
    with usage_errors():
        by = make(*given, **named)

    def fill(client: Client, x: Any, **how: Any) -> None:
        method(client, x, *given, **named, **how)

    return Conversion(by.prepare, fill)


def _parameters(
    scale: str, zero_point: str | None, scale_type: str | None, point_type: str | None
) -> _Given:
    point = None if zero_point is None else _parameter(zero_point, "--zero-point", point_type)
    return _parameter(scale, "--scale", scale_type), point


def _parameter(given: str, option: str, dtype: str | None) -> Any:
    """A number, or the array in a file; ``dtype`` is that of elements without a name in .npy."""
    for read in (int, float):
        with contextlib.suppress(ValueError):
            return read(given)
    with contextlib.suppress(npy_files.DTypeNeeded, TensorRoundError, OSError):
        return npy_files.read_npy(given, None).array
    return read_tensor(given, dtype, option).array
