"""The ``tensor-round`` command: round files, and ask a service what it is.

Exit codes: 0; 1 when the service said no or was not there; 2 for wrong usage.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from . import npyfiles
from .client import Client
from .dtypes import DTYPES
from .errors import (
    ConnectionFailed,
    InvalidArgument,
    MalformedNpy,
    RequestRefused,
    TensorRoundError,
    UnsupportedMediaType,
)
from .published import DIGESTS
from .rounding import Rounding

DEFAULT_URL = "http://127.0.0.1:8000"
#: Seconds that a call may take, and bytes for each of which it may take another.
PATIENCE, BYTES_A_SECOND = 30.0, 1 << 20
#: Round trips that ``ping`` makes.
PINGS = 5

Url = Annotated[
    str, typer.Option(envvar="TENSOR_ROUND_URL", help="http://, https:// or unix:///path.")
]
ApiKeyFile = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        help="File whose first line is the API key; without it, TENSOR_ROUND_API_KEY is.",
    ),
]
CaFile = Annotated[
    Path | None, typer.Option(exists=True, help="Certificates to trust in place of the system's.")
]
CertFile = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, help="The client's own certificate, and its key."),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        min=0.001, help="Seconds it may take in all.", show_default="30, and 1 for each MiB"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; errors too, on stderr.")]

app = typer.Typer(
    name="tensor-round",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line."""
    app()


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("tensor-round"))
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Round tensors exactly, through a tensor-round service."""


@app.command("round")
def round_file(
    source: Annotated[
        str, typer.Argument(metavar="IN", help="A .npy file, or - for standard input.")
    ],
    target: Annotated[
        str, typer.Argument(metavar="OUT", help="The .npy file to write, or - for standard output.")
    ],
    rounding: Annotated[
        Rounding, typer.Option(help="The rounding direction.")
    ] = Rounding.TIES_TO_EVEN,
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
    digest: Annotated[
        bool, typer.Option("--digest", help="Verify every byte end to end by SHA-256.")
    ] = False,
    progress: Annotated[
        bool | None,
        typer.Option(help="Show a progress bar.", show_default="on a terminal"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Round a .npy file into another one.

    Files are mapped, so they may be larger than memory. OUT is written beside its place
    and renamed when it is whole; it may be IN.
    """
    tensor = _read(source, dtype)
    if timeout is None:
        timeout = PATIENCE + tensor.array.nbytes / BYTES_A_SECOND
    began = time.monotonic()
    with (
        _connected(url, api_key_file, ca_file, cert_file, timeout, as_json, digest) as client,
        npyfiles.written(target, tensor) as rounded,
    ):
        shows = sys.stderr.isatty() if progress is None else progress
        client.round(tensor.array, rounding, out=rounded, progress=shows)
    seconds = time.monotonic() - began
    if as_json:
        report = {
            "input": source,
            "output": target,
            "rounding": rounding.value,
            "dtype": tensor.dtype.name,
            "shape": list(tensor.header.shape),
            "bytes": tensor.array.nbytes,
            "seconds": round(seconds, 6),
        }
        # Standard output may be the tensor.
        typer.echo(json.dumps(report), err=target == npyfiles.PIPE)


@app.command()
def operators(
    url: Url = DEFAULT_URL,
    api_key_file: ApiKeyFile = None,
    ca_file: CaFile = None,
    cert_file: CertFile = None,
    timeout: Timeout = PATIENCE,
    as_json: AsJson = False,
) -> None:
    """List what the service takes: dialects, versions, data types, modes."""
    with _connected(url, api_key_file, ca_file, cert_file, timeout, as_json) as client:
        catalog = client.operators()
        if as_json:
            typer.echo(json.dumps(catalog))
            return
        table = _table("dialect", "operator", "version", "ranks", "data types", "modes")
        for name, dialect in catalog["dialects"].items():
            for row in dialect["versions"]:
                table.add_row(
                    name,
                    dialect["operator"],
                    row["name"],
                    f"{row['min_rank']}-{row['max_rank']}",
                    " ".join(row["dtypes"]),
                    " ".join(dialect["modes"]) or dialect["default_rounding"],
                )
        Console().print(table)


