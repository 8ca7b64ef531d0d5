"""``tensor-round verify MODEL``: the rounding nodes and the outputs of a model, in runtimes."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import typer

from tensor_round_verify import RUNTIMES, CannotVerify, verify_model
from tensor_round_verify.checks.rounding import Nans
from tensor_round_verify.deadlines import write_file
from tensor_round_verify.graphs.verification import MODELS

from .errors import print_error, print_file_error

#: The exit code without a verdict.
NO_VERDICT = 2
#: The ends of the names of models.
MODEL_FILES = tuple(MODELS)


@contextmanager
def verdict_or_exit(as_json: bool) -> Iterator[None]:
    """Print what keeps the block from a verdict, and exit with :data:`NO_VERDICT`."""
    try:
        yield
    except CannotVerify as error:
        print_error(error, "", as_json)
        raise typer.Exit(NO_VERDICT) from None
    except MemoryError:
        print_error(CannotVerify("out of memory"), "", as_json)
        raise typer.Exit(NO_VERDICT) from None
    except OSError as error:
        print_file_error(error, as_json)
        raise typer.Exit(NO_VERDICT) from None


def is_model(text: str) -> bool:
    """Whether an argument is the file of a model, and not the name of a runtime."""
    is_runtime = text.partition(":")[0] in {row.name for row in RUNTIMES}
    return not is_runtime and Path(text).suffix.lower() in MODELS


def how_to_verify(model: str) -> str:
    """The command that verifies the rounding nodes of a model."""
    runtime = "openvino" if model.lower().endswith(".xml") else "onnxruntime"
    return f"tensor-round verify {shlex.quote(model)} --input x.npz --runtime {runtime}"


def refuse_options(given: Mapping[str, object], why: str) -> None:
    """Raise ``typer.BadParameter`` for options that were given."""
    for option, value in given.items():
        if value:
            raise typer.BadParameter(why, param_hint=option)


def verify_model_file(
    model: str,
    inputs: Path | None,
    runtimes: Sequence[str],
    nans: Nans | None,
    timeout: float,
    junit: Path | None,
    as_json: bool,
) -> None:
    """Print the verdicts on a model, and a summary on stderr."""
    if inputs is None or not runtimes:
        if not Path(model).exists():
            raise typer.BadParameter(f"there is no file {model}", param_hint="MODEL")
        missing = "--input" if inputs is None else "--runtime"
        why = f"a model needs inputs and runtimes: {how_to_verify(model)}"
        raise typer.BadParameter(why, param_hint=missing)
    # Only the report goes to standard output; what a runtime prints goes to stderr.
    with verdict_or_exit(as_json), redirect_stdout(sys.stderr):
        check_folder(junit)
        report = verify_model(model, inputs, runtimes, nans=nans, timeout=timeout)
    if as_json:
        typer.echo(json.dumps(report.as_data()))
    else:
        typer.echo(str(report))
        typer.echo(report.summary, err=True)
    write_junit(junit, report.junit_xml(), timeout, as_json)
    if not report.right:
        raise typer.Exit(1 if report.wrong else NO_VERDICT)


def check_folder(junit: Path | None) -> None:
    """Raise :class:`CannotVerify` if there is no folder for the file."""
    if junit is not None and not junit.parent.is_dir():
        raise CannotVerify(f"{junit}: there is no folder {junit.parent}")


def write_junit(junit: Path | None, document: bytes, timeout: float, as_json: bool) -> None:
    """Write JUnit XML to a file that was asked for."""
    if junit is not None:
        try:
            write_file(junit, document, timeout)
        except OSError as error:
            print_file_error(error, as_json)
            raise typer.Exit(1) from None
