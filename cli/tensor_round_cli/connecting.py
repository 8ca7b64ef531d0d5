"""The options that several commands have, and a client made from them."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from tensor_round.clients.client import Client
from tensor_round.clients.options import DEFAULT_URL as DEFAULT_URL
from tensor_round.contract.errors import InvalidArgument, TensorRoundError

from .errors import print_error, print_file_error

#: The default timeout: so many seconds, and one more for each so many bytes.
BASE_TIMEOUT, TIMEOUT_BYTES_PER_SECOND = 30.0, 1 << 20

_URL = (
    "http://, https:// or unix:///path, or several with commas; ray://host:port; local: for none."
)
Url = Annotated[str, typer.Option(metavar="URL", envvar="TENSOR_ROUND_URL", help=_URL)]
UrlArgument = Annotated[str, typer.Argument(metavar="URL", envvar="TENSOR_ROUND_URL", help=_URL)]
ApiKeyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="File whose first line is the API key. Default: TENSOR_ROUND_API_KEY.",
    ),
]
CaFile = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH", exists=True, help="Trusted certificates, in place of the system's."
    ),
]
CertFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="The client's own certificate with its key.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="Limit for the whole command.",
        show_default="30, and 1 for each MiB",
    ),
]
Connections = Annotated[
    int, typer.Option(metavar="N", min=1, help="The most connections, and tiles under way.")
]
TileBytes = Annotated[
    int, typer.Option(metavar="BYTES", min=1, help="The most bytes of a tile, which is a request.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print results, and errors on stderr, as JSON.")
]
Digest = Annotated[
    bool, typer.Option("--digest", help="Verify payloads end to end by SHA-256 (RFC 9530).")
]
Progress = Annotated[
    bool | None,
    typer.Option(help="Show a progress bar.", show_default="on a terminal"),
]


@contextlib.contextmanager
def connected(
    url: str,
    api_key_file: Path | None,
    ca_file: Path | None,
    cert_file: Path | None,
    timeout: float | None,
    as_json: bool,
    digest: bool = False,
    connections: int = 4,
    tile_bytes: int = 64 << 20,
) -> Iterator[Client]:
    """Yield a client; its errors become messages on stderr and exit codes."""
    try:
        with Client(
            url,
            api_key=_first_line(api_key_file),
            verify=True if ca_file is None else ca_file,
            cert=cert_file,
            timeout=timeout,
            digest=digest,
            connections=connections,
            tile_bytes=tile_bytes,
        ) as client:
            yield client
    except InvalidArgument as error:
        raise typer.BadParameter(error.detail) from None
    except TensorRoundError as error:
        print_error(error, url, as_json)
        raise typer.Exit(1) from None
    except BrokenPipeError:
        # The reader of standard output has closed it, as head does. Python will flush it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except OSError as error:
        print_file_error(error, as_json)
        raise typer.Exit(1) from None


def _first_line(path: Path | None) -> str | None:
    if path is None:
        return None
    hint = "--api-key-file"
    try:
        with path.open(encoding="utf-8") as file:
            line = file.readline().strip()
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}", param_hint=hint) from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{path} is not a text file", param_hint=hint) from None
    if not line:
        raise typer.BadParameter(f"the first line is empty in {path}", param_hint=hint)
    return line