@app.command()
def conformance(
    url: Url = DEFAULT_URL,
    api_key_file: ApiKeyFile = None,
    ca_file: CaFile = None,
    cert_file: CertFile = None,
    timeout: Timeout = PATIENCE,
    as_json: AsJson = False,
) -> None:
    """Compare the digests of the service's results with those published with this package.

    Exit code 1 if one is not as published.
    """
    with _connected(url, api_key_file, ca_file, cert_file, timeout, as_json) as client:
        proof = client.conformance()
        table = _table("backend", "dtype", *(rounding.value for rounding in Rounding))
        conforms = bool(proof["backends"])
        for backend, rows in proof["backends"].items():
            for dtype in dict.fromkeys(dtype for dtype, _ in DIGESTS):
                cells = [
                    rows.get(dtype, {}).get(rounding.value, {}).get("sha256")
                    == DIGESTS[dtype, rounding.value]
                    for rounding in Rounding
                ]
                conforms = conforms and all(cells)
                table.add_row(backend, dtype, *("yes" if same else "NO" for same in cells))
        if as_json:
            typer.echo(json.dumps({**proof, "matches_this_package": conforms}))
        else:
            Console().print(table)
        if not conforms:
            raise typer.Exit(1)


@app.command()
def ping(
    url: Url = DEFAULT_URL,
    api_key_file: ApiKeyFile = None,
    ca_file: CaFile = None,
    cert_file: CertFile = None,
    timeout: Timeout = PATIENCE,
    as_json: AsJson = False,
) -> None:
    """Ask whether the service is ready, and how long it takes to say so."""
    with _connected(url, api_key_file, ca_file, cert_file, timeout, as_json) as client:
        client.operators()  # raises what keeps the service from answering, if anything does
        durations = []
        for _ in range(PINGS):
            began = time.perf_counter()
            ready = client.ready()
            durations.append((time.perf_counter() - began) * 1e3)
        fastest = round(min(durations), 3)
        if as_json:
            typer.echo(json.dumps({"url": url, "ready": ready, "milliseconds": fastest}))
        else:
            typer.echo(f"{url} is {'ready' if ready else 'not ready'}, {fastest} ms")
        if not ready:
            raise typer.Exit(1)


def _table(*columns: str) -> Table:
    """A table that folds what is too long, and cuts nothing."""
    return Table(*(Column(name, overflow="fold") for name in columns))


def _read(source: str, dtype: str | None) -> npyfiles.NpyArray:
    try:
        return npyfiles.read(source, dtype)
    except npyfiles.DTypeNeeded as error:
        raise typer.BadParameter(str(error), param_hint="--dtype") from None
    except (MalformedNpy, UnsupportedMediaType) as error:
        raise typer.BadParameter(error.detail, param_hint="IN") from None
    except OSError as error:
        raise typer.BadParameter(f"{source}: {error.strerror}", param_hint="IN") from None


@contextlib.contextmanager
def _connected(
    url: str,
    api_key_file: Path | None,
    ca_file: Path | None,
    cert_file: Path | None,
    timeout: float | None,
    as_json: bool,
    digest: bool = False,
) -> Iterator[Client]:
    """A client; what goes wrong while it is used becomes a message and an exit code."""
    try:
        with Client(
            url,
            api_key=_first_line(api_key_file),
            verify=True if ca_file is None else ca_file,
            cert=cert_file,
            timeout=timeout,
            digest=digest,
        ) as client:
            yield client
    except InvalidArgument as error:
        raise typer.BadParameter(error.detail) from None
    except TensorRoundError as error:
        _complain(error, url, as_json)
        raise typer.Exit(1) from None
    except OSError as error:
        typer.echo(f"tensor-round: {error}", err=True)
        raise typer.Exit(1) from None


def _first_line(path: Path | None) -> str | None:
    if path is None:
        return None
    lines = path.read_text().splitlines()
    if not lines or not lines[0].strip():
        raise typer.BadParameter("the file's first line is empty", param_hint="--api-key-file")
    return lines[0].strip()


def _complain(error: TensorRoundError, url: str, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"error": _as_data(error)}), err=True)
        return
    typer.echo(f"tensor-round: {error.detail}", err=True)
    if isinstance(error, RequestRefused):
        typer.echo(f"  refused as {error.code or error.status}", err=True)
        if error.status == 401:
            typer.echo("  --api-key-file or TENSOR_ROUND_API_KEY gives the key", err=True)
    elif isinstance(error, ConnectionFailed):
        typer.echo(
            f"  is a service running at {url}? --url or TENSOR_ROUND_URL says where", err=True
        )
    if error.request_id is not None:
        typer.echo(f"  request {error.request_id}", err=True)


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
