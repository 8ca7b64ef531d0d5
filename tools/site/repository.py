"""The site's files, under the paths that they have in the repository: a hook of MkDocs.

MkDocs serves one folder; here pages lie in several, and link to each other and to sources by
relative paths. Every page named in the navigation becomes a page of the site, and every other file
of the repository that a page links to is copied beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\(([^)#?\s]+)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Return the theme's files and the repository's."""
    theme = [file for file in files if file.src_dir != config.docs_dir]
    pages = {*ROOT.glob("docs/**/*.md"), *(ROOT / path for path in _paths(config.nav))}
    found = {page.resolve() for page in pages if page.is_file()}
    linked = {target for page in found for target in _linked(page)}
    copied = {ROOT / path for path in config.extra["polyfills"]}
    return Files(
        [*theme, *(_file(path, config) for path in sorted(found | copied | (linked - found)))]
    )


def on_page_markdown(_text: str, *, page: Page, **_context: object) -> None:
    """Rank the search's hits in docs/ above those in notes, changes and rules."""
    if not page.file.src_uri.startswith(("docs/", "README.md")):
        page.meta["search"] = {"boost": 0.3}


def _paths(nav: object) -> Iterator[str]:
    """Every path in a navigation, however deep."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, list):
        for entry in nav:
            yield from _paths(entry)
    elif isinstance(nav, dict):
        for entry in nav.values():
            yield from _paths(entry)


def _linked(page: Path) -> Iterator[Path]:
    """The files inside the repository that a page links to."""
    for target in _LINK.findall(page.read_text()):
        path = (page.parent / target).resolve()
        if "://" not in target and path.is_file() and path.is_relative_to(ROOT):
            yield path


def _file(path: Path, config: MkDocsConfig) -> File:
    uri = PurePosixPath(path.relative_to(ROOT)).as_posix()
    return File.generated(config, uri, abs_src_path=str(path))
