"""Fails where a built site would load something from another host, or its search lacks a page.

Run as ``check.py FOLDER``. Links that a reader follows may lead anywhere; scripts, styles, fonts
and images come with the site.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

#: What a browser loads by itself: an element, and the attribute that says from where.
_LOADED = {
    ("script", "src"), ("img", "src"), ("img", "srcset"), ("iframe", "src"), ("source", "src"),
    ("source", "srcset"), ("video", "src"), ("audio", "src"), ("embed", "src"), ("object", "data"),
    ("image", "href"), ("use", "href"), ("form", "action"),
}  # fmt: skip
#: Links by which a browser loads nothing.
_FOLLOWED = {"canonical", "next", "prev", "alternate", "license"}
#: At which people read technical text.
WORDS_A_MINUTE = 230
_FOREIGN = re.compile(r"(?:https?:)?//", re.I)
_STYLE = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s;]+)""", re.I)


class _Page(HTMLParser):
    """Collects what a page loads from other hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        loads = [value for name, value in values.items() if (tag, name) in _LOADED]
        if tag == "link" and values.get("rel") not in _FOLLOWED:
            loads.append(values.get("href", ""))
        # Material's script loads a library for diagrams from a CDN where it meets this class.
        if "mermaid" in values.get("class", "").split():
            self.foreign.append("mermaid")
        self.foreign += [value for value in loads if _FOREIGN.match(value.strip())]
        self.foreign += _STYLE.findall(values.get("style", ""))


def foreign(folder: Path) -> Iterator[str]:
    """Every reference of a built site by which a browser would ask another host."""
    for path in sorted(folder.rglob("*")):
        found: list[str] = []
        if path.suffix == ".html":
            page = _Page()
            text = path.read_text()
            page.feed(text)
            styles = re.findall(r"<style[^>]*>(.*?)</style>", text, re.S)
            found = [*page.foreign, *_STYLE.findall("\n".join(styles))]
        elif path.suffix in (".css", ".svg"):
            found = _STYLE.findall(path.read_text())
        yield from (f"{path.relative_to(folder)}: {reference}" for reference in found)


def words(folder: Path) -> Counter[str]:
    """The words of each page that the site's search knows."""
    index = json.loads((folder / "search" / "search_index.json").read_text())
    found: Counter[str] = Counter()
    for entry in index["docs"]:  # a page's, and one for each of its sections
        found[entry["location"].partition("#")[0]] += len(entry["text"].split())
    return found


def main() -> int:
    """Print what is wrong with the site in the folder; 1 if anything is."""
    folder = Path(sys.argv[1])
    faults = [f"from another host: {reference}" for reference in foreign(folder)]
    pages = {str(p.relative_to(folder)) for p in folder.rglob("*.html")} - {"404.html"}
    lengths = words(folder)
    faults += [f"not in the search: {page}" for page in sorted(pages - lengths.keys())]
    for page, count in lengths.most_common():
        print(f"{count:6,} words {count / WORDS_A_MINUTE:3.0f} minutes  {page}")
    print(*faults, sep="\n", end="\n" if faults else "")
    minutes = sum(lengths.values()) / WORDS_A_MINUTE
    print(f"{folder}: {len(pages)} pages, {minutes:.0f} minutes of reading")
    return 1 if faults or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
