"""The options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_URL = "http://127.0.0.1:8000"
#: Seconds that a call may take, and bytes for each of which it may take another.
PATIENCE, BYTES_A_SECOND = 30.0, 1 << 20

_URL = "http://, https:// or unix:///path; local: rounds in this process, without a server."
Url = Annotated[str, typer.Option(metavar="URL", envvar="TENSOR_ROUND_URL", help=_URL)]
UrlArgument = Annotated[str, typer.Argument(metavar="URL", envvar="TENSOR_ROUND_URL", help=_URL)]
ApiKeyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="File whose first line is the API key; without it, TENSOR_ROUND_API_KEY is.",
    ),
]
CaFile = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH", exists=True, help="Certificates to trust in place of the system's."
    ),
]
CertFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="The client's own certificate, and its key.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="What it may take in all.",
        show_default="30, and 1 for each MiB",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; errors too, on stderr.")]
Digest = Annotated[bool, typer.Option("--digest", help="Verify every byte end to end by SHA-256.")]
Progress = Annotated[
    bool | None,
    typer.Option(help="Show a progress bar.", show_default="on a terminal"),
]
