"""Writes the pages, pictures and the PrometheusRule that are made; ``--check`` only compares.

python -m pages [--check] [PART OF A NAME]...
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import indent

from suites import page as suites

from . import deviations, pictures, sdk, settings, specifications

ROOT = Path(__file__).parents[2]
# Kustomize cannot include a file in a resource.
RULE = """\
# Made from deploy/monitoring/alerts.yml by `make docs`.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: tensor-round
spec:
"""
#: By the file: from its present text to the one that it should have.
MADE: dict[str, Callable[[str], str]] = {
    "docs/sdk.md": sdk.page,
    "docs/http.md": sdk.http_page,
    "docs/explanation.md": deviations.page,
    "docs/settings.md": lambda _: settings.page(),
    "docs/specifications.md": lambda _: specifications.page(),
    "docs/runtimes.md": suites.page,
    "docs/staircase.svg": lambda _: pictures.staircase(),
    "docs/casts.svg": lambda _: pictures.casts(),
    "docs/parts.svg": lambda _: pictures.parts(),
    "deploy/kubernetes/overlays/monitoring/prometheus-rule.yaml": lambda _: (
        RULE + indent((ROOT / "deploy/monitoring/alerts.yml").read_text(), "  ")
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="pages", description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*", help="parts of the names of files; default: all")
    options = parser.parse_args()
    stale = []
    for name, make in MADE.items():
        if options.names and not any(part in name for part in options.names):
            continue
        path = ROOT / name
        text = path.read_text()
        if (made := make(text)) != text:
            stale.append(name)
            if not options.check:
                path.write_text(made)
    if options.check and stale:
        print(f"run make docs: {', '.join(stale)}", file=sys.stderr)
    return int(options.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
