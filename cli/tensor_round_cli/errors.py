"""Error messages on stderr: text, or JSON with ``--json``."""

from __future__ import annotations

import json
import ssl
from collections.abc import Sequence
from typing import Any

import typer

from tensor_round.contract.errors import ConnectionFailed, RequestRefused, TensorRoundError
from tensor_round.contract.quoting import one_line

#: typer's exit code after Ctrl-C.
_INTERRUPTED = 130


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether ``--json`` is among a command line's options, even if the command line is wrong."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


def run_as_json(app: typer.Typer) -> int:
    """Run the command line, with usage errors as JSON; returns the exit code."""
    try:
        code = app(standalone_mode=False)
    except typer.TyperException as error:
        _print({"kind": "UsageError", "detail": error.format_message(), "request_id": None})
        return error.exit_code
    except typer.Abort:
        _print({"kind": "Aborted", "detail": "aborted", "request_id": None})
        return 1
    if code == _INTERRUPTED:
        _print({"kind": "KeyboardInterrupt", "detail": "interrupted", "request_id": None})
    return code if isinstance(code, int) else 0


def print_error(error: TensorRoundError, url: str, as_json: bool) -> None:
    """Print the error of a call, with advice."""
    if as_json:
        _print(_as_data(error))
        return
    typer.echo(f"tensor-round: {one_line(error.detail)}", err=True)
    for line in _advice(error, url):
        typer.echo(f"  {line}", err=True)


def print_file_error(error: OSError, as_json: bool) -> None:
    """Print the error of a file."""
    name = f"{error.filename}: " if error.filename else ""
    detail = one_line(f"{name}{error.strerror or error}")
    if as_json:
        _print({"kind": type(error).__name__, "detail": detail, "request_id": None})
    else:
        typer.echo(f"tensor-round: {detail}", err=True)


_SET_URL = "set the URL with --url or TENSOR_ROUND_URL"


def _advice(error: TensorRoundError, url: str) -> list[str]:
    lines = []
    if isinstance(error, RequestRefused):
        lines.append(f"refused as {error.code or error.status}")
        if error.status == 401:
            lines.append("pass the key with --api-key-file or TENSOR_ROUND_API_KEY")
        elif error.status == 404:
            lines.append(f"does the service begin at {url}? {_SET_URL}")
    elif isinstance(error.__cause__, ssl.SSLCertVerificationError):
        lines.append("pass the certificates to trust with --ca-file")
    elif isinstance(error, ConnectionFailed):
        lines.append(f"is a service running at {url}? {_SET_URL}")
        if isinstance(error.__cause__, ssl.SSLError):
            lines.append("pass a certificate that the service asks for with --cert-file")
    if error.request_id is not None:
        lines.append(f"request {error.request_id}")
    return lines


def _as_data(error: TensorRoundError) -> dict[str, Any]:
    data: dict[str, Any] = {
        "kind": type(error).__name__,
        "detail": error.detail,
        "request_id": error.request_id,
    }
    if isinstance(error, RequestRefused):
        data |= {
            "status": error.status,
            "code": error.code,
            "errors": [{"loc": fault.loc, "msg": fault.msg} for fault in error.faults],
            "retry_after": error.retry_after,
        }
    return data


def _print(error: dict[str, Any]) -> None:
    typer.echo(json.dumps({"error": error}), err=True)
