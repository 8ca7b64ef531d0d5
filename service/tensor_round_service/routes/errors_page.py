"""The page on errors: a section for each code, with what it means and an example."""

from __future__ import annotations

import html
import inspect
import json
import re

from tensor_round.errors import RequestRefused, problem

from ..openapi.errors import EXAMPLES

_CODE = re.compile(r"``(.+?)``")


def errors_html(title: str) -> str:
    """The page, of HTML alone."""
    sections = sorted(EXAMPLES.values(), key=lambda refusal: (refusal.status, refusal.code))
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            f"<title>Errors of {html.escape(title)}</title></head><body><h1>Errors</h1>",
            "<p>A refused request gets a problem document (RFC 9457): its <code>code</code> says "
            "why, its <code>detail</code> where. Those with Retry-After may be sent again.</p>",
            *map(_section, sections),
            "</body></html>",
        ]
    )


def _section(refusal: RequestRefused) -> str:
    meaning = html.escape(inspect.getdoc(type(refusal)) or "", quote=False)
    meaning = _CODE.sub(r"<code>\1</code>", meaning)
    example = html.escape(json.dumps(problem(refusal), indent=2), quote=False)
    return (
        f'<h2 id="{refusal.code}">{refusal.status} <code>{refusal.code}</code></h2>'
        f"<p>{meaning}</p><pre>{example}</pre>"
    )
