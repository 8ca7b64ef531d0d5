"""Requests made from the OpenAPI document, at a real service: schemathesis, in its own venv.

python -m fuzz.openapi .venvs/fuzz/bin/schemathesis --seed 1
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from support.services.server import Service

CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
#: No 5xx but the protocol's own, no status and no type of content that the document does
#: not name for the operation, and content as it describes it.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("schemathesis")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--examples", type=int, default=300)
    options = parser.parse_args()
    with Service("--receive-timeout", "1", "--shared-memory-prefix", "fuzz") as service:
        command = [
            *(options.schemathesis, "--config-file", str(CONFIGURATION)),
            *("run", f"{service.url}/openapi.json"),
            *("--checks", ",".join(CHECKS), "--seed", str(options.seed)),
            *("--max-examples", str(options.examples), "--continue-on-failure", "--no-color"),
        ]
        code = subprocess.run(command, check=False).returncode
    logged = [line for line in service.log if "Traceback" in line]
    print(f"{len(logged)} unforeseen failures in the service's log")
    return 1 if logged else code


if __name__ == "__main__":
    sys.exit(main())
