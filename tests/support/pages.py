"""The examples on a page of the documentation and in examples/, run as a reader runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[2]
#: Where examples expect a service.
URL = "http://127.0.0.1:8000"
_PORT = re.compile(r"(?<=127\.0\.0\.1:)8000|(?<=localhost:)8000")
_BLOCK = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.M)
#: A block that begins so runs only where there is what it names.
_NEEDS = re.compile(r"# needs (.*)")
_SERVES = re.compile(r"^(?:\w+=\S+ )*(?:make serve|tensor-round-service)\b", re.M)
#: An output, shown behind what prints it or on a line of its own.
_OUTPUT = re.compile(r"(?:^|print\(.*)# ([\[({].*)", re.M)
_DONE = "-- done --"
_PYTHON = f"""
import json, sys
names = {{"__name__": "__main__"}}
for line in sys.stdin:
    exec(compile(json.loads(line), "example", "exec"), names)
    print("\\n{_DONE}", flush=True)
"""


@dataclass(frozen=True)
class Block:
    """A fenced block, and the line of the page that it begins on."""

    language: str
    text: str
    line: int

    @property
    def needs(self) -> str | None:
        """What not every machine has, in the words of the block's first line."""
        found = _NEEDS.match(self.text)
        return found[1] if found else None

    @property
    def serves(self) -> bool:
        """Whether it starts a service, and so takes a terminal for itself."""
        return self.language == "sh" and _SERVES.search(self.text) is not None

    @property
    def outputs(self) -> list[str]:
        """What it shows as printed: arrays, tuples, JSON."""
        return _OUTPUT.findall(self.text)

    def is_output_of(self, before: Block) -> bool:
        """Whether it is the output, below a command, of the block that stands before it."""
        end = before.line + before.text.count("\n") + 1
        runs = before.language == "sh" and not before.needs
        return self.language == "text" and runs and self.line == end + 2

    def check(self, printed: list[str], output: Block | None = None) -> None:
        """Assert that it prints what it shows, and, where it shows anything, nothing else."""
        if output is not None:
            shown = [line for line in output.text.splitlines() if line]
            assert printed == shown, f"line {output.line}: {printed}"
            return
        if self.language == "sh" and not self.outputs:
            return
        lines, comments = _unspaced(printed), _unspaced(re.findall(r"# (.*)", self.text))
        told = f"line {self.line} prints {printed}"
        assert set(_unspaced(self.outputs)) <= set(lines), told
        assert all(any(c.startswith(line) for c in comments) for line in lines), told


def _unspaced(lines: list[str]) -> list[str]:
    """Lines without their spaces: NumPy's depend on its version."""
    return [re.sub(r"\s", "", line) for line in lines]


def blocks(page: str) -> list[Block]:
    """All fenced blocks of a page, in order."""
    text = (ROOT / page).read_text()
    return [
        Block(found[1], found[2], text.count("\n", 0, found.start()) + 1)
        for found in _BLOCK.finditer(text)
    ]


def examples(page: str, language: str = "python") -> list[str]:
    """The texts of the blocks of this language, but for those that need what is not here."""
    return [b.text for b in blocks(page) if b.language == language and not b.needs]


class Reader:
    """Pastes blocks into one terminal and one Python, in a folder; a context manager.

    ``programs`` is the folder that an activated environment adds to the terminal's PATH.
    """

    def __init__(self, folder: Path, programs: Path | None = None) -> None:
        self.folder = folder
        # Nothing of the environment that this process runs in.
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
        own = os.path.dirname(sys.executable)
        path = [p for p in kept["PATH"].split(os.pathsep) if p != own]
        if programs is not None:
            path.insert(0, str(programs))
        self.environment = {**kept, "PATH": os.pathsep.join(path)}
        self._shell: _Session | None = None
        self._python: _Session | None = None

    def read(self, block: Block, url: str, output: Block | None = None) -> None:
        """Run a block where its service is at this URL.

        ``output`` is the block that shows what it prints, if there is one.

        Raises :class:`AssertionError` where it fails, overwrites a file that was there, or prints
        something else than it shows.
        """
        before = self._files()
        code = _PORT.sub(url.rpartition(":")[2], block.text)
        lines = self._in_shell(code, url) if block.language == "sh" else self._in_python(code, url)
        after = self._files()
        changed = {name for name, stamp in before.items() if after.get(name) != stamp}
        assert not changed, f"line {block.line} overwrites {', '.join(sorted(changed))}"
        block.check(lines, output)

    def _in_shell(self, code: str, url: str) -> list[str]:
        if self._shell is None:
            # For commands that are told no URL.
            environment = {**self.environment, "TENSOR_ROUND_URL": url}
            self._shell = _Session(["bash", "-eu"], self.folder, environment)
        return self._shell.run(f"{{\n{code}\n}} </dev/null\nprintf '\\n%s\\n' '{_DONE}'\n")

    def _in_python(self, code: str, url: str) -> list[str]:
        if self._python is None:
            # In the terminal's folder, as the pages have it.
            python, folder = self._in_shell("command -v python; pwd", url)
            self._python = _Session([python, "-c", _PYTHON], Path(folder), self.environment)
        return self._python.run(json.dumps(code) + "\n")

    def _files(self) -> dict[str, tuple[int, int]]:
        """Size and time of all that is there but caches and environments."""
        found = {}
        for folder, folders, names in os.walk(self.folder):
            folders[:] = [name for name in folders if not name.startswith((".", "__"))]
            for name in names:
                stamp = os.stat(os.path.join(folder, name))
                found[os.path.join(folder, name)] = (stamp.st_size, stamp.st_mtime_ns)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_fault: object) -> None:
        for session in (self._python, self._shell):
            if session is not None:
                session.end()


class _Session:
    """A program that runs what it reads, and says when it has."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        with tempfile.NamedTemporaryFile(delete=False) as faults:
            self._faults = Path(faults.name)
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=faults,
                text=True,
            )

    def run(self, text: str) -> list[str]:
        """The lines that it prints; :class:`AssertionError`, with its errors, where it ends."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()
        lines = []
        for line in self._process.stdout:
            if line.strip() == _DONE:
                return [line for line in lines if line]
            lines.append(line.rstrip("\n"))
        raise AssertionError("\n".join([text, *lines, self._faults.read_text()]))

    def end(self) -> None:
        """Let it read to the end."""
        self._process.communicate(timeout=30)
        self._faults.unlink()


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

    def run(self, folder: Path, url: str, text: str | None = None) -> str:
        """What the page's commands for it, or for another ``text`` of it, print in this folder.

        Raises :class:`AssertionError`, with the commands' errors, where one fails.
        """
        (folder / self.source).write_text(text or (EXAMPLES / self.source).read_text())
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
