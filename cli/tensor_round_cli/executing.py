"""``tensor-round execute``."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from tensor_round.clients.execution import read_descriptor
from tensor_round.contract.call import Call
from tensor_round.contract.errors import TensorRoundError
from tensor_round.contract.host_memory import Array
from tensor_round.contract.operators.importers.dxdispatch import MAX_LENGTH, parsed_document

from . import npy_files
from .connecting import AsJson, Connection, Digest, Progress, connects
from .files import check_target, of_a_model


@connects
def execute(
    source: Annotated[
        str,
        typer.Argument(metavar="IN", help="The tensor's bytes: a file, or - for standard input."),
    ],
    target: Annotated[
        str, typer.Argument(metavar="OUT", help="The file to write, or - for standard output.")
    ],
    descriptor: Annotated[
        Path,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="The operator descriptor: a file of JSON, in any dialect.",
        ),
    ],
    *,
    connection: Connection,
    digest: Digest = False,
    progress: Progress = None,
    as_json: AsJson = False,
) -> None:
    """Execute an operator descriptor on a raw file.

    IN and OUT have the layouts that the descriptor states; bytes of OUT that no
    element covers are zero. Files are memory-mapped. OUT appears when it is
    complete; it may be IN.
    """
    text = _text(descriptor)
    data = _read(source)
    check_target(target)
    call = _call(text, descriptor)
    if data.nbytes not in call.lengths:
        why = call.wrong_size(data.nbytes)
        raise typer.BadParameter(f"{source}: {why.detail}", param_hint="IN")
    began = time.monotonic()
    with connection.client(as_json, data.nbytes, digest=digest) as client:
        shows = sys.stderr.isatty() if progress is None else progress
        with npy_files.create_file(target, b"", call.output.byte_length) as memory:
            output = client.execute(text, data.data, out=memory.data, progress=shows)
    if as_json:
        layout = output.layout
        report = {
            "input": source,
            "output": target,
            "input_dtype": call.input.dtype.name,
            "dtype": layout.dtype.name,
            "shape": list(layout.shape),
            "strides": list(layout.strides),
            "byte_length": layout.byte_length,
            "rounding": call.rounding.value,
            "seconds": round(time.monotonic() - began, 6),
        }
        typer.echo(json.dumps(report), err=target == npy_files.PIPE)


def _text(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            # One of DxDispatch's is recognized, and refused.
            return file.read(MAX_LENGTH + 1)
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}", param_hint="--descriptor") from None


def _call(text: bytes, path: Path) -> Call:
    try:
        _, plan = read_descriptor(text)
    except TensorRoundError as error:
        detail = f"{path}: {of_a_model(str(path)) or error.detail}"
        if _is_dxdispatch(text):
            detail = f"{path} is DxDispatch's JSON; to convert it, run {_convert(path)}"
        raise typer.BadParameter(detail, param_hint="--descriptor") from None
    return plan.call


def _is_dxdispatch(text: bytes) -> bool:
    """Whether it is an operator or a model as DxDispatch has them."""
    try:
        document = parsed_document(text)
    except TensorRoundError:
        return False
    return "dialect" not in document and bool({"dispatchables", "type", "Type"} & document.keys())


def _convert(path: Path) -> str:
    """The command that writes the descriptor."""
    read = f"tr.from_dxdispatch({str(path)!r}).descriptor().to_json().decode()"
    return f'python -c "import tensor_round as tr; print({read})" > descriptor.json'


def _read(source: str) -> Array:
    try:
        return npy_files.read_bytes(source)
    except OSError as error:
        raise typer.BadParameter(f"{source}: {error.strerror}", param_hint="IN") from None
