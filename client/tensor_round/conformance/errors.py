"""Why there is no verdict on a runtime, or on a part of what it does."""

from __future__ import annotations

from ..errors import CannotVerify


class NotTaken(CannotVerify):
    """The runtime does not round this type in this direction."""


__all__ = ["CannotVerify", "NotTaken"]
