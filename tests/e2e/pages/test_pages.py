"""README and docs, read as a newcomer does: every block runs where it stands, in order.

A page's blocks go into one terminal and one Python, in an empty folder, or in a copy of the tree.
What a block shows in a comment, or a `text` block below it, is what it prints, and none overwrites
a file.
"""

from __future__ import annotations

import ast
import builtins
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import TextIO

import pytest

from support.pages import ROOT, Block, Reader, blocks
from support.services.server import Service
from tensor_round.contract.operators import registry

PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "bench/*.md", "examples/*.md")
    for path in ROOT.glob(pattern)
)
#: Pages for a reader who has a clone; all others are read in an empty folder.
IN_A_CLONE = ["README.md", "docs/tutorial.md"]
PROGRAMS = Path(sys.executable).parent
RUN = ("sh", "python", "json")

#: How many blocks do not run here, as their first line tells a reader: `# needs ...`.
ELSEWHERE = {
    "README.md": 4,  # tests/packaging/test_release.py, test_installed.py, make test-oracles
    "bench/README.md": 1,
    "docs/api-policy.md": 1,
    "docs/containers.md": 5,  # make test-images
    # test_stops.py and tests/packaging/test_deploy_files.py, make test-edge, make test-ray
    "docs/deploy.md": 6,
    "docs/exactness.md": 1,  # tests/tools/proof
    "docs/gpu.md": 5,
    # tests/interop/oracles/test_howto.py
    "docs/howto/directml-to-onnx.md": 2,
    "docs/howto/find-the-wrong-runtime.md": 4,
    "docs/howto/large-arrays.md": 3,
    "docs/howto/port-a-quantized-model.md": 3,
    "docs/open-inference.md": 2,  # make test-interop
    "docs/sdk.md": 2,  # make test-oracles
    "docs/verify.md": 4,  # test_beside_blocks.py, make test-oracles
    "docs/web.md": 1,  # make test-web
    "examples/README.md": 5,  # test_examples.py
}
#: Blocks that are no code: figures, and signatures in sdk.md's reference (test_beside_blocks.py).
NO_CODE = {
    ("docs/architecture.md", "text"): 3,
    ("docs/exactness.md", "text"): 1,
    ("docs/containers.md", "yaml"): 2,
    ("docs/howto/find-the-wrong-runtime.md", ""): 1,  # test_howto.py
    ("docs/howto/port-a-quantized-model.md", ""): 1,  # test_howto.py
    ("docs/operations.md", "text"): 1,
    ("docs/verify.md", ""): 1,
    ("docs/verify.md", "text"): 1,
    ("docs/verify.md", "c"): 1,  # test_beside_blocks.py
    ("docs/verify.md", "yaml"): 1,  # test_beside_blocks.py
    ("docs/web.md", "js"): 1,  # make test-web
}


def own_blocks(page: str) -> list[Block]:
    """A page's blocks, but for those of a reference that is made by a program."""
    text = (ROOT / page).read_text()
    made = text.count("\n", 0, text.find("<!-- reference: begin -->"))
    return [block for block in blocks(page) if made <= 0 or block.line < made]


def with_outputs(page: str) -> Iterator[tuple[Block, Block | None]]:
    """A page's own blocks, each with the block that shows its output; not those as such."""
    found = own_blocks(page)
    pairs = [(before, after) for before, after in pairwise(found) if after.is_output_of(before)]
    outputs = {before.line: after for before, after in pairs}
    for block in found:
        if block not in outputs.values():
            yield block, outputs.get(block.line)


class Started(Service):
    """The service as a block starts it, but on a port that is free."""

    def __init__(self, block: Block, reader: Reader) -> None:
        super().__init__()
        self._block, self._reader = block, reader

    def _start(self) -> tuple[subprocess.Popen[bytes], TextIO]:
        read, write = os.pipe()
        process = subprocess.Popen(
            ["bash", "-euc", self._block.text],
            cwd=self._reader.folder,
            env={**self._reader.environment, "PORT": "0", "TENSOR_ROUND_PORT": "0"},
            stderr=write,
            process_group=0,
        )
        os.close(write)
        return process, open(read)

    def __exit__(self, *_fault: object) -> None:
        os.killpg(self.process.pid, signal.SIGINT)  # Ctrl-C
        self.process.wait(60)


