"""The command ``tensor-round``: works on files, describes a service, verifies other runtimes.

Exit codes: 0 for success; 1 if the service refused, was not reachable, or a check failed; 2 for
wrong usage; 130 after Ctrl-C. With ``--json`` reports and errors are JSON, whatever the exit code.
"""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from tensor_round.contract.version import __version__

from .comparing import compare_files
from .describing import conformance, operators, ping, specs
from .doctor import doctor
from .errors import run_as_json, wants_json
from .executing import execute
from .quantizing import dequantize_array, fake_quantize_array, quantize_array
from .rounding import cast_array, round_array
from .verifying import verify_runtime

app = typer.Typer(
    name="tensor-round",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("round")(round_array)
app.command("cast")(cast_array)
app.command("quantize")(quantize_array)
app.command("dequantize")(dequantize_array)
app.command("fake-quantize")(fake_quantize_array)
app.command()(execute)
app.command()(operators)
app.command()(conformance)
app.command()(ping)
app.command()(doctor)
app.command()(specs)
app.command("verify")(verify_runtime)
app.command("compare")(compare_files)


def main() -> None:
    """Run the command line."""
    if wants_json(sys.argv[1:]):
        sys.exit(run_as_json(app))
    app()


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.command(hidden=True, context_settings={"ignore_unknown_options": True})
def serve(options: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Say which program serves."""
    command = shlex.join(["tensor-round-service", *(options or [])])
    raise typer.BadParameter(f"this is the client; to start a service, run {command}")


@app.callback()
def root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Round, cast and quantize tensors exactly, and find the runtimes that do not.

    verify, compare and specs need no service; with --url local: the others need none, either.
    """


__all__ = ["app", "main"]
