"""The examples on a page of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Where examples expect a service.
URL = "http://127.0.0.1:8000"


def examples(page: str, language: str = "python") -> list[str]:
    """The fenced blocks of exactly this language, in order."""
    text = (ROOT / page).read_text()
    return re.findall(rf"^```{re.escape(language)}\n(.*?)^```$", text, re.M | re.S)
