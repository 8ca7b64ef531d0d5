"""Who gets the page from ``GET /``, and who JSON."""

from __future__ import annotations

import pytest

from tensor_round_service.pages import wants_html

CHROMIUM = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
PROGRAMS = ["", "*/*", "application/json", "application/json, text/plain, */*", "image/png"]


@pytest.mark.parametrize("accept", [CHROMIUM, "text/html", "text/html, application/json;q=0.9"])
def test_browsers_want_html(accept: str) -> None:
    assert wants_html(accept)


@pytest.mark.parametrize("accept", [*PROGRAMS, "application/json, text/html", "text/html;q=0"])
def test_programs_do_not(accept: str) -> None:
    assert not wants_html(accept)
