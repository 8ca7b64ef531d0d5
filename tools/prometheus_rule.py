"""Writes the PrometheusRule of deploy/kubernetes from alerts.yml; ``--check`` only compares."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import indent

DEPLOY = Path(__file__).parents[1] / "deploy"
# Kustomize cannot include a file in a resource.
ALERTS = DEPLOY / "monitoring" / "alerts.yml"
RULE = DEPLOY / "kubernetes" / "overlays" / "monitoring" / "prometheus-rule.yaml"

HEAD = """\
# Made from deploy/monitoring/alerts.yml by `make docs`.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: tensor-round
spec:
"""


def main() -> int:
    text = HEAD + indent(ALERTS.read_text(), "  ")
    if "--check" in sys.argv:
        return 0 if RULE.read_text() == text else 1
    RULE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
