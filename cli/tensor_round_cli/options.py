"""The options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_URL = "http://127.0.0.1:8000"
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
