"""``tensor-round round``."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated

import typer

from ..arrays import npy_files
from ..dtypes import DTYPES
from ..errors import InvalidDescriptor
from ..operators.objects import RoundOperator
from ..operators.text import operator_from_text
from ..quoting import shown
from ..rounding import Rounding
from .connecting import connected
from .files import check_target, read_tensor
from .options import (
    BYTES_A_SECOND,
    DEFAULT_URL,
    PATIENCE,
    ApiKeyFile,
    AsJson,
    CaFile,
    CertFile,
    Digest,
    Progress,
    Timeout,
    Url,
)


def round_file(
    source: Annotated[
        str, typer.Argument(metavar="IN", help="A .npy file, or - for standard input.")
    ],
    target: Annotated[
        str, typer.Argument(metavar="OUT", help="The .npy file to write, or - for standard output.")
    ],
    operator: Annotated[
        str | None,
        typer.Option(
            metavar="OPERATOR",
            help="The operator in its dialect's words, as above.",
            show_default="ties_to_even",
        ),
    ] = None,
    rounding: Annotated[
        str | None,
        typer.Option(
            metavar="DIRECTION",
            autocompletion=lambda: [rounding.value for rounding in Rounding],
            help=f"The operator of IEEE 754: {', '.join(Rounding)}.",
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=lambda: [dtype.name for dtype in DTYPES],
            help="What the elements are, where .npy has no name for it: bfloat16, fp8.",
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    api_key_file: ApiKeyFile = None,
    ca_file: CaFile = None,
    cert_file: CertFile = None,
    timeout: Timeout = None,
    digest: Digest = False,
    progress: Progress = None,
    as_json: AsJson = False,
) -> None:
    """Round a .npy file into another one.

    An OPERATOR is directml:TOWARD_INFINITY (with a feature level,
    directml:TOWARD_ZERO:5_0), openvino:half_away_from_zero, onnx:22, or a
    DIRECTION of IEEE 754.

    Files are mapped, so they may be larger than memory. OUT is written beside
    its place and renamed when it is whole; it may be IN.
    """
    by = _operator(operator, rounding)
    tensor = read_tensor(source, dtype)
    check_target(target)
    if timeout is None:
        timeout = PATIENCE + tensor.array.nbytes / BYTES_A_SECOND
    began = time.monotonic()
    with connected(url, api_key_file, ca_file, cert_file, timeout, as_json, digest) as client:
        # Refused by its dialect, a tensor leaves no file behind.
        direction = by.plan(tensor.dtype.name, tensor.header.shape).call.rounding
        shows = sys.stderr.isatty() if progress is None else progress
        with npy_files.written(target, tensor) as rounded:
            client.round(tensor.array, by, out=rounded, progress=shows)
    seconds = time.monotonic() - began
    if as_json:
        report = {
            "input": source,
            "output": target,
            "operator": operator or direction.value,
            "rounding": direction.value,
            "dtype": tensor.dtype.name,
            "shape": list(tensor.header.shape),
            "bytes": tensor.array.nbytes,
            "seconds": round(seconds, 6),
        }
        # Standard output may be the tensor.
        typer.echo(json.dumps(report), err=target == npy_files.PIPE)


def _operator(operator: str | None, rounding: str | None) -> RoundOperator:
    if operator is not None and rounding is not None:
        raise typer.BadParameter("--rounding is part of the operator: give one of the two")
    if rounding is not None and rounding not in Rounding.__members__.values():
        rule = f"must be one of {', '.join(Rounding)}, got {shown(rounding)}"
        raise typer.BadParameter(rule, param_hint="--rounding")
    if operator is None:
        operator = rounding or Rounding.TIES_TO_EVEN
    try:
        return operator_from_text(operator)
    except InvalidDescriptor as error:
        raise typer.BadParameter(error.faults[0].msg, param_hint="--operator") from None
