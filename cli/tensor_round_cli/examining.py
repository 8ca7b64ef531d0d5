"""``tensor-round doctor``: checks of a service from its caller's side."""

from __future__ import annotations

import json

import typer

from tensor_round.transport.address import Address, is_spread

from .connecting import connected
from .doctor import examine
from .options import (
    BASE_TIMEOUT,
    DEFAULT_URL,
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
    timeout: Timeout = BASE_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Check a service: readiness, version, results, settings, latency and throughput.

    The exit code is 1 if a check finds a fault.
    """
    with connected(url, api_key_file, ca_file, cert_file, timeout, as_json) as client:
        if is_spread(Address.parse_all(url)):
            why = "doctor examines one service, so give one URL"
            raise typer.BadParameter(why, param_hint="URL")
        report = examine(client, url)
    typer.echo(json.dumps(report.as_data()) if as_json else str(report))
    if not report.is_healthy:
        raise typer.Exit(1)
