"""Runtimes that get no verdict."""

from __future__ import annotations

from typing import Any

import pytest

from tensor_round_verify import (
    CannotVerify,
    verify,
)


def why_not(runtime: Any, **options: Any) -> str:
    """The one line that stands in place of a verdict."""
    with pytest.raises(CannotVerify) as caught:
        verify(runtime, **options)
    assert "\n" not in caught.value.detail
    return caught.value.detail
