"""Writes docs/published-suites.md; ``--check`` only compares, ``--write FOLDER`` writes vectors.

``make docs`` and ``make runtimes`` run it. ONNX's vectors need the onnx package.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import conversions
from .page import PAGE, page
from .published import SUITES
from .score import score
from .vectors import write


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page or the vectors, or say whether the page is current."""
    parser = argparse.ArgumentParser(prog="suites", description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    options = parser.parse_args(arguments)

    scores = [score(suite, dtype) for suite in SUITES for dtype in suite.specified]
    if options.write:
        print(*write(options.write, scores), sep="\n")
        return 0
    text = page(scores, [conversions.score(of) for of in conversions.CONVERSIONS])
    if options.check:
        return 0 if PAGE.exists() and PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
