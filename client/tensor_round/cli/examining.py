"""``tensor-round doctor``: whether a service works, as its caller sees it."""

from __future__ import annotations

import json

import typer

from ..doctor import examine
from .connecting import connected
from .options import (
    DEFAULT_URL,
    PATIENCE,
    ApiKeyFile,
    AsJson,
    CaFile,
    CertFile,
    Timeout,
    UrlArgument,
)


def doctor(
    url: UrlArgument = DEFAULT_URL,
    api_key_file: ApiKeyFile = None,
    ca_file: CaFile = None,
    cert_file: CertFile = None,
    timeout: Timeout = PATIENCE,
    as_json: AsJson = False,
) -> None:
    """Examine a service: readiness, versions, every bit, settings, latency and throughput.

    Exit code 1 if something is wrong.
    """
    with connected(url, api_key_file, ca_file, cert_file, timeout, as_json) as client:
        report = examine(client, url)
    typer.echo(json.dumps(report.as_data()) if as_json else str(report))
    if not report.is_healthy:
        raise typer.Exit(1)
