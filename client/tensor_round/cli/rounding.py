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
    BASE_TIMEOUT,
    DEFAULT_URL,
    TIMEOUT_BYTES_PER_SECOND,
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
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=lambda: [dtype.name for dtype in DTYPES],
            help="The dtype of elements that .npy has no name for: bfloat16, fp8.",
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

    Files are memory-mapped, so they may be larger than memory. OUT is renamed
    into its place when it is complete; it may be IN.
    """
    by = _operator(operator, rounding)
    tensor = read_tensor(source, dtype)
    check_target(target)
    if timeout is None:
        timeout = BASE_TIMEOUT + tensor.array.nbytes / TIMEOUT_BYTES_PER_SECOND
    began = time.monotonic()
    with connected(url, api_key_file, ca_file, cert_file, timeout, as_json, digest) as client:
        # Before the file is made, so that a refused tensor leaves none behind.
        direction = by.prepare(tensor.dtype.name, tensor.header.shape).call.rounding
        shows = sys.stderr.isatty() if progress is None else progress
        with npy_files.create_npy(target, tensor) as rounded:
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
