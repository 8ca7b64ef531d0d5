"""The errors of verification: there is no verdict on a runtime, or on one dtype and direction."""

from __future__ import annotations

from tensor_round.contract.errors import CannotVerify


class NotTaken(CannotVerify):
    """The runtime does not support this dtype or direction."""


__all__ = ["CannotVerify", "NotTaken"]
