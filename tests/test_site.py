"""Generated pages are current, the site has every page, and its check finds foreign content."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CHECK = ROOT / "tools" / "site" / "check.py"


def test_the_navigation_has_every_page_once() -> None:
    named = re.findall(r": ([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    assert len(named) == len(set(named))
    assert all((ROOT / name).is_file() for name in named)
    pages = {*ROOT.glob("docs/**/*.md"), *(ROOT / name for name in named)}
    # A page that is linked to becomes a page of the site.
    pages |= {
        (page.parent / target).resolve()
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+\.md)", page.read_text())
    }
    assert {str(page.relative_to(ROOT)) for page in pages} == set(named)


def checked(folder: Path, page: str, pages: tuple[str, ...] = ("index.html",)) -> tuple[int, str]:
    """The exit code and the findings, of a site with one page and a search of these pages."""
    (folder / "search").mkdir()
    index = {"docs": [{"location": f"{name}#part", "text": "word"} for name in pages]}
    (folder / "search" / "search_index.json").write_text(json.dumps(index))
    (folder / "index.html").write_text(page)
    done = subprocess.run([sys.executable, CHECK, folder], capture_output=True, text=True)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    "foreign",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<script src="//cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="https://fonts.example/css?family=Roboto">',
        '<link rel="preconnect" href="https://fonts.example">',
        '<img src="http://img.example/badge.svg">',
        '<img src="own.png" srcset="https://img.example/badge.svg 2x">',
        "<style>@import 'https://cdn.example/x.css';</style>",
        '<p style="background: url(https://img.example/x.png)"></p>',
        '<svg><use href="https://img.example/x.svg#a"/></svg>',
        '<pre class="mermaid"></pre>',
    ],
)
def test_content_from_another_host_is_found(foreign: str, tmp_path: Path) -> None:
    code, told = checked(tmp_path, f"<p>{foreign}</p>")
    assert code == 1
    assert "from another host: index.html: " in told


def test_links_to_follow_and_own_files_are_fine(tmp_path: Path) -> None:
    page = '<link rel="stylesheet" href="x.css"><a href="https://rfc.example/">RFC</a>'
    (tmp_path / "x.css").write_text("p { background: url(x.png) }")
    assert checked(tmp_path, page)[0] == 0


def test_a_style_sheet_is_looked_into(tmp_path: Path) -> None:
    (tmp_path / "x.css").write_text("@font-face { src: url('https://fonts.example/a.woff2') }")
    assert checked(tmp_path, "<p></p>")[0] == 1


def test_a_page_that_the_search_misses_is_found(tmp_path: Path) -> None:
    assert checked(tmp_path, "<p></p>", pages=())[0] == 1


def test_generated_pages_are_current() -> None:
    # The end of docs/runtimes.md takes seconds: tests/tools/test_suites.py compares a part of it.
    names = ("sdk", "explanation", "settings", "specifications", ".svg", "rule")
    command = [sys.executable, "-m", "pages", "--check", *names]
    assert subprocess.run(command, cwd=ROOT / "tools").returncode == 0
