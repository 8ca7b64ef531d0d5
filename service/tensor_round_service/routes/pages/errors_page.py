"""The page on errors: a section for each code, with its meaning and an example."""

from __future__ import annotations

import html
import inspect
import json
import re

from tensor_round.contract.errors import RequestRefused, problem

from ...openapi.errors import EXAMPLES

_CODE = re.compile(r"``(.+?)``")


def errors_html(title: str) -> str:
    """The page as HTML, without scripts."""
    sections = sorted(EXAMPLES.values(), key=lambda refusal: (refusal.status, refusal.code))
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            f"<title>Errors of {html.escape(title)}</title></head><body><h1>Errors</h1>",
            "<p>The response to a refused request is a problem document (RFC 9457). Its "
            "<code>code</code> names the kind of error, its <code>detail</code> the error itself. "
            "Requests with Retry-After in the response may be retried.</p>",
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
