"""Requests made from the OpenAPI document, at a real service, by schemathesis in its own venv."""

from __future__ import annotations

import subprocess
from pathlib import Path

from stress.metrics import Report
from support.services.server import Service, tracebacks

SCHEMATHESIS = Path(".venvs/fuzz/bin/schemathesis")
CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
#: No 5xx but the protocol's own, no status and no type of content that the document does
#: not name for the operation, and content as it describes it.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


def run(examples: float, seed: int) -> Report:
    """The row of the table: so many requests to each operation at the most."""
    if not SCHEMATHESIS.exists():
        return Report("", ["schemathesis is not installed: make fuzz installs it"])
    with Service("--receive-timeout", "1", "--shared-memory-prefix", "fuzz") as service:
        command = [
            str(SCHEMATHESIS),
            "--config-file",
            str(CONFIGURATION),
            "run",
            f"{service.url}/openapi.json",
            "--checks",
            ",".join(CHECKS),
            "--seed",
            str(seed),
            "--max-examples",
            f"{examples:.0f}",
            "--continue-on-failure",
            "--no-color",
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    report = Report(done.stdout, tracebacks(service.log))
    report.expect(f"schemathesis ended with {done.returncode}", done.returncode == 0)
    return report
