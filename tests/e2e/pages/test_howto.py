"""What pages say beside their blocks is so."""

from __future__ import annotations

import re

from support.pages import ROOT, blocks

#: What only GitHub, or a release, can do.
NOT_HERE = {"pip install 'tensor-round[cli]'"}


def test_the_workflow_runs_what_the_page_runs() -> None:
    page = "docs/verify.md"
    (workflow,) = [block.text for block in blocks(page) if block.language == "yaml"]
    steps = set(re.findall(r"- run: (.*)", workflow)) - NOT_HERE
    shown = {line for b in blocks(page) if b.language == "sh" for line in b.text.splitlines()}
    assert steps
    assert steps <= shown


def test_the_nginx_page_names_what_the_file_has() -> None:
    page = (ROOT / "docs/deploy.md").read_text()
    page = page.partition("## Behind nginx")[2].partition("## Several")[0]
    configuration = (ROOT / "deploy/nginx.conf").read_text()
    settings = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", page)) - {"misdirected_host"}
    assert len(settings) >= 3
    assert all(f"{name} " in configuration for name in settings), settings