@pytest.fixture(scope="module")
def plain() -> Iterator[Service]:
    """`make serve`, where a page does not start a service itself."""
    with Service() as running:
        yield running


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The tree, with an environment that is set up: what it needs is here already."""
    left_out = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "node_modules")
    folder = Path(shutil.copytree(ROOT, tmp_path / "clone", ignore=left_out))
    environment = folder / ".venv"
    environment.mkdir()
    for entry in Path(sys.prefix).iterdir():
        (environment / entry.name).symlink_to(entry)
    for mark in (".service", ".cuda12", ".cuda13"):  # what make would install, on a GPU too
        (environment / mark).unlink(missing_ok=True)
        (environment / mark).touch()
    return folder


def read(page: str, reader: Reader, plain: Service) -> int:
    """Run a page; how many blocks ran."""
    service, ran = plain, 0
    with reader, ExitStack() as started:
        for block, below in with_outputs(page):
            if block.needs or block.language not in RUN:
                continue
            ran += 1
            if block.serves:
                started.close()  # the one before makes room for it
                service = started.enter_context(Started(block, reader))
            elif block.language == "json":
                registry.parse(block.text.encode()).resolve()
            else:
                reader.read(block, service.url, below)
    return ran


@pytest.mark.slow
@pytest.mark.parametrize("page", IN_A_CLONE)
def test_page_for_a_clone_runs_there(page: str, clone: Path, plain: Service) -> None:
    before = files_of(clone)
    assert read(page, Reader(clone), plain) >= 5
    assert files_of(clone) == before, "files that git does not ignore"


def files_of(clone: Path) -> set[Path]:
    """The files of a clone, without what .gitignore names."""
    ignored = {"build", "__pycache__", ".venv", ".pytest_cache"}
    return {file for file in clone.rglob("*") if not ignored & {*file.relative_to(clone).parts}}


def test_python_of_the_tutorial_needs_no_earlier_terminal() -> None:
    for block in blocks("docs/tutorial.md"):
        if block.language == "python":
            names = [node for node in ast.walk(ast.parse(block.text)) if isinstance(node, ast.Name)]
            made = {node.id for node in names if isinstance(node.ctx, ast.Store)}
            made |= {
                alias.asname or alias.name
                for node in ast.walk(ast.parse(block.text))
                if isinstance(node, ast.Import | ast.ImportFrom)
                for alias in node.names
            }
            assert {node.id for node in names} <= made | {*dir(builtins)}, block.line


WITH_CODE = [page for page in PAGES if page not in IN_A_CLONE and own_blocks(page)]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE)
def test_page_runs_in_an_empty_folder(page: str, tmp_path: Path, plain: Service) -> None:
    runs = [b for b in own_blocks(page) if b.language in RUN and not b.needs]
    assert read(page, Reader(tmp_path, PROGRAMS), plain) == len(runs)


def test_every_block_runs_or_is_listed() -> None:
    found = [(page, block) for page in PAGES for block, _ in with_outputs(page)]
    assert Counter(page for page, b in found if b.needs) == ELSEWHERE
    unrun = Counter((page, b.language) for page, b in found if b.language not in RUN)
    assert unrun == NO_CODE


def test_every_fence_is_a_block() -> None:
    for page in PAGES:
        fences = re.findall(r"^\s*```", (ROOT / page).read_text(), re.M)
        assert len(fences) == 2 * len(blocks(page)), page


def anchors(page: Path) -> set[str]:
    """The fragments of a page's headings: words in small letters, with hyphens between."""
    lines = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.*)$", lines, re.M)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles)
    return {re.sub(r"[^\w -]", "", title).replace(" ", "-") for title in plain}


def test_every_link_leads_to_a_file_and_a_heading_of_it() -> None:
    for page in PAGES:
        document = ROOT / page
        for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", document.read_text()):
            if "://" not in target:
                file = document.parent / target if target else document
                assert file.exists(), f"{page}: {target}"
                assert not anchor or anchor in anchors(file), f"{page}: {target}#{anchor}"


def test_every_table_has_a_head() -> None:
    for page in PAGES:
        heads = re.findall(r"^\|(.*)\|\n\|[-|: ]+\|$", (ROOT / page).read_text(), re.M)
        bare = [head for head in heads if not head.replace("|", "").strip()]
        assert not bare, page
