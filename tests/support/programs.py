"""The programs in examples/, run as the pages tell a reader to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from support.pages import ROOT, blocks

EXAMPLES = ROOT / "examples"
PAGE = "examples/README.md"


@dataclass(frozen=True)
class Program:
    """A program that is not Python, and what building and running it needs."""

    source: str
    tools: tuple[str, ...]
    #: A C header that the first tool must find too.
    header: str | None = None

    def missing(self) -> str | None:
        """What it needs and this machine lacks, in words; None if it can run."""
        for tool in self.tools:
            if shutil.which(tool) is None:
                return f"{tool} is not installed"
        if self.header:
            command = [self.tools[0], "-E", "-"]
            text = f"#include <{self.header}>\n".encode()
            if subprocess.run(command, input=text, capture_output=True).returncode:
                return f"the header {self.header} is not installed"
        return None

    def run(self, folder: Path, url: str) -> str:
        """What the page's commands for it print, in this folder.

        Raises :class:`AssertionError`, with the commands' errors, where one fails.
        """
        shutil.copy(EXAMPLES / self.source, folder)
        scripts = [b.text for b in blocks(PAGE) if b.language == "sh" and b.needs]
        (script,) = [text for text in scripts if self.source in text]
        return _run(["bash", "-euc", script], folder, url)


def python(source: str, folder: Path, url: str) -> str:
    """What an example in Python prints, run by this Python."""
    return _run([sys.executable, str(EXAMPLES / source)], folder, url)


def _run(command: Sequence[str], folder: Path, url: str) -> str:
    environment = {**os.environ, "TENSOR_ROUND_URL": url}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


#: Each prints OUTPUT.
PROGRAMS = [
    Program("round.c", ("cc",), header="curl/curl.h"),
    Program("round.mjs", ("node",)),
    Program("round.rs", ("rustc",)),
    Program("round.go", ("go",)),
    Program("Round.cs", ("mcs", "mono")),
]
OUTPUT = "-3 -0 1 2 3\n"
