"""This package's version: bare of a release, with its commit of any other tree.

The build backend asks :func:`of_tree`. An installed wheel has the answer in its metadata; a clone
that is installed as editable, or on PYTHONPATH, reads its own ``.git``.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

#: The version that is released next, or was released by the tag ``v<RELEASE>``.
RELEASE = "0.2.0"
_ROOT = Path(__file__).parents[3]


def of_tree(root: Path = _ROOT) -> str:
    """The version of the tree in a folder, as in 0.2.0+g1a2b3c4d.

    Bare if the tag ``v<RELEASE>`` names its commit. ``+unknown`` if it has no ``.git``, or one
    whose references are not files. It needs no git.
    """
    try:
        folder, common = _repository(root / ".git")
        head = (folder / "HEAD").read_text().strip()
        commit = _commit(common, head[5:]) if head.startswith("ref: ") else head
        released = _commit(common, f"refs/tags/v{RELEASE}")
    except OSError:
        commit = released = None
    if commit is None:
        return f"{RELEASE}+unknown"
    return RELEASE if commit == released else f"{RELEASE}+g{commit[:8]}"


def _repository(git: Path) -> tuple[Path, Path]:
    """The folders of HEAD and of the references, by gitrepository-layout(5)."""
    if git.is_file():
        git = git.parent / git.read_text().removeprefix("gitdir:").strip()
    common = git / "commondir"
    return git, git / common.read_text().strip() if common.is_file() else git


def _commit(common: Path, reference: str) -> str | None:
    """The commit of a branch or a tag: from its file, else from the list of packed ones."""
    if (file := common / reference).is_file():
        return _peeled(common, file.read_text().strip())
    packed = common / "packed-refs"
    lines = packed.read_text() if packed.is_file() else ""
    found = re.search(rf"^(\w+) {re.escape(reference)}$(?:\n\^(\w+))?", lines, re.MULTILINE)
    return found and (found[2] or found[1])


def _peeled(common: Path, name: str) -> str:
    """The commit of an annotated tag, which is an object; any other name as it is."""
    file = common / "objects" / name[:2] / name[2:]
    content = zlib.decompress(file.read_bytes()) if file.is_file() else b""
    tagged = re.match(rb"tag \d+\0object (\w+)\n", content)
    return tagged[1].decode() if tagged else name


def _installed() -> str:
    if (_ROOT / ".git").exists():
        return of_tree()
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tensor-round")
    except PackageNotFoundError:
        return of_tree()


__version__ = _installed()
